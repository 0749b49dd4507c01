"""The endpoint that Prometheus scrapes: one for each job, in its driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from engine.monitoring.families import Family
from engine.report.buckets import BOUNDS, Buckets
from engine.web.server import HttpServer, QuietHandler, refused


class Endpoint:
    """Answers `GET /metrics` in the text format of Prometheus, or in that of OpenMetrics.

    Each scrape has a thread of its own, of which there are a few: a scraper that does not read
    holds up nobody else, for ten seconds. The port is taken when this is made; raises ConfigError
    if it cannot be. Nothing is encrypted, and nobody has to show who they are.
    """

    def __init__(self, host: str, port: int, families: Callable[[], Sequence[Family]]) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(families))
        try:
            self._server = HttpServer(host, port, _handler(registry), "oka-metrics", _MOST_SCRAPES)
        except OSError as error:
            free = "--metrics-port 0 (metrics_port=0)"
            raise refused(error, ("metrics_port", port), ("metrics_host", host), free) from error

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"{self._server.url}/metrics"

    def close(self) -> None:
        """Answer no more; idempotent. Scrapes that are under way go on."""
        self._server.close()


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


def _handler(registry: CollectorRegistry) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - so it is called
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

    return Handler


_MOST_SCRAPES = 8
"""At once; more are turned away."""
