"""The endpoint that Prometheus scrapes: one for each job, in its driver."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from engine.errors import ConfigError
from engine.monitoring.buckets import BOUNDS, Buckets
from engine.monitoring.families import Family


class Endpoint:
    """Answers `GET /metrics` in the text format of Prometheus, or in that of OpenMetrics.

    Each scrape has a thread of its own, of which there are a few: a scraper that does not read
    holds up nobody else, for ten seconds. The port is taken when this is made; raises ConfigError
    if it cannot be. Nothing is encrypted, and nobody has to show who they are.
    """

    def __init__(self, host: str, port: int, families: Callable[[], Sequence[Family]]) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(families))
        self._closed = threading.Event()
        try:
            self._server = _server(host, port, registry, self._closed)
        except OSError as error:
            raise _refused(host, port, error) from error
        self._thread = threading.Thread(target=self._serve, name="oka-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else f"{host!s}"
        return f"http://{name}:{port}/metrics"

    def close(self) -> None:
        """Answer no more; idempotent. Scrapes that are under way go on."""
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


class _Collector:
    """Families for the library that writes them."""

    def __init__(self, families: Callable[[], Sequence[Family]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families():
            yield _told(family)


def _told(family: Family) -> Metric:
    if family.kind != "histogram":
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        found: Metric = kind(family.name, family.help)
        for labels, value in family.values:
            found.add_sample(family.name, labels, value)  # type: ignore[arg-type]
        return found
    histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    for labels, value in family.values:
        assert isinstance(value, Buckets)
        total, cumulated = 0, []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), value.counts, strict=True):
            total += count
            cumulated.append((bound, total))
        histogram.add_metric([labels[each] for each in family.labels], cumulated, value.sum)
    return histogram


def _server(
    host: str, port: int, registry: CollectorRegistry, closed: threading.Event
) -> ThreadingTCPServer:
    """A server that listens."""
    slots = threading.BoundedSemaphore(_MOST_SCRAPES)

    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_SECONDS
        server_version, sys_version = "oka", ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "only /metrics is here")
                return
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            try:
                body = encode(registry)
            except Exception as error:  # noqa: BLE001 - it shows up where it is scraped
                self.send_error(500, f"{type(error).__name__}")
                return
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing of scrapes."""

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
            if not slots.acquire(blocking=False):
                self.shutdown_request(request)
                return
            try:
                super().process_request(request, client_address)
            except BaseException:  # there are too many threads
                slots.release()
                raise

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                slots.release()

        def handle_error(self, *_: Any) -> None:
            """Say nothing of scrapers that have gone."""

    return Server((host, port), Handler)


def _refused(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"metrics_port is {port}, and something else listens there on {host}",
            "--metrics-port 0 (metrics_port=0) takes any that is free, and says which",
        )
    return ConfigError(
        f"metrics_host is {host!r} and metrics_port is {port}, expected an address of this "
        f"machine and a port that may be listened on: {error.strerror or error}",
        "127.0.0.1 is for this machine alone, 0.0.0.0 for all that reach it",
    )


_MOST_SCRAPES = 8
"""At once; more are turned away."""
_AGAIN_SECONDS = 0.2
_PATIENCE_SECONDS = 10.0
"""For a scraper to ask, and to take its answer."""
