"""Whoever is not of the job is turned away and counted, and the job goes on as if nothing was.

The strangers are libzmq's sockets and bare TCP connections, against a running word count.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

import engine
from engine.report.statistics import JobStatistics
from operators import source
from operators.sinks import Counts
from operators.sources import Function
from tests import jobfolders
from tests.waiting import wait_until

WORDS = ["moon", "sun", "earth", "mars"]


@dataclass
class RunningJob:
    handle: engine.JobHandle
    host: str
    port: int
    key: bytes
    """The public key of a sink task, in Z85."""
    folder: Path

    def statistics(self) -> JobStatistics:
        return self.handle.statistics()

    def worker(self) -> psutil.Process:
        """The process that listens on the port."""
        for child in psutil.Process().children(recursive=True):
            if any(each.laddr.port == self.port for each in child.net_connections("tcp")):
                return child
        raise AssertionError(f"no worker listens on port {self.port}")

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=300)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningJob]:
    """A word count over tcp that runs until all tests here are done; its counts are exact."""
    stop: Path = tmp_path_factory.mktemp("strangers") / "stop"

    def words() -> Iterator[list[str]]:
        while not stop.exists():
            yield WORDS * 50

    counts = source(Function(words, rate=20_000)).key_by().count().sink(Counts())
    with jobfolders.recorded() as folders:
        handle = engine.submit(counts, parallelism=2, transport="tcp", progress="none")
        wait_until(lambda: handle.statistics().records > 0)
    endpoints = handle._master._answers["deploy"]
    found = re.fullmatch(r"tcp://([0-9a-f]{64})@(.+):(\d+)", endpoints[max(endpoints)]["tcp"])
    assert found is not None
    key, host, port = found.groups()
    yield RunningJob(handle, host, int(port), z85.encode(bytes.fromhex(key)), Path(*folders))

    stop.touch()
    result = handle.wait_finished(timeout=300)
    handle.wait_stopped()
    emitted = result.statistics.source_records
    assert emitted > 0
    assert result.output == dict.fromkeys(WORDS, emitted // 4)
    assert result.statistics.dropped_messages == 0


@pytest.fixture(autouse=True)
def undisturbed(job: RunningJob, request: pytest.FixtureRequest) -> Iterator[None]:
    """Records flow on after whatever a test did, and it was counted as a refusal."""
    refused = job.statistics().refused_connections
    yield
    if "no_key" not in request.node.name:  # that one hangs up by itself
        wait_until(lambda: job.statistics().refused_connections > refused)
    seen = job.statistics().records
    wait_until(lambda: job.statistics().records > seen + 1000)


def no_key(_socket: zmq.Socket[bytes], _server: bytes) -> None:
    pass


def wrong_server_key(stranger: zmq.Socket[bytes], _server: bytes) -> None:
    stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()
    stranger.curve_serverkey, _ = zmq.curve_keypair()


def unknown_client_key(stranger: zmq.Socket[bytes], server: bytes) -> None:
    stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()
    stranger.curve_serverkey = server


@pytest.mark.parametrize("keys", [no_key, wrong_server_key, unknown_client_key])
def test_a_zeromq_peer_without_the_right_keys(
    job: RunningJob, keys: Callable[[zmq.Socket[bytes], bytes], None]
) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as stranger:
        keys(stranger, job.key)
        stranger.linger = 0
        monitor = stranger.get_monitor_socket()
        stranger.connect(f"tcp://{job.host}:{job.port}")
        events = set()
        failed = {
            zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
            zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
            zmq.EVENT_HANDSHAKE_FAILED_AUTH,
            zmq.EVENT_DISCONNECTED,
        }
        while not events & failed:
            assert monitor.poll(10_000), f"saw only {events}"
            events.add(recv_monitor_message(monitor)["event"])
        assert zmq.EVENT_CONNECTED in events
        assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in events
        if keys is unknown_client_key:
            assert zmq.EVENT_HANDSHAKE_FAILED_AUTH in events
        stranger.disable_monitor()
        monitor.close()


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + bytes(32)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: oka\r\n\r\n" + b"x" * 100, id="another protocol"),
        pytest.param(b"\xff" * 1000, id="no greeting"),
        pytest.param(GREETING.replace(b"CURVE", b"PLAIN"), id="another mechanism"),
        pytest.param(GREETING + b"\x04\x05HELLO" + bytes(500), id="a command that is none"),
        pytest.param(GREETING + b"\x06" + b"\x7f" * 8, id="a command of 9 EB"),
        pytest.param(GREETING + b"\x02" + b"\x7f" * 8 + bytes(10_000), id="a message first"),
    ],
)
def test_bytes_that_are_no_handshake(job: RunningJob, garbage: bytes) -> None:
    assert len(GREETING) == 64
    with job.connect() as stranger:
        stranger.sendall(garbage)
        assert_closed(stranger)


def test_a_byte_at_a_time(job: RunningJob) -> None:
    """A connection per 100 ms and byte: each is closed before its greeting is complete."""
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(job.connect()) for _ in range(50)]
        for stranger in strangers:
            stranger.setblocking(False)
        still_open = strangers
        for byte in itertools.chain(GREETING[:-1], itertools.repeat(0)):
            still_open = [stranger for stranger in still_open if takes(stranger, byte)]
            if not still_open:
                break
            time.sleep(0.1)


def test_a_flood_of_half_open_connections(job: RunningJob) -> None:
    """Most are closed at once, the others when their time is over; they take little memory.

    Each that waits takes 68 KB: 41 MB, were all of them let in.
    """
    worker = job.worker()
    memory = worker.memory_info().rss
    refused = job.statistics().refused_connections
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(600):
            selector.register(stack.enter_context(job.connect()), selectors.EVENT_READ)
        wait_until(lambda: job.statistics().refused_connections > refused + 100)
        assert worker.memory_info().rss - memory < 16 * 1024 * 1024
        while selector.get_map():
            ready = [key.fileobj for key, _ in selector.select(timeout=300)]
            assert ready, f"{len(selector.get_map())} are still open"
            for stranger in ready:
                assert isinstance(stranger, socket.socket)
                if ended(stranger):
                    selector.unregister(stranger)


def test_the_secret_keys_are_nowhere(job: RunningJob) -> None:
    """Neither files of the job, nor arguments and variables of its processes hold any key."""
    with job.connect() as stranger:
        stranger.sendall(b"\xff" * 100)  # for the fixture: every test here is refused something
        assert_closed(stranger)
    digits = re.compile(rb"[0-9a-f]{64}")
    ours = set(digits.findall(Path("/proc/self/environ").read_bytes()))
    workers = psutil.Process(os.getpid()).children(recursive=True)
    assert len(workers) >= 4
    for worker in workers:
        for name in ("cmdline", "environ"):
            found = Path(f"/proc/{worker.pid}/{name}").read_bytes()
            assert set(digits.findall(found)) <= ours
            assert job.key not in found
    for file in job.folder.rglob("*"):
        assert not file.is_file()
    assert not digits.search(repr(vars(job.handle)).encode())


def ended(stranger: socket.socket) -> bool:
    """Whether the other end closed; what it sent before is read away."""
    try:
        return stranger.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def assert_closed(stranger: socket.socket) -> None:
    """Waits for the end; the job sends its greeting, at most, and the timeout is the socket's."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := stranger.recv(4096):
            received += data
    assert len(received) <= len(GREETING)


def takes(stranger: socket.socket, byte: int) -> bool:
    """Whether the other end still listens."""
    if ended(stranger):
        return False
    try:
        return stranger.send(bytes([byte])) == 1
    except ConnectionError:
        return False
