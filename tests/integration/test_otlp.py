"""Metrics that go to a collector of OpenTelemetry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import engine
from engine.errors import ConfigError
from engine.programs.ports import free_port
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

metrics_service = pytest.importorskip(
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2",
    reason="needs the extra otlp",
)
pytestmark = pytest.mark.usefixtures("nothing_left")


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """A collector's address, and the requests that it gets."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers), body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/metrics", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def counted(**settings: Any) -> list[int]:
    pipeline = source(Collection(range(500))).map(lambda n: n + 1).sink(Collect())
    output: list[int] = engine.execute(pipeline, progress="none", **settings).output
    return output


def test_a_job_sends_its_last_metrics_however_short_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=secret")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine")
    with collector() as (url, got):
        assert len(counted(name='a "job"', marker_interval=10, otlp_endpoint=url)) == 500
    path, headers, body = got[-1]
    assert (path, headers["x-token"]) == ("/v1/metrics", "secret")
    (told,) = metrics_service.ExportMetricsServiceRequest.FromString(body).resource_metrics
    of_resource = {each.key: each.value.string_value for each in told.resource.attributes}
    assert of_resource["service.name"] == "mine"
    found = {metric.name: metric for scope in told.scope_metrics for metric in scope.metrics}
    records = found["oka_operator_records_out"].sum
    assert records.is_monotonic
    points = {
        attributes["operator"]: (attributes["job"], point.as_double)
        for point in records.data_points
        if (attributes := {each.key: each.value.string_value for each in point.attributes})
    }
    assert points["map"] == ('a "job"', 500)
    (latency,) = found["oka_latency_seconds"].histogram.data_points
    assert latency.count == sum(latency.bucket_counts) == 50
    assert len(latency.bucket_counts) == len(latency.explicit_bounds) + 1
    assert found["oka_job_tasks"].gauge.data_points[0].as_double == 1


def test_a_collector_that_is_away_or_refuses_costs_the_job_nothing() -> None:
    assert len(counted(otlp_endpoint=f"http://127.0.0.1:{free_port()}/v1/metrics")) == 500
    with collector(status=400) as (url, got):
        assert len(counted(otlp_endpoint=url)) == 500
        assert b"service.name" in got[0][2]
        assert b"unknown_service" not in got[0][2]


@pytest.mark.parametrize(
    "wrong", ["", "collector:4318", "ftp://there", "http://", "http://me:pw@it/", 5]
)
def test_what_is_no_url_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"otlp_endpoint is .* expected None or a URL without"):
        counted(otlp_endpoint=wrong)
