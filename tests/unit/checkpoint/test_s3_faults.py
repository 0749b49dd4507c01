"""Checkpoints in an S3 that answers 503, before or behind what it was asked to do."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.checkpoint import CheckpointLog, Manifest, open_storage
from engine.errors import StorageError
from engine.s3 import S3Server

KEYS = {"access_key": "key", "secret_key": "secret"}


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on; of those of `method` the next `before` are refused, and of the next
    `behind` the answer is lost."""

    daemon_threads = True

    def __init__(self, to: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.to = to.removeprefix("http://")
        self.method, self.before, self.behind = "PUT", 0, 0
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
        if self.server.take("before", self.command):
            self.refuse()
            return
        upstream = http.client.HTTPConnection(self.server.to, timeout=20)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            content = answer.read()
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
        self.send_response(503)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - as the base wants

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def proxy(tmp_path, monkeypatch) -> Iterator[Proxy]:
    (tmp_path / "bucket").mkdir()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    with S3Server(tmp_path, **KEYS) as server, running(Proxy(server.endpoint)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        yield proxy


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


@pytest.mark.parametrize("when", ["before", "behind"])
def test_few_refusals_are_only_a_delay(proxy, when):
    log = CheckpointLog(open_storage("s3://bucket/job"))
    setattr(proxy, when, 2)
    assert log.claim("latest").generation in (1, 2)  # a claim whose answer was lost is another's
    setattr(proxy, when, 2)
    log.store(Manifest("job", 1, 1, ()))
    log.store(Manifest("job", 2, 1, ()))
    assert [each.epoch for each in log.manifests()] == [1, 2]
    assert (proxy.before, proxy.behind) == (0, 0)
    assert CheckpointLog(open_storage("s3://bucket/job")).claim("latest").manifest.epoch == 2


def test_refusals_without_end_fail_the_call_and_nothing_else(proxy, monkeypatch):
    from engine.checkpoint import s3

    monkeypatch.setattr(s3, "S3", type("S3", (), {"open": lambda url: s3_open(url, retries=1)}))
    from engine.s3 import S3

    s3_open = S3.open
    log = CheckpointLog(open_storage("s3://bucket/job"))
    log.claim()
    proxy.before = 2
    with pytest.raises(StorageError, match=r"s3://bucket/job/log/00000002 at http"):
        log.store(Manifest("job", 1, 1, ()))
    proxy.behind = 2
    with pytest.raises(StorageError):
        log.store(Manifest("job", 2, 1, ()))
    log.store(Manifest("job", 2, 1, ()))  # the same again, where nobody knows whether it is there
    proxy.behind = 2
    with pytest.raises(StorageError):
        log.store(Manifest("job", 3, 1, ()))
    log.store(Manifest("job", 4, 1, ()))  # another, behind one that is there after all
    assert [each.epoch for each in log.manifests()] == [2, 3, 4]
