"""The links of the driver to the processes of a local job: the fork server, and an event loop.

The loop has a thread of its own, which moves calls and replies and reads the workers' stderr. It
carries bytes and never decodes them, so that no object of a worker or user can stop it.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from engine import console
from engine.driver.local.log import LogWriter
from engine.host import imports
from engine.host.forkserver import REPORT, REQUEST
from engine.host.lineage import CONTINUE_WITHOUT_PARENT
from engine.host.process import HEADER
from engine.system import IS_LINUX


class Receiver(Protocol):
    """The callbacks about one worker, in the thread of the loop."""

    def replied(self, number: int, reply: bytes) -> None:
        """A call was answered."""

    def ended(self, status: str) -> None:
        """The process is gone. Its last messages may still be on their way."""

    def disconnected(self) -> None:
        """Its socket was closed, as it is when the process is gone."""


class Links:
    """The fork server and the loop: what connects the driver with the workers of one job."""

    def __init__(
        self, folder: str, modules: Sequence[str], hear: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._workers: list[Receiver] = []
        self._server, self._requests, reports, log = _start_server(folder, modules)
        self._writer = LogWriter(hear)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_tell)
        self._thread = threading.Thread(target=self._loop.run_forever, name="oka-loop", daemon=True)
        self._thread.start()
        self._transports: list[asyncio.BaseTransport] = []
        self._logs: list[_Log] = []
        self._log = self.read_log(log, lambda: None)
        self._read(reports, _Reports(self._workers, self._server_ended))

    @property
    def has_ended(self) -> bool:
        """Whether the server is gone, and its workers with it."""
        return self._server.poll() is not None

    def start_worker(self, control: socket.socket, log: int, worker: Receiver) -> int:
        """Have the server fork a process with these ends, which are closed here; its number."""
        number = len(self._workers)
        self._workers.append(worker)
        with contextlib.suppress(OSError):  # the server is gone: its reports say so
            socket.send_fds(self._requests, [REQUEST.pack(number)], [control.fileno(), log])
        control.close()
        os.close(log)
        return number

    def kill_worker(self, number: int) -> None:
        """Have the server kill the process."""
        with contextlib.suppress(OSError):
            self._requests.send(REQUEST.pack(number), socket.MSG_DONTWAIT)

    def read_replies(self, control: socket.socket, worker: Receiver) -> _Replies:
        """Connect the worker's socket with the loop."""
        replies = _Replies(worker)
        self._run(self._loop.create_unix_connection(lambda: replies, sock=control))
        self._transports.append(replies.transport)
        return replies

    def read_log(self, log: int, at_end: Callable[[], None]) -> _Log:
        """Pass on what comes out of the pipe, and keep its last lines."""
        reader = _Log(self._writer, at_end)
        self._read(log, reader)
        self._logs.append(reader)
        return reader

    def soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call it in the thread of the loop."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        """Call it in the thread of the loop, from which this is called."""
        self._loop.call_later(seconds, function)

    def close(self) -> None:
        """End the server, which kills all workers; take in their last words; idempotent."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(OSError):
            self._requests.shutdown(socket.SHUT_RDWR)
        self._server.send_signal(signal.SIGCONT)  # it may be stopped
        try:
            self._server.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # it is stopped, or waits for what cannot be killed
            self._server.kill()
            self._server.wait()
        self._requests.close()
        self._run(self._disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._writer.close()

    def _server_ended(self) -> None:
        log = self._log.last_lines()
        status = f"its fork server ended{': ' if log else ''}{log}"
        for worker in self._workers:
            worker.ended(status)

    def _read(self, descriptor: int, protocol: asyncio.Protocol) -> None:
        pipe = open(descriptor, "rb", buffering=0)  # noqa: SIM115 - the transport closes it
        transport, _ = self._run(self._loop.connect_read_pipe(lambda: protocol, pipe))
        self._transports.append(transport)

    async def _disconnect(self) -> None:
        for _ in range(_LOOKS):  # a process outside the job may hold a log open
            if all(log.is_closed for log in self._logs):
                break
            await asyncio.sleep(_LAST_WORDS_SECONDS / _LOOKS)
        for transport in self._transports:
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()  # closed, it would wait until what it holds is written
            else:
                transport.close()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _start_server(
    folder: str, modules: Sequence[str]
) -> tuple[subprocess.Popen[bytes], socket.socket, int, int]:
    """The fork server, the socket for requests, and the pipes of its reports and its stderr."""
    ours, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.settimeout(_REQUEST_SECONDS)
    reports, written = os.pipe()
    log, errors = os.pipe()
    theirs = [requests.fileno(), written]
    try:
        server = subprocess.Popen(
            [
                sys.executable,
                *imports.arguments("engine.host.forkserver", modules, CONTINUE_WITHOUT_PARENT),
                *map(str, (*theirs, os.getpid())),
                folder,
            ],
            stdin=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=theirs,
            start_new_session=True,
            env=environment(),
        )
    except BaseException:
        ours.close()
        os.close(reports)
        os.close(log)
        raise
    finally:
        requests.close()
        for descriptor in (written, errors):
            os.close(descriptor)
    return server, ours, reports, log


def environment() -> dict[str, str]:
    """The environment of this process, but malloc asks the kernel for huge pages.

    Records come to the state of many keys in any order. With pages of 4 KiB, most of the time goes
    into looking for the page. Who sets `glibc.malloc.hugetlb` decides otherwise. Off Linux,
    malloc is another, and macOS is told to let forked processes use its libraries.
    """
    if not IS_LINUX:
        return {_FORKS: "YES", **os.environ}
    tunables = os.environ.get(_TUNABLES, "")
    if "glibc.malloc.hugetlb" not in tunables:
        tunables = ":".join(filter(None, [tunables, "glibc.malloc.hugetlb=1"]))
    return {**os.environ, _TUNABLES: tunables}


def _tell(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the loop, which goes on."""
    console.write(f"oka: {context['message']}: {context.get('exception')!r}\n", patience=0.0)


class _Replies(asyncio.Protocol):
    """Takes a worker's replies apart."""

    transport: asyncio.Transport

    def __init__(self, worker: Receiver) -> None:
        self.is_closed = False
        self._worker = worker
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, number: int, message: bytes) -> None:
        """Send a call; nothing, if the worker is ending: its end fails the call."""
        if not self.transport.is_closing():
            self.transport.write(HEADER.pack(number, len(message)))
            self.transport.write(message)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= HEADER.size:
            number, size = HEADER.unpack_from(received)
            if len(received) < HEADER.size + size:
                break
            reply = bytes(memoryview(received)[HEADER.size : HEADER.size + size])
            del received[: HEADER.size + size]
            self._worker.replied(number, reply)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_closed = True
        self._worker.disconnected()


class _Log(asyncio.Protocol):
    """Passes on what a process writes to stderr, and keeps the end of it."""

    def __init__(self, writer: LogWriter, at_end: Callable[[], None]) -> None:
        self.is_closed = False
        self._writer = writer
        self._at_end = at_end
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = ""

    def last_lines(self) -> str:
        """At most 20, without frames of the engine where the stack of a crash is shown."""
        lines = (line for line in self._tail.splitlines() if not _OWN_FRAME.fullmatch(line))
        return "\n".join([*lines][-20:])

    def data_received(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        self._tail = (self._tail + text)[-_TAIL:]
        self._writer.pass_on(text)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_closed = True
        self._at_end()


class _Reports(asyncio.Protocol):
    """Tells workers that their process has ended, and how."""

    def __init__(self, workers: Sequence[Receiver], at_end: Callable[[], None]) -> None:
        self._workers = workers
        self._at_end = at_end
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        whole = len(self._received) // REPORT.size * REPORT.size
        for number, status in REPORT.iter_unpack(self._received[:whole]):
            self._workers[number].ended(_status(os.waitstatus_to_exitcode(status)))
        self._received = self._received[whole:]

    def connection_lost(self, _exc: Exception | None) -> None:
        self._at_end()


_OWN_FRAME = re.compile(
    rf'  File "(?:{re.escape(str(Path(__file__).parents[2]))}/.*|<string>)", line \d+ in \S+'
)
"""As the fault handler writes it, other than a traceback."""


def _status(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"


_REQUEST_SECONDS = 30.0
"""Longest to wait for a fork server that takes no requests, as one that is stopped."""
_END_SECONDS = 6.0
"""Longest to wait for its end."""
_LAST_WORDS_SECONDS = 0.2
"""Longest to wait for what a process wrote before it ended."""
_LOOKS = 20
_TAIL = 8192
"""Characters of a log that hold its last lines."""
_TUNABLES = "GLIBC_TUNABLES"
"""The settings of glibc's malloc, which reads them when a process starts."""
_FORKS = "OBJC_DISABLE_INITIALIZE_FORK_SAFETY"
"""Else macOS ends a forked process in which a class of Objective-C is first used."""
