"""Hostile requests: whatever comes, each is answered or cut off, and the others are served.

`HOSTILE_REQUESTS=2000 HOSTILE_SEED=0` says how many and which; `make chaos` sends 2,000.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.gateway import Request, Response
from engine.programs.ports import free_port
from operators.stream import Stream
from tests.faults.test_serving import workers
from tests.integration.test_http import Client, is_ready, is_running, served
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
REQUESTS = int(os.environ.get("HOSTILE_REQUESTS", "250"))
SEED = int(os.environ.get("HOSTILE_SEED", "0"))
MOST_MEMORY = 48 << 20
"""Above what the worker takes at the start: its budget, below, and what a handler has at hand."""
SETTINGS: dict[str, Any] = {
    "max_in_flight": 64,
    "max_in_flight_bytes": 24 << 20,
    "max_body_bytes": 4 << 20,
    "client_timeout": 0.5,
    "timeout": 2.0,
}

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HOST = b"host: x\r\n"


def handle(request: Request) -> Any:
    """Does with a request what it asks for, good or bad."""
    what = request.query.get("do", "")
    if what == "json":
        return request.reply(request.json())
    if what == "parts":
        return request.reply([part.name for part in request.parts()])
    if what == "large":
        return request.reply(b"x" * int(request.query["bytes"]))
    if what == "stream":
        return request.reply("y" * 50_000 for _ in range(100))
    if what == "broken":
        return request.reply(item if item != 3 else 1 / 0 for item in range(5))
    if what == "status":
        return Response(request.id, int(request.query["n"]), b"", b"")
    if what == "header":
        return Response(request.id, 200, request.body, b"")
    if what == "exit":
        raise SystemExit
    if what == "none":
        return None
    if what == "headers":
        return request.reply(f"{request.headers} {request.path} {request.query}")
    return request.reply("ok")


Chance = random.Random


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """One of HTTP/2."""
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def http1(target: str, body: bytes = b"", *lines: bytes, method: str = "POST") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\n".encode() + HOST + b"".join(lines)
    return head + f"content-length: {len(body)}\r\n\r\n".encode() + body


def asked(target: bytes, stream: int = 1) -> bytes:
    head = b"\x82\x86\x41\x01x\x44" + bytes([len(target)]) + target
    return frame(1, 0b101, stream, head)


def settings(window: int) -> bytes:
    return PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, window))


def body(chance: Chance) -> bytes:
    """No JSON, or more than anybody wants."""
    return chance.choice(
        [
            b"",
            b"[" * 100_000 + b"]" * 100_000,
            b'{"a":' * 5_000,
            b"NaN",
            b"9" * 5_000,
            b'"\\ud800"',
            b'{"a":1,"a":2}',
            chance.randbytes(chance.randrange(1, 5_000)),
            b"\xff" * chance.randrange(1, 100_000),
            json.dumps(["x" * 100] * chance.randrange(1, 20_000)).encode(),
        ]
    )


KINDS: dict[str, Callable[[Chance], bytes]] = {
    "no JSON": lambda c: http1("/?do=json", body(c)),
    "no form": lambda c: http1(
        "/?do=parts", body(c), b"content-type: multipart/form-data; boundary=x\r\n"
    ),
    "a broken form": lambda c: http1(
        "/?do=parts",
        b"--x\r\ncontent-disposition: form-data; name=" + c.randbytes(50) + b"\r\n\r\na\r\n--x--",
        b"content-type: multipart/form-data; boundary=x\r\n",
    ),
    "no status": lambda c: http1(f"/?do=status&n={c.choice([-1, 0, 99, 100, 101, 1000, 1 << 40])}"),
    "no header": lambda c: http1("/?do=header", c.randbytes(40)),
    "SystemExit": lambda _: http1("/?do=exit"),
    "None": lambda _: http1("/?do=none"),
    "a stream that breaks": lambda _: http1("/?do=broken"),
    "strange headers": lambda c: http1(
        "/?do=headers", b"", *(b"x: " + bytes([c.randrange(128, 256)]) * 9 + b"\r\n" for _ in "abc")
    ),
    "strange targets": lambda c: http1("/?" + "".join(c.choices("%&=;+/[]:@?aX0", k=99))),
    "other paths": lambda c: http1("/" + "".join(c.choices("%./:a", k=9))),
    "no host": lambda _: b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": lambda _: http1("/", b"", HOST),
    "large headers": lambda c: http1(
        "/", b"", b"x: " + b"y" * c.randrange(60_000, 120_000) + b"\r\n"
    ),
    "many headers": lambda c: http1("/", b"", *[b"x: y\r\n"] * c.randrange(90, 500)),
    "a large body": lambda c: http1("/", b"z" * c.choice([4 << 20, (4 << 20) + 1, 6 << 20])),
    "two lengths": lambda _: http1("/", b"abc", b"content-length: 4\r\n"),
    "bad chunks": lambda c: (
        b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n" + c.randbytes(20)
    ),
    "half a request": lambda c: http1("/", b"abc")[: c.randrange(50)],
    "half a body": lambda c: http1("/", b"abc" * 10_000)[: c.randrange(60, 30_000)],
    "noise": lambda c: c.randbytes(c.randrange(1, 2_000)),
    "a pipeline": lambda c: http1("/") * c.randrange(2, 200),
    "nobody reads": lambda c: http1(f"/?do=large&bytes={c.randrange(1, 5_000_000)}"),
    "nobody reads a stream": lambda _: http1("/?do=stream"),
    "half a preface": lambda c: PREFACE[: c.randrange(len(PREFACE))],
    "nothing of HTTP/2": lambda _: settings(65_535),
    "no window": lambda c: (
        settings(0) + asked(f"/?do=large&bytes={c.randrange(1, 99_999)}".encode())
    ),
    "rapid resets": lambda c: (
        settings(0)
        + b"".join(
            asked(b"/", stream) + frame(3, 0, stream, bytes(4))
            for stream in range(1, c.randrange(3, 600), 2)
        )
    ),
    "pings": lambda c: settings(0) + frame(6, 0, 0, bytes(8)) * c.randrange(1, 5_000),
    "settings": lambda c: settings(0) + frame(4, 0, 0, b"") * c.randrange(1, 5_000),
    "continuations": lambda c: (
        settings(0)
        + frame(1, 0, 1, b"\x82")
        + frame(9, 0, 1, b"\x82" * 1_000) * c.randrange(1, 200)
    ),
    "noise over HTTP/2": lambda c: (
        settings(0)
        + b"".join(
            frame(c.randrange(12), c.randrange(256), c.randrange(5), c.randbytes(c.randrange(60)))
            for _ in range(20)
        )
    ),
    "nothing": lambda _: b"",
}


def test_hostile_requests() -> None:
    """The job lives, a good request is answered in between, and memory and descriptors stay."""
    chance = random.Random(SEED)

    def handled(requests: Stream[Request]) -> Stream[Response]:
        return requests.map(handle)

    answers: Counter[str] = Counter()
    kept: list[socket.socket] = []
    reading: list[tuple[str, Future[bool]]] = []

    def ask_well() -> bool:
        with suppress(OSError, http.client.HTTPException):
            return Client(port)()[::2] == (200, b"ok")
        return False

    with served(handled, **SETTINGS) as (port, job), ThreadPoolExecutor(16) as readers:
        (worker,) = workers()
        for kind in KINDS.values():  # what they load is not what they keep
            kept.append(send(port, kind(chance)))
        wait_until(lambda: is_quiet(worker))
        close_all(kept)
        before, most = worker.memory_info().rss, 0
        for number in range(REQUESTS):
            name = chance.choice(list(KINDS))
            client = send(port, KINDS[name](chance))
            if chance.random() < 0.5:
                reading.append((name, readers.submit(reads, client)))
            else:
                kept.append(client)  # it leaves the server waiting
            if number % 20 == 19:
                wait_until(ask_well)
                answers.update(name for name, answered in reading if answered.result())
                reading.clear()
                most = max(most, worker.memory_info().rss)
            if len(kept) > 100:
                close_all(kept[:50])
                del kept[:50]
        wait_until(ask_well)
        wait_until(lambda: is_quiet(worker))
        descriptors = worker.num_fds()
        close_all(kept)
        assert is_running(job)
        assert most - before < MOST_MEMORY, f"{before >> 20} MiB, then {most >> 20}"
        wait_until(lambda: worker.memory_info().rss - before < 16 << 20)
        after = worker.memory_info().rss
        job.stop()
        counted = job.wait_finished(300).statistics
    print(
        f"{REQUESTS} requests of {len(KINDS)} kinds, seed {SEED}: {before >> 20} MiB before, "
        f"{most >> 20} at most, {after >> 20} after, {descriptors} descriptors; "
        f"{counted.requests_answered} answered, {counted.requests_refused} refused"
    )
    assert {"SystemExit", "None", "no host", "large headers"} <= set(answers)


SERVES = """
from operators import source
from operators.sources import HttpSource

def serves(port: int):
    return source(HttpSource(port)).map(lambda request: request.reply("ok")).respond()
"""


@pytest.mark.parametrize("said", [b"", PREFACE[:10], b"GET /"])
def test_silent_connections_make_room(tmp_path: Path, said: bytes) -> None:
    """More of them than the process has descriptors: whoever asks is served all the same."""
    port, (_, most) = free_port(), resource.getrlimit(resource.RLIMIT_NOFILE)
    (tmp_path / "serves.py").write_text(SERVES)
    oka = str(Path(sys.executable).with_name("oka"))
    command = ["prlimit", "--nofile=200:200", oka, "run", "serves.py", f"port={port}"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most), most))
    with subprocess.Popen([*command, "--progress", "none"], cwd=tmp_path) as process:
        try:
            wait_until(lambda: is_ready(port))
            silent = [send(port, said) for _ in range(220)]
            for _ in range(3):
                assert Client(port)()[::2] == (200, b"ok")
                silent += [send(port, said) for _ in range(100)]
            assert Client(port)()[::2] == (200, b"ok")
            close_all(silent)
        finally:
            process.terminate()


def is_quiet(worker: psutil.Process) -> bool:
    """Whether it has cut off everybody who leaves it waiting."""
    return not [each for each in worker.net_connections() if each.status == "ESTABLISHED"]


def send(port: int, asked: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=300)
    with suppress(OSError):  # it may be cut off before it has said all
        client.sendall(asked)
    return client


def reads(client: socket.socket) -> bool:
    """Whether the server says anything, before it cuts the client off; it does one of the two."""
    with client, suppress(ConnectionError):
        return bool(client.recv(1 << 16))
    return False


def close_all(clients: list[socket.socket]) -> None:
    for client in clients:
        client.close()
