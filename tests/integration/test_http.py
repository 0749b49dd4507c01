"""Requests over HTTP through pipelines, with real clients, in one process and in several."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import JobCancelled
from engine.errors import GraphError
from engine.gateway import Request, Response
from engine.programs.ports import free_port
from operators import combine, source
from operators.sinks import Discard
from operators.sources import Collection, HttpSource, Models
from operators.stream import Stream
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


class Client:
    """One connection, which is kept as long as this is."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def __del__(self) -> None:
        self._connection.close()

    def __call__(
        self, method: str = "GET", target: str = "/", body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        self._connection.request(method, target, body, headers)
        response = self._connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()


@contextmanager
def served(
    handle: Callable[[Stream[Request]], Stream[Response]], runtime: str = "local", **settings: Any
) -> Iterator[tuple[int, engine.JobHandle]]:
    """The port of a job that serves, while it runs; then it is cancelled."""
    port = free_port()
    config = settings.pop("config", {})
    requests = source(HttpSource(port, **settings)).on_nodes(0)
    job = engine.submit(handle(requests).respond(), runtime=runtime, progress="none", **config)
    try:
        wait_until(lambda: is_ready(port) or not is_running(job))
        yield port, job
    finally:
        job.cancel()
        with suppress(JobCancelled, engine.OperatorError):
            job.wait_finished(300)


def is_running(job: engine.JobHandle) -> bool:
    try:
        job.wait_finished(0)
    except TimeoutError:
        return True
    except engine.EngineError:
        return False
    return False


def is_ready(port: int) -> bool:
    try:
        return Client(port)("GET", "/-/readyz")[0] == 200
    except OSError:
        return False


def told(request: Request) -> Response:
    """What the request says of itself."""
    return request.reply(
        {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "kind": request.headers.get("x-kind"),
            "body": request.text(),
            "waits": request.deadline > time.time(),
        },
        status=201,
        headers={"x-answer": "yes"},
    )


@pytest.mark.once_on_ray
@pytest.mark.parametrize("tasks", [1, 2])
def test_a_request_and_its_answer(runtime: str, tasks: int) -> None:
    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(told).with_parallelism(tasks).on_nodes(0)

    with served(handle, runtime, path="/a b", config={"parallelism": tasks}) as (port, job):
        client = Client(port)
        target = "/a%20b?n=3&n=%C3%A4"
        status, headers, body = client("POST", target, "ähm".encode(), **{"X-Kind": "test"})
        assert (status, headers["x-answer"]) == (201, "yes")
        assert headers["content-type"] == "application/json"
        assert json.loads(body) == {
            "method": "POST",
            "path": "/a b",
            "query": {"n": "ä"},
            "kind": "test",
            "body": "ähm",
            "waits": True,
        }
        assert client("GET", "/other")[0] == 404
        job.stop()
        result = job.wait_finished(300)
    assert result.statistics.requests_answered == 1


@pytest.mark.parametrize("tasks", [1, 3])
def test_each_client_gets_its_own_answers(tasks: int) -> None:
    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(lambda r: r.reply(r.body)).with_parallelism(tasks)

    def ask(number: int) -> bool:
        client = Client(port)
        return all(
            client("POST", "/", body)[2] == body
            for body in (f"{number} {turn}".encode() * (1 + turn % 50) for turn in range(100))
        )

    with (
        served(handle, config={"parallelism": tasks, "batch_size": 7}) as (port, job),
        ThreadPoolExecutor(16) as clients,
    ):
        assert all(clients.map(ask, range(16)))
        assert job.statistics().requests_answered <= 1600


@pytest.mark.parametrize("tasks", [1, 2])
def test_what_fails_is_answered_and_the_job_lives(
    tasks: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def number(request: Request) -> tuple[int, Request]:
        return int(request.body), request

    def inverse(pairs: list[tuple[int, Request]]) -> list[Response]:
        return [request.reply(1 / number) for number, request in pairs]

    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(number).with_parallelism(tasks).map_batches(inverse)

    with served(handle, config={"parallelism": tasks}) as (port, job):
        client = Client(port)
        failed = {}
        for body, error in ((b"x", "ValueError"), (b"0", "ZeroDivisionError")):
            status, _, said = client("POST", "/", body)
            assert status == 500
            found = re.fullmatch(rb"request ([0-9a-f]+) failed\n", said)
            assert found
            failed[found[1].decode()] = error
        assert client("POST", "/", b"4")[::2] == (200, b"0.25")
        assert is_running(job)
        job.stop()
        result = job.wait_finished(300)
    assert sum(each.errors for each in result.statistics.operators) == 2
    log = capfd.readouterr().err
    for name, error in failed.items():
        assert re.search(rf"request {name} to / failed: .*{error}", log)


def test_a_record_that_has_lost_its_request_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with served(lambda requests: requests.map(str).map(refuse), timeout=0.5) as (port, job):
        assert Client(port)()[0] == 504, "nobody knows whose it was"
        assert is_running(job)
    said = capfd.readouterr().err
    assert "1 records without their requests are left out: RuntimeError: no request" in said


def refuse(_record: object) -> Response:
    raise RuntimeError("no request")


def test_a_record_of_another_source_still_fails_the_job() -> None:
    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.union(source(Collection([1]))).map(refuse)  # type: ignore[arg-type]

    with served(handle) as (_, job), pytest.raises(engine.OperatorError, match="no request"):
        job.wait_finished(300)


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("nothing to say")

    __repr__ = __str__


def fails_midway() -> Iterator[Any]:
    raise SystemExit(3)
    yield


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


WRONG: dict[str, Callable[[Request], Any]] = {
    "None": lambda _: None,
    "text": lambda _: "text",
    "the request": lambda r: r,
    "no repr": lambda _: Speechless(),
    "SystemExit": lambda _: sys.exit(3),
    "KeyboardInterrupt": lambda _: signal.raise_signal(signal.SIGINT) or 1 / 0,
    "GeneratorExit": lambda _: (_ for _ in ()).throw(GeneratorExit),
    "no str": lambda _: (_ for _ in ()).throw(Speechless),
    "a status": lambda r: r.reply(status=99),
    "a large status": lambda r: Response(r.id, 99_999, b"", b""),
    "a status of HTTP alone": lambda r: Response(r.id, 100, b"", b""),
    "no id": lambda _: Response(None, 200, b"", b""),  # type: ignore[arg-type]
    "text as a body": lambda r: Response(r.id, 200, b"", "text"),  # type: ignore[arg-type]
    "text as headers": lambda r: Response(r.id, 200, "a: b", b""),  # type: ignore[arg-type]
    "no header": lambda r: Response(r.id, 200, b"a b: c", b""),
    "several lines": lambda r: r.reply(headers={"a": "b\r\nc: d"}),
    "a set": lambda r: r.reply({1, 2}),
    "NaN": lambda r: r.reply(float("nan")),
    "half a character": lambda r: r.reply("\ud800"),
    "too deep": lambda r: r.reply(nested(100_000)),
    "an event": lambda r: r.reply(iter([object()])),
    "no event": lambda r: r.reply(fails_midway()),
    "its JSON": lambda r: r.reply(json.loads(b"[" * 100_000)),
}


@pytest.mark.table(2)
@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("form", ["map", "flat_map", "map_batches", "map_async"])
def test_nothing_that_a_handler_returns_ends_the_job(form: str, tasks: int) -> None:
    def handle(request: Request) -> Any:
        return WRONG[request.text()](request) if request.body else request.reply("ok")

    async def called(request: Request) -> Any:
        return handle(request)

    forms: dict[str, Callable[[Stream[Request]], Stream[Any]]] = {
        "map": lambda requests: requests.map(handle),
        "flat_map": lambda requests: requests.flat_map(lambda r: [handle(r)]),
        "map_batches": lambda requests: requests.map_batches(lambda b: [handle(r) for r in b]),
        "map_async": lambda requests: requests.map_async(called),
    }

    def handled(requests: Stream[Request]) -> Stream[Any]:
        return forms[form](requests).with_parallelism(tasks).on_nodes(0)

    with served(handled, config={"parallelism": tasks}) as (port, job):
        for name in WRONG:
            status, _, said = Client(port)("POST", "/", name.encode())
            assert status == 500, name
            assert re.match(rb"request [0-9a-f]+ failed", said), (name, said)
        assert Client(port)()[::2] == (200, b"ok")
        assert is_running(job)


def test_what_cannot_travel_is_answered() -> None:
    values: dict[str, Callable[[], Any]] = {
        "an object": object,
        "a function": lambda: fails_midway,
        "too deep": lambda: nested(500),
        "too deep to be a key": lambda: (nested(500),),
    }

    def handled(requests: Stream[Request]) -> Stream[Response]:
        made = requests.map(lambda r: (r, values[r.text()]() if r.body else 1))
        return made.rebalance().map(lambda pair: pair[0].reply("ok")).with_parallelism(2)

    with served(handled, config={"parallelism": 2}) as (port, job), ThreadPoolExecutor(8) as many:
        for name in values:
            assert Client(port)("POST", "/", name.encode())[0] == 500, name
        # Of a batch, it alone fails.
        bodies = [b"", *(name.encode() for name in values)] * 20
        found = list(many.map(lambda body: Client(port)("POST", "/", body)[0], bodies))
        assert found == [200 if body == b"" else 500 for body in bodies]
        assert is_running(job)


class Refusal(Exception):
    """Is pickled, and cannot be unpickled: it is made anew of its message alone."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)


def test_what_cannot_be_read_where_it_arrives_is_left_out(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whose it was is not known, so that its client waits in vain; the others are answered."""

    def checked(request: Request) -> tuple[Request, object]:
        return request, Refusal(400, "bad") if request.body == b"bad" else None

    def handled(requests: Stream[Request]) -> Stream[Response]:
        made = requests.map(checked).with_pickle().rebalance()
        return made.map(lambda pair: pair[0].reply("ok")).with_parallelism(2).on_nodes(0)

    with served(handled, config={"parallelism": 2}, timeout=2.0) as (port, job):
        with ThreadPoolExecutor(8) as many:
            bodies = [b"bad", b"good", b"good"] * 8
            found = list(many.map(lambda body: Client(port)("POST", "/", body)[0], bodies))
        assert found == [504 if body == b"bad" else 200 for body in bodies]
        assert is_running(job)
    assert "records without their requests are left out" in capfd.readouterr().err


DEEP = b"[" * 100_000 + b"]" * 100_000
HOSTILE = [
    DEEP,
    b'{"d": ' + DEEP + b', "n": 1}',
    b'{"d": "\\ud800", "n": 1}',
    b'{"d": "a", "n": NaN}',
    b'{"d": "a", "n": ' + b"9" * 5000 + b"}",
    b'{"d": ' + b"[" * 900 + b"]" * 900 + b', "n": 1}',
    b'{"d": {"a": 1}, "n": []}',
    b"\xff\xfe",
    b"",
    b"null",
]


@pytest.mark.parametrize("tasks", [1, 2])
def test_hostile_bodies_and_wrong_columns(tasks: int) -> None:
    import pyarrow as pa

    wrong: dict[str, Callable[[pa.RecordBatch], Any]] = {
        "none": lambda batch: batch.drop_columns(["_request"]),
        "null": lambda batch: columns(pa.array([None] * batch.num_rows, pa.int64())),
        "text": lambda batch: columns(pa.array(["x"] * batch.num_rows)),
        "nothing": lambda _: None,
        "twice": lambda batch: pa.RecordBatch.from_arrays(
            [batch["_request"]] * 2, ["_request"] * 2
        ),
        "bytes": lambda batch: batch.append_column("b", pa.array([b"\xff"] * batch.num_rows)),
        "no text": lambda batch: batch.append_column("t", no_text(batch.num_rows)),
    }

    def columns(ids: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([ids], ["_request"])

    def no_text(count: int) -> pa.Array:
        return pa.array([b"\xff"] * count).view(pa.string())

    def scored(batch: pa.RecordBatch) -> Any:
        name = batch["d"][0].as_py()
        return wrong[name](batch) if name in wrong else batch

    def handled(rows: Stream[Any]) -> Stream[Any]:
        return rows.map_batches(scored).with_parallelism(tasks).on_nodes(0)

    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string())), ("n", pa.float64())])
    settings = {"schema": schema, "max_wait_ms": 20.0, "config": {"parallelism": tasks}}

    def ask(name: str) -> tuple[int, Any]:
        body = json.dumps({"d": name, "n": 1}).encode()
        status, _, said = Client(port)("POST", "/", body)
        return status, json.loads(said) if status == 200 else said

    with served(handled, **settings) as (port, job), ThreadPoolExecutor(16) as clients:
        for body in (*HOSTILE, b'{"d": "a", "n": ' + b"9" * 400 + b"}"):
            status, _, said = Client(port)("POST", "/", body)
            assert status == 422, body[:30]
            assert {"detail", "request"} == set(json.loads(said))
        for name in wrong:
            assert re.match(rb"request [0-9a-f]+ failed", ask(name)[1]), name
        # More values than a dictionary of int8 may have, in one batch or in all.
        values = [f"v{number}" for number in range(400)]
        assert list(clients.map(ask, values)) == [(200, {"d": each, "n": 1.0}) for each in values]
        assert is_running(job)


@pytest.mark.parametrize("error", [KeyError, SystemExit, RecursionError, Speechless])
def test_a_validator_that_raises(error: type[BaseException]) -> None:
    from pydantic import BaseModel, field_validator

    class Body(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, value: int) -> int:
            if value == 1:
                raise error
            if value == 2:
                raise ValueError("\ud800")  # which is no JSON
            return value

    def handled(pairs: Stream[Any]) -> Stream[Response]:
        return pairs.map(lambda pair: pair[0].reply(pair[1].n))

    with served(handled, schema=Body) as (port, job):
        found = [Client(port)("POST", "/", b'{"n": %d}' % n)[::2] for n in range(3)]
        assert found[0] == (200, b"0")
        for status, said in found[1:]:
            assert status == 500
            assert re.match(rb"request [0-9a-f]+ failed", said)
        for body in HOSTILE:
            assert Client(port)("POST", "/", body)[0] == 422, body[:30]
        assert is_running(job)


def held(go: Path) -> Callable[[Stream[Request]], Stream[Response]]:
    """Answers as soon as there is such a file."""

    def wait(request: Request) -> Response:
        wait_until(go.exists)
        return request.reply("done")

    return lambda requests: requests.map(wait)


def test_too_many_are_refused(tmp_path: Path) -> None:
    with (
        served(held(tmp_path / "go"), max_in_flight=2) as (port, job),
        ThreadPoolExecutor(2) as clients,
    ):
        asked = [clients.submit(Client(port)) for _ in range(2)]
        wait_until(lambda: not is_ready(port))
        status, headers, _ = Client(port)()
        assert (status, headers["retry-after"]) == (503, "1")
        (tmp_path / "go").touch()
        assert [each.result()[0] for each in asked] == [200, 200]
        job.stop()
        counted = job.wait_finished(300).statistics
        assert (counted.requests_expired, counted.requests_refused) == (0, 1)


def test_late_ones_expire(tmp_path: Path) -> None:
    with (
        served(held(tmp_path / "go"), timeout=1.0) as (port, job),
        ThreadPoolExecutor(2) as clients,
    ):
        assert list(clients.map(lambda _: Client(port)()[0], range(2))) == [504, 504]
        wait_until(lambda: job.statistics().requests_expired == 2)
        (tmp_path / "go").touch()
        wait_until(lambda: Client(port)()[0] == 200)


def test_batches_wait_for_more(tmp_path: Path) -> None:
    def sizes(batch: list[Request]) -> list[Response]:
        return [request.reply(len(batch)) for request in batch]

    settings = {"max_wait_ms": 20_000.0, "config": {"batch_size": 3}}
    with (
        served(lambda requests: requests.map_batches(sizes), **settings) as (port, _),
        ThreadPoolExecutor(3) as clients,
    ):
        asked = [clients.submit(Client(port)) for _ in range(3)]
        assert [each.result()[2] for each in asked] == [b"3"] * 3


def test_bodies_of_a_schema() -> None:
    def handle(pairs: Stream[Any]) -> Stream[Response]:
        return pairs.map(lambda pair: pair[0].reply(pair[1]))

    with served(handle, schema={"text": str, "top": int}) as (port, _):
        client = Client(port)
        assert client("POST", "/", b'{"text": "a", "top": 3}')[::2] == (
            200,
            b'{"text":"a","top":3}',
        )
        status, _, said = client("POST", "/", b'{"text": 5}')
        assert status == 422
        wrong = {tuple(each["loc"]): each["type"] for each in json.loads(said)["detail"]}
        assert wrong == {("text",): "string_type", ("top",): "missing"}
        assert client("POST", "/", b"{")[0] == 422


def test_one_answer_of_several_operators(tmp_path: Path) -> None:
    def half(request: Request) -> tuple[Request, float]:
        return request, int(request.body) / 2

    def slow(request: Request) -> tuple[Request, str]:
        if request.body == b"2":
            wait_until((tmp_path / "go").exists)
        return request, "came"

    def handle(requests: Stream[Request]) -> Stream[Response]:
        parts = combine(requests.map(half), requests.map(slow), wait_ms=3000.0, missing="late")
        return parts.map(lambda both: both[0].reply(both[1]))

    with served(handle) as (port, _):
        client = Client(port)
        assert client("POST", "/", b"1")[::2] == (200, b'[0.5,"came"]')
        assert client("POST", "/", b"2")[::2] == (200, b'[1.0,"late"]')
        (tmp_path / "go").touch()
        assert client("POST", "/", b"x")[0] == 500
        assert client("POST", "/", b"3")[::2] == (200, b'[1.5,"came"]')


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/v1/a:b@c+d(e),!$", "/v1/a:b@c+d(e),!$", 200),
        ("/v1/a:b@c+d(e),!$", "/v1/a%3Ab%40c%2Bd%28e%29%2C%21%24", 200),
        ("/ä b", "/%C3%A4%20b", 200),
        ("/a/b", "/a%2Fb", 404),
        ("/a/b", "/a/b/", 404),
    ],
)
def test_paths(path: str, asked: str, status: int) -> None:
    with served(lambda requests: requests.map(told), path=path) as (port, _):
        found, _, said = Client(port)("GET", asked)
        assert found == (201 if status == 200 else status)
        if status == 200:
            assert json.loads(said)["path"] == path


def test_it_is_ready_when_the_first_model_is(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    models = source(Models(watch=tmp_path / "models")).broadcast(via="channels")

    def load(_model: Any) -> str:
        (tmp_path / "loading").touch()
        wait_until((tmp_path / "go").exists)
        return "the model"

    port = free_port()
    requests = source(HttpSource(port)).on_nodes(0)
    answers = requests.map_batches_with_model(
        models, load, lambda model, batch: [request.reply(model) for request in batch]
    )
    job = engine.submit(answers.respond(), progress="none")

    def says(target: str, status: int) -> bool:
        with suppress(OSError):
            return Client(port)("GET", target)[0] == status
        return False

    try:
        wait_until(lambda: says("/-/healthz", 200))
        wait_until(lambda: says("/-/readyz", 503))
        (tmp_path / "model").write_text("the model")
        (tmp_path / "model").rename(tmp_path / "models" / "1")
        wait_until((tmp_path / "loading").exists)
        assert says("/-/readyz", 503)
        (tmp_path / "go").touch()
        wait_until(lambda: says("/-/readyz", 200))
        assert Client(port)()[::2] == (200, b"the model")
    finally:
        job.cancel()
        with suppress(JobCancelled):
            job.wait_finished(300)


def test_a_model_serves(tmp_path: Path) -> None:
    models = source(Models(b"the model")).broadcast(via="channels")

    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map_batches_with_model(
            models,
            lambda model: bytes(model.value()).decode(),
            lambda model, batch: [request.reply(model) for request in batch],
        )

    with served(handle) as (port, _):
        assert Client(port)()[::2] == (200, b"the model")


def test_https() -> None:
    """The certificate is of nobody and for tests alone; it is its own authority."""
    certificate, key = (str(CERTIFICATE / f"{name}.pem") for name in ("certificate", "key"))
    port = free_port()
    requests = source(HttpSource(port, certificate=(certificate, key)))
    job = engine.submit(requests.map(told).respond(), progress="none")
    trusting = ssl.create_default_context(cafile=certificate)

    def ask(context: ssl.SSLContext) -> int:
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=300)
        with closing(connection):
            connection.request("GET", "/")
            return connection.getresponse().status

    def is_there() -> bool:
        with suppress(ConnectionError):
            return ask(trusting) == 201
        return False

    try:
        wait_until(is_there)
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(ssl.create_default_context())
        with pytest.raises((OSError, http.client.HTTPException)):
            Client(port)()  # not encrypted
        assert ask(trusting) == 201
    finally:
        job.cancel()
        with suppress(JobCancelled):
            job.wait_finished(300)


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")
    for names in (("missing.pem", "key.pem"), ("key.pem", "key.pem")):
        certificate, key = (str(tmp_path / name) for name in names)
        served = source(HttpSource(0, certificate=(certificate, key))).map(told).respond()
        with pytest.raises(engine.EngineError, match=re.escape(certificate)):
            engine.execute(served, progress="none")


def test_a_job_that_is_stopped_finishes_what_it_has(tmp_path: Path) -> None:
    def slow(request: Request) -> Response:
        (tmp_path / "begun").touch()
        wait_until((tmp_path / "go").exists)
        return request.reply("done")

    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(slow).with_parallelism(2)

    with (
        served(handle, config={"parallelism": 2}) as (port, job),
        ThreadPoolExecutor(1) as clients,
    ):
        asked = clients.submit(Client(port))
        wait_until((tmp_path / "begun").exists)
        job.stop()
        wait_until(lambda: not is_ready(port))
        (tmp_path / "go").touch()
        assert asked.result()[::2] == (200, b"done")
        job.wait_finished(300)


SLOW = """
from pathlib import Path
from operators import source
from operators.sources import HttpSource
from tests.waiting import wait_until

def wait(request):
    Path("begun").touch()
    wait_until(Path("go").exists)
    return request.reply("done")

def slow(port: int):
    return source(HttpSource(port)).map(wait).respond()
"""


@pytest.mark.parametrize("is_in_time", [True, False])
def test_sigterm_drains_where_it_is_asked_to(tmp_path: Path, is_in_time: bool) -> None:
    port = free_port()
    (tmp_path / "slow.py").write_text(SLOW)
    seconds = "60" if is_in_time else "0.5"
    options = ["--drain-seconds", seconds, "--progress", "none", "--set", "transport=shm"]
    command = [Path(sys.executable).with_name("oka"), "run", "slow.py", f"port={port}", *options]
    with (
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor(1) as clients,
    ):
        wait_until(lambda: is_ready(port))
        asked = clients.submit(Client(port))
        wait_until((tmp_path / "begun").exists)
        process.terminate()
        if is_in_time:
            wait_until(lambda: not is_ready(port))
            assert Client(port)()[0] == 503
            (tmp_path / "go").touch()
            assert asked.result()[::2] == (200, b"done")
        else:
            assert asked.exception() or asked.result()[0] == 503
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 128 + signal.SIGTERM
        assert ("records at the sinks" in said) == is_in_time


def test_behind_a_failure_it_serves_again(tmp_path: Path) -> None:
    """Who waits when a worker is killed gets a 503, or is cut off with the gateway."""

    def number(request: Request) -> Response:
        if request.body == b"die" and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return request.reply("alive")

    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(number).with_parallelism(2)

    config = {"parallelism": 2, "checkpoints": str(tmp_path / "checkpoints")}
    with served(handle, config=config) as (port, job):
        assert Client(port)("POST", "/", b"die")[0] == 503
        wait_until(lambda: is_ready(port))
        assert Client(port)("POST", "/", b"die")[::2] == (200, b"alive")
        assert is_running(job)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"port": 70_000}, "port is 70000, expected at most 65535"),
        ({"path": "predict"}, "path is 'predict', expected one that begins with /"),
        ({"host": "0.0.0.0"}, "expected a token where others can come"),
        ({"timeout": 0}, "timeout is 0, expected a number >= 0.001"),
        ({"max_wait_ms": float("nan")}, "max_wait_ms is nan, expected a number >= 0"),
        ({"schema": {"n": open}}, "expected a dict of names and types"),
        ({"max_in_flight": 0}, "max_in_flight is 0, expected"),
        ({"max_connections": 0}, "max_connections is 0, expected"),
        ({"client_timeout": 0}, "client_timeout is 0, expected a number >= 0.001"),
        ({"max_in_flight_bytes": 1}, "max_in_flight_bytes is 1, expected"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        HttpSource(**wrong)


def test_requests_and_answers_belong_together() -> None:
    with pytest.raises(GraphError, match="requests come in that nothing answers"):
        engine.execute(source(HttpSource(0)).sink(Discard()), progress="none")
    with pytest.raises(GraphError, match="respond\\(\\) has nothing to answer"):
        engine.execute(source(Collection([1])).respond(), progress="none")  # type: ignore[misc]


@pytest.mark.table(2)
@pytest.mark.ray
@pytest.mark.parametrize("encryption", [True, False])
def test_gateways_on_several_nodes(ray_cluster: None, encryption: bool) -> None:
    """Two gateways, which share the port here, since both nodes are this host.

    What answers is on the second node: requests of the first are answered over TCP.
    """
    port = free_port()

    def events(request: Request) -> Response:
        if request.path == "/fails":
            raise ValueError("too bad")
        if request.query:
            return request.reply(iter(["a", {"b": 1}]))
        return request.reply(f"{request.id >> 48}")

    requests = source(HttpSource(port)).with_parallelism(2).on_nodes(0, 1)
    answers = requests.rebalance().map(events).with_parallelism(1).on_nodes(1).respond()
    job = engine.submit(answers, runtime="ray", encryption=encryption, progress="none")
    try:
        wait_until(lambda: is_ready(port) or not is_running(job))
        found: set[tuple[bytes, bool]] = set()

        def ask() -> bool:
            client = Client(port)  # a new connection: the kernel picks the gateway
            status, _, gateway = client()
            streamed = client("GET", "/?n=1")
            assert (status, streamed[2]) == (200, b'data: a\n\ndata: {"b":1}\n\n')
            assert client("GET", "/fails")[0] in (404, 500)
            found.add((gateway, True))
            return len(found) == 2

        wait_until(ask)
        assert found == {(b"0", True), (b"1", True)}
        job.stop()
        assert job.wait_finished(300).statistics.requests_answered >= 4
    finally:
        job.cancel()
        with suppress(JobCancelled, engine.EngineError):
            job.wait_finished(300)


@pytest.mark.parametrize("tasks", [1, 2])
def test_answers_that_go_on(tasks: int, capfd: pytest.CaptureFixture[str]) -> None:
    def tokens(request: Request) -> Iterator[Any]:
        if request.query.get("fails") == "at once":
            raise ValueError("no first")
        yield "one\ntwo"
        yield {"n": 3}
        if request.query:
            raise ValueError("no more")

    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(lambda r: r.reply(tokens(r))).with_parallelism(tasks)

    with served(handle, config={"parallelism": tasks}) as (port, job):
        client = Client(port)
        status, headers, said = client()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        assert said == b'data: one\ndata: two\n\ndata: {"n":3}\n\n'
        with pytest.raises(http.client.HTTPException):  # not the whole of it
            Client(port)("GET", "/?fails=later")
        status, _, said = client("GET", "/?fails=at+once")
        assert (status, said.endswith(b"failed\n")) == (500, True)
        job.stop()
        job.wait_finished(300)
    logged = capfd.readouterr().err
    assert "ValueError: no more" in logged
    assert "ValueError: no first" in logged


def test_a_stream_ends_with_its_client_and_holds_up_nobody(tmp_path: Path) -> None:
    def endless(path: Path) -> Iterator[str]:
        try:
            while True:
                yield "x" * 100_000
        finally:
            path.touch()

    def handle(request: Request) -> Response:
        return request.reply(endless(tmp_path / "ended") if request.query else "ok")

    with served(lambda requests: requests.map(handle)) as (port, job):
        with socket.create_connection(("127.0.0.1", port)) as reader:
            reader.sendall(b"GET /?n=1 HTTP/1.1\r\nhost: x\r\n\r\n")
            assert reader.recv(10) == b"HTTP/1.1 2"
            assert Client(port)()[2] == b"ok"
            assert not (tmp_path / "ended").exists()
        wait_until((tmp_path / "ended").exists)
        job.stop()
        job.wait_finished(300)


def test_columns_of_requests() -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    def scored(batch: pa.RecordBatch) -> pa.RecordBatch:
        if pc.any(pc.equal(batch["n"], 7)).as_py():
            raise ValueError("seven")
        kinds = pa.array([b"\xff" if n == 8 else None for n in batch["n"].to_pylist()])
        return pa.RecordBatch.from_pydict(
            {
                "_request": batch["_request"],
                "twice": pc.multiply(batch["n"], 2),
                "text": batch["text"],
                "kind": kinds,
            }
        )

    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])
    with (
        served(lambda rows: rows.map_batches(scored), schema=schema) as (port, _),
        ThreadPoolExecutor(8) as clients,
    ):

        def ask(n: int) -> Any:
            return json.loads(
                Client(port)("POST", "/", json.dumps({"n": n, "text": "a"}).encode())[2]
            )

        numbers = [n for n in range(60) if n not in (7, 8)]
        answers = list(clients.map(ask, numbers))
        assert answers == [{"twice": 2 * n, "text": "a", "kind": None} for n in numbers]
        client = Client(port)
        assert client("POST", "/", b'{"n": 7, "text": null}')[0] == 500
        assert client("POST", "/", b'{"n": 8, "text": "a"}')[0] == 500, "bytes are no JSON"
        assert client("POST", "/", b'{"n": 9, "text": null}')[0] == 200
        for body, wrong in (
            (b'{"n": 1.5}', {("n",): "type_error", ("text",): "missing"}),
            (b'{"n": null, "text": 5}', {("n",): "type_error", ("text",): "type_error"}),
            (b'{"n": true, "text": ""}', {("n",): "type_error"}),
            (b"[1]", {(): "dict_type"}),
            (b"{", {(): "json_invalid"}),
        ):
            status, _, said = client("POST", "/", body)
            assert status == 422
            assert {tuple(e["loc"]): e["type"] for e in json.loads(said)["detail"]} == wrong


@pytest.mark.parametrize("tasks", [1, 2])
def test_what_nobody_waits_for_is_not_worked_on(tmp_path: Path, tasks: int) -> None:
    """The first request holds the task; those behind it, whose clients leave, are not seen."""

    def first(request: Request) -> Request:
        return request

    def handle(request: Request) -> Response:
        (tmp_path / request.query["n"]).touch()
        if request.query["n"] == "first":
            wait_until((tmp_path / "go").exists)
        return request.reply("done")

    def handled(requests: Stream[Request]) -> Stream[Response]:
        passed = requests.map(first)
        return (passed.rebalance() if tasks > 1 else passed).map(handle).on_nodes(0)

    def ask(name: object) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port), timeout=300)
        client.sendall(f"GET /?n={name} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return client

    settings = {"max_in_flight": 21, "config": {"batch_size": 1}}
    with served(handled, **settings) as (port, job), closing(ask("first")) as waiting:
        wait_until((tmp_path / "first").exists)
        clients = [ask(number) for number in range(20)]
        wait_until(lambda: not is_ready(port))  # all have begun
        for client in clients:
            client.close()
        wait_until(lambda: job.statistics().requests_disconnected == 20)
        with closing(ask("last")) as last:
            (tmp_path / "go").touch()
            assert waiting.recv(12) == last.recv(12) == b"HTTP/1.1 200"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "go", "last"]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(engine.EngineError, match=f"cannot serve http://127.0.0.1:{port}") as e:
            engine.execute(
                source(HttpSource(port)).map(lambda r: r.reply()).respond(), progress="none"
            )
        assert "hint: another port may be free" in str(e.value)


CERTIFICATE = Path(__file__).parent / "certificate"


def test_calls_out() -> None:
    async def called(request: Request) -> Response:
        await asyncio.sleep(0.001 * (int(request.body) % 7))
        if int(request.body) == 13:
            raise ValueError("unlucky")
        return request.reply(request.body)

    with (
        served(lambda requests: requests.map_async(called)) as (port, job),
        ThreadPoolExecutor(8) as clients,
    ):
        asked = [str(number).encode() for number in range(100)]
        answers = list(clients.map(lambda body: Client(port)("POST", "/", body)[::2], asked))
        assert answers[13][0] == 500
        del answers[13], asked[13]
        assert answers == [(200, body) for body in asked]
        assert is_running(job)
