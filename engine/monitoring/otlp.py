"""Metrics to a collector of OpenTelemetry, by OTLP over HTTP; of the extra `otlp`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from engine.installation.distribution import DISTRIBUTION
from engine.monitoring.families import Family
from engine.report.buckets import BOUNDS, Buckets


class Exporter:
    """Sends the metrics of a job every ten seconds, and once more at its end.

    A thread of its own sends, and what cannot be sent is left out: the next has all counts. Headers
    and certificates come from the variables OTEL_EXPORTER_OTLP_… of the environment, as does
    `service.name`, which is `oka` if they do not say.
    """

    def __init__(self, endpoint: str, families: Callable[[], Sequence[Family]]) -> None:
        self._families = families
        self._exporter = OTLPMetricExporter(endpoint, timeout=_SECONDS)
        self._resource = _resource()
        self._began = time.time_ns()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oka-otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the last metrics, if that does not take long; idempotent."""
        self._ended.set()
        self._thread.join(_LAST_SECONDS)
        if not self._thread.is_alive():
            return
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._ended.wait(_SECONDS):
            self._export()
        self._export()
        self._exporter.shutdown()

    def _export(self) -> None:
        now = time.time_ns()
        metrics = [_metric(family, self._began, now) for family in self._families()]
        scope = ScopeMetrics(InstrumentationScope(DISTRIBUTION), metrics, "")
        self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))


def _resource() -> Resource:
    """What the environment says of this process, and a name that is better than none."""
    found = Resource.create()
    is_named = not str(found.attributes["service.name"]).startswith("unknown_service")
    return found if is_named else found.merge(Resource({"service.name": "oka"}))


def _metric(family: Family, began: int, now: int) -> Metric:
    """A family as OpenTelemetry has it, where no name of a counter ends in `_total`."""
    data: Any
    if family.kind == "histogram":
        points = [
            HistogramDataPoint(
                attributes=dict(labels),
                start_time_unix_nano=began,
                time_unix_nano=now,
                count=sum(value.counts),
                sum=value.sum,
                bucket_counts=value.counts,
                explicit_bounds=BOUNDS,
                min=0.0,
                max=0.0,
            )
            for labels, value in family.values
            if isinstance(value, Buckets)
        ]
        data = Histogram(points, AggregationTemporality.CUMULATIVE)
    else:
        numbers = [
            NumberDataPoint(dict(labels), began, now, float(value))
            for labels, value in family.values
            if not isinstance(value, Buckets)
        ]
        is_sum = family.kind == "counter"
        data = Sum(numbers, AggregationTemporality.CUMULATIVE, True) if is_sum else Gauge(numbers)
    return Metric(family.name.removesuffix("_total"), family.help, "", data)


_SECONDS = 10.0
"""Between two exports, and the longest that one may take."""
_LAST_SECONDS = 2.0
"""The longest to wait for the last, at the end of the job."""
