"""A small HTTP server beside a job: a few threads that answer, and say nothing of who asks."""

from __future__ import annotations

import errno
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from engine.errors import ConfigError


class QuietHandler(BaseHTTPRequestHandler):
    """Answers one request of a connection."""

    timeout = 10.0
    """Seconds for a client to ask, and to take its answer; of each read and write."""
    server_version, sys_version = "oka", ""

    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


class HttpServer:
    """Answers with `handler`, each request in a thread of its own, of which there are `most`.

    More are turned away; a client that is slow for longer than its `timeout` gives way to them.
    The port is taken when this is made; raises OSError if it cannot be. Nothing is encrypted.
    """

    def __init__(
        self, host: str, port: int, handler: type[QuietHandler], name: str, most: int
    ) -> None:
        self._closed = threading.Event()
        self._server = _server(host, port, handler, most, self._closed)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._server.server_address[1]
        return port

    @property
    def url(self) -> str:
        """Where it answers, as in `http://127.0.0.1:9464`."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def close(self) -> None:
        """Answer no more; idempotent. Requests that are under way go on."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            self._server.handle_request()


def refused(error: OSError, port: tuple[str, int], host: tuple[str, str], free: str) -> ConfigError:
    """The error of a server that cannot listen; settings have their names, `free` is a hint."""
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"{port[0]} is {port[1]}, and something else listens there on {host[1]}",
            f"{free} takes any that is free, and says which",
        )
    return ConfigError(
        f"{host[0]} is {host[1]!r} and {port[0]} is {port[1]}, expected an address of this "
        f"machine and a port that may be listened on: {error.strerror or error}",
        "127.0.0.1 is for this machine alone, 0.0.0.0 for all that reach it",
    )


def _server(
    host: str, port: int, handler: type[QuietHandler], most: int, closed: threading.Event
) -> ThreadingTCPServer:
    """A server that listens."""
    slots = threading.BoundedSemaphore(most)
    began: dict[Any, float] = {}
    """When each connection came, the first one first."""

    def has_slot() -> bool:
        """Whether there is a thread for one more, or will be soon."""
        if slots.acquire(blocking=False):
            return True
        oldest, since = next(iter(list(began.items())), (None, 0.0))
        if oldest is None or time.monotonic() - since < handler.timeout:
            return False
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        return slots.acquire(timeout=_AGAIN_SECONDS)

    class Server(ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

        def get_request(self) -> Any:
            try:
                return super().get_request()
            except OSError:  # such as too many open files, which is not over at once
                closed.wait(_AGAIN_SECONDS)
                raise

        def process_request(self, request: Any, client_address: Any) -> None:
            if not has_slot():
                self.shutdown_request(request)
                return
            began[request] = time.monotonic()
            try:
                super().process_request(request, client_address)
            except BaseException:  # there are too many threads
                del began[request]
                slots.release()
                raise

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                del began[request]
                slots.release()

        def handle_error(self, *_: Any) -> None:
            """Say nothing of clients that have gone."""

    return Server((host, port), handler)


_AGAIN_SECONDS = 0.2
