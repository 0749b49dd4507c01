"""Requests over HTTP while workers are killed, models are replaced, and clients go by the thousand.

`CHAOS_SEEDS=0-19 make chaos` runs more kills, and tells the longest that a request took and the
longest until requests were answered again.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import engine
from engine.gateway import Request, Response
from engine.programs.ports import free_port
from operators import source
from operators.sources import HttpSource, Models
from operators.stream import Stream
from tests.faults.test_chaos import seeds
from tests.integration.checkpointed import servers
from tests.integration.test_http import is_ready, is_running
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
CLIENTS = 8
KILLS = 3
PATIENCE = 60.0
"""Seconds after which a request counts as one that nobody ends."""


@dataclass
class Load:
    """Clients that ask and ask again, each for the text that it sends."""

    port: int
    ends: Counter[str] = field(default_factory=Counter)
    """By what became of them: a status, or that the connection broke."""
    longest: float = 0.0
    wrong: list[str] = field(default_factory=list)
    said: list[set[str]] = field(default_factory=list)
    """What each client was told behind its own text, in runs: each new one counts once."""
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self, number: int) -> None:
        """One client."""
        connection = None
        turn = 0
        last = ""
        while not self.is_over.is_set():
            turn += 1
            text = f"{number} {turn}"
            begun = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(
                        "127.0.0.1", self.port, timeout=PATIENCE
                    )
                connection.request("POST", "/", text.encode())
                response = connection.getresponse()
                body, status = response.read().decode(), response.status
                if status == 200:
                    own, _, rest = body.partition("|")
                    if own != text or rest < last:
                        self.wrong.append(f"{text!r} got {body!r} after {last!r}")
                    last = rest
                    self.said[number].add(rest)
                self.ends[str(status)] += 1
            except TimeoutError:
                self.wrong.append(f"{text!r} got nothing in {PATIENCE:g} s")
            except (OSError, http.client.HTTPException):
                self.ends["broken"] += 1
                if connection is not None:
                    connection.close()
                connection = None
                time.sleep(0.002)
            self.longest = max(self.longest, time.monotonic() - begun)
        if connection is not None:
            connection.close()

    def answered(self) -> int:
        return self.ends["200"]


@contextmanager
def load(port: int) -> Iterator[Load]:
    found = Load(port, said=[set() for _ in range(CLIENTS)])
    threads = [threading.Thread(target=found.run, args=(each,)) for each in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        found.is_over.set()
        for thread in threads:
            thread.join()


@contextmanager
def serving(
    handle: Callable[[Stream[Request]], Stream[Response]], max_in_flight: int = 1024, **config: Any
) -> Iterator[tuple[int, engine.JobHandle]]:
    port = free_port()
    requests = source(HttpSource(port, max_in_flight=max_in_flight)).on_nodes(0)
    job = engine.submit(handle(requests).respond(), runtime="local", progress="none", **config)
    try:
        wait_until(lambda: is_ready(port) or not is_running(job))
        yield port, job
        job.stop()
        job.wait_finished(300)
    finally:
        job.cancel()


def echo(request: Request) -> Response:
    return request.reply(request.text() + "|")


def workers() -> list[psutil.Process]:
    found = []
    for server in servers():
        with suppress(psutil.NoSuchProcess):  # another has taken its place
            found += server.children()
    return found


@pytest.mark.table(3)
@pytest.mark.parametrize("seed", seeds("0-2"))
def test_workers_are_killed_under_load(seed: int, tmp_path: Path) -> None:
    """Each request ends, with its own answer, a 503, or its connection; then it serves again."""
    chance = random.Random(seed)
    tasks = chance.choice([1, 2])
    config = {"parallelism": tasks, "checkpoints": str(tmp_path / "checkpoints")}

    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(echo).with_parallelism(tasks).on_nodes(0)

    longest = 0.0
    with serving(handle, **config) as (port, job), load(port) as clients:
        for _ in range(KILLS):
            before = clients.answered()
            wait_until(lambda at=before + 100: clients.answered() > at)
            time.sleep(chance.uniform(0.0, 0.3))
            victim = chance.choice(wait_until(workers))
            killed = time.monotonic()
            victim.kill()
            wait_until(partial(is_gone, victim))
            before = clients.answered()
            wait_until(lambda at=before + CLIENTS: clients.answered() > at)
            longest = max(longest, time.monotonic() - killed)
            assert is_running(job)
    assert not clients.wrong, clients.wrong[:5]
    assert set(clients.ends) <= {"200", "503", "broken"}, clients.ends
    print(f"{dict(clients.ends)}, longest request {clients.longest:.2f} s, back in {longest:.2f} s")


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_models_are_replaced_under_load(tmp_path: Path) -> None:
    """No request fails, and no client sees an older model after a newer one."""
    versions = 6
    path = tmp_path / "model"

    def publish(version: int) -> None:
        (made := tmp_path / "made").write_text(f"{version}")
        made.rename(path)

    publish(0)
    models = source(Models(watch=path)).broadcast(via="channels")

    def handle(requests: Stream[Request]) -> Stream[Response]:
        return requests.map_batches_with_model(
            models,
            lambda model: bytes(model.buffer).decode(),
            lambda model, batch: [r.reply(f"{r.text()}|{model}") for r in batch],
        )

    with serving(handle) as (port, _), load(port) as clients:
        for version in range(1, versions):
            wait_until(lambda at=str(version - 1): all(at in each for each in clients.said))
            publish(version)
        wait_until(lambda: all(str(versions - 1) in each for each in clients.said))
    assert not clients.wrong, clients.wrong[:5]
    assert set(clients.ends) == {"200"}, clients.ends


@pytest.mark.parametrize("tasks", [1, 2])
def test_ten_thousand_clients_go(tmp_path: Path, tasks: int) -> None:
    """While a request holds the task; nothing of the others is worked on, and nothing is left."""
    rounds, each = 20, 500

    def note(request: Request) -> Request:
        return request

    def handle(request: Request) -> Response:
        with (tmp_path / "calls").open("a") as calls:
            calls.write(f"{request.query['n']}\n")
        wait_until((tmp_path / request.query["n"]).exists)
        return request.reply("done")

    def handled(requests: Stream[Request]) -> Stream[Response]:
        passed = requests.map(note)
        return (passed.rebalance() if tasks > 1 else passed).map(handle).on_nodes(0)

    def ask(name: object) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        client.sendall(f"GET /?n={name} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return client

    def counts(calls: int, gone: int) -> bool:
        is_called = len((tmp_path / "calls").read_text().split()) == calls
        return is_called and job.statistics().requests_disconnected == gone

    seen = []
    (tmp_path / "calls").touch()
    with serving(handled, each + 1, batch_size=1) as (port, job):
        for turn in range(rounds):
            with closing(ask(turn)) as waiting:
                wait_until(partial(counts, turn + 1, each * turn))
                clients = [ask("gone") for _ in range(each)]
                wait_until(lambda: not is_ready(port))  # all have begun
                for client in clients:
                    client.close()
                wait_until(partial(counts, turn + 1, each * (turn + 1)))
                (tmp_path / f"{turn}").touch()
                assert waiting.recv(12) == b"HTTP/1.1 200"
            seen.append([(w.num_fds(), w.memory_info().rss) for w in workers()])
    assert (tmp_path / "calls").read_text().split() == [str(turn) for turn in range(rounds)]
    for begun, ended in zip(seen[2], seen[-1], strict=True):
        assert abs(ended[0] - begun[0]) <= 2, "descriptors"
        assert ended[1] - begun[1] < 8 << 20, "memory"
