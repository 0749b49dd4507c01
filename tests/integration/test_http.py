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
from benchmarks.serve.server import free_port
from engine import JobCancelled
from engine.errors import GraphError
from engine.gateway import Request, Response
from operators import combine, source
from operators.sinks import Discard
from operators.sources import Collection, HttpSource, Models
from operators.stream import Stream
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


class Client:
    """One connection, which is kept as long as this is."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

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
        wait_until(lambda: is_ready(port) or not is_running(job), 60)
        yield port, job
    finally:
        job.cancel()
        with suppress(JobCancelled, engine.OperatorError):
            job.wait_finished(60)


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
        result = job.wait_finished(60)
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
        result = job.wait_finished(60)
    assert sum(each.errors for each in result.statistics.operators) == 2
    log = capfd.readouterr().err
    for name, error in failed.items():
        assert re.search(rf"request {name} to / failed: .*{error}", log)


def test_a_record_that_is_no_request_fails_the_job() -> None:
    with served(lambda requests: requests.map(str).map(refuse)) as (port, job):
        with suppress(OSError, http.client.HTTPException):
            Client(port)()
        with pytest.raises(engine.OperatorError, match="RuntimeError: no request"):
            job.wait_finished(60)


def refuse(_record: str) -> Response:
    raise RuntimeError("no request")


def test_an_answer_that_is_none_fails_the_job() -> None:
    def handle(requests: Stream[Request]) -> Stream[Any]:
        return requests.map(lambda r: r.method)

    with served(handle) as (port, job):
        with suppress(OSError, http.client.HTTPException):
            Client(port)()
        with pytest.raises(engine.OperatorError, match=r"respond\(\) got str 'GET', expected what"):
            job.wait_finished(60)


def held(go: Path) -> Callable[[Stream[Request]], Stream[Response]]:
    """Answers as soon as there is such a file."""

    def wait(request: Request) -> Response:
        while not go.exists():
            time.sleep(0.01)
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
        counted = job.wait_finished(60).statistics
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
        while request.body == b"2" and not (tmp_path / "go").exists():
            time.sleep(0.01)
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
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        with closing(connection):
            connection.request("GET", "/")
            return connection.getresponse().status

    def is_there() -> bool:
        with suppress(ConnectionError):
            return ask(trusting) == 201
        return False

    try:
        wait_until(is_there, 60)
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(ssl.create_default_context())
        with pytest.raises((OSError, http.client.HTTPException)):
            Client(port)()  # not encrypted
        assert ask(trusting) == 201
    finally:
        job.cancel()
        with suppress(JobCancelled):
            job.wait_finished(60)


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
        while not (tmp_path / "go").exists():
            time.sleep(0.01)
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
        job.wait_finished(60)


SLOW = """
import time
from pathlib import Path
from operators import source
from operators.sources import HttpSource

def wait(request):
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
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
        wait_until(lambda: is_ready(port), 60)
        asked = clients.submit(Client(port))
        wait_until((tmp_path / "begun").exists)
        process.terminate()
        if is_in_time:
            wait_until(lambda: not is_ready(port), 60)
            assert Client(port)()[0] == 503
            (tmp_path / "go").touch()
            assert asked.result()[::2] == (200, b"done")
        else:
            assert asked.exception() or asked.result()[0] == 503
        said, _ = process.communicate(timeout=60)
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
        wait_until(lambda: is_ready(port), 60)
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
        wait_until(lambda: is_ready(port) or not is_running(job), 60)
        found: set[tuple[bytes, bool]] = set()

        def ask() -> bool:
            client = Client(port)  # a new connection: the kernel picks the gateway
            status, _, gateway = client()
            streamed = client("GET", "/?n=1")
            assert (status, streamed[2]) == (200, b'data: a\n\ndata: {"b":1}\n\n')
            assert client("GET", "/fails")[0] in (404, 500)
            found.add((gateway, True))
            return len(found) == 2

        wait_until(ask, 60)
        assert found == {(b"0", True), (b"1", True)}
        job.stop()
        assert job.wait_finished(60).statistics.requests_answered >= 4
    finally:
        job.cancel()
        with suppress(JobCancelled, engine.EngineError):
            job.wait_finished(60)


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
        job.wait_finished(60)
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
        job.wait_finished(60)


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
        while request.query["n"] == "first" and not (tmp_path / "go").exists():
            time.sleep(0.01)
        return request.reply("done")

    def handled(requests: Stream[Request]) -> Stream[Response]:
        passed = requests.map(first)
        return (passed.rebalance() if tasks > 1 else passed).map(handle).on_nodes(0)

    def ask(name: object) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port), timeout=60)
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
