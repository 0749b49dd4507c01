"""An S3 server behind a proxy that refuses, loses or holds back what passes."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from engine.programs.s3_server import S3Server
from tests.waiting import wait_until

KEYS = {"access_key": "key", "secret_key": "secret"}
Away: TypeAlias = Literal["answers 403", "answers 503", "is silent"]


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on; of those of `method` the next `before` are refused, and of the next
    `behind` the answer is lost. While it is `away`, all are refused, or none is answered."""

    daemon_threads = True

    def __init__(self, to: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.to = to.removeprefix("http://")
        self.method, self.before, self.behind = "PUT", 0, 0
        self.away: Away | None = None
        self.asked_in_vain = 0
        self.lock = threading.Lock()

    def take(self, counter: str, method: str) -> bool:
        with self.lock:
            left = getattr(self, counter)
            if method != self.method or not left:
                return False
            setattr(self, counter, left - 1)
            return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.away is not None:
            self.server.asked_in_vain += 1
            wait_until(lambda: self.server.away != "is silent", 600)
            self.refuse()
            return
        if self.server.take("before", self.command):
            self.refuse()
            return
        upstream = http.client.HTTPConnection(self.server.to, timeout=300)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            content = answer.read()
        except OSError:  # the server is gone, and this is of a client that nobody waits for
            self.refuse()
            return
        finally:
            upstream.close()
        if self.server.take("behind", self.command):
            self.refuse()
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if answer.getheader("content-length") is None:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def refuse(self) -> None:
        self.send_response(403 if self.server.away == "answers 403" else 503)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - as the base wants

    def log_message(self, *_: object) -> None: ...


@contextmanager
def running(proxy: Proxy) -> Iterator[Proxy]:
    thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


@contextmanager
def s3_behind_proxy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A bucket of the name `bucket` in this folder, which programs find by the environment."""
    (folder / "bucket").mkdir()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    with S3Server(folder, **KEYS) as server, running(Proxy(server.endpoint)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        yield proxy
