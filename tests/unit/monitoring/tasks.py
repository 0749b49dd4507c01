"""Statistics of tasks as they could be, for what is told of them."""

from __future__ import annotations

from typing import Any

from engine.deployment.description import OperatorStatistics, TaskStatistics
from engine.network import LatencyHistogram


def task(
    vertex: str = "words -> sink",
    index: int = 0,
    *,
    elapsed: float = 1.0,
    records: int = 0,
    latencies_ms: tuple[float, ...] | None = None,
    operators: tuple[OperatorStatistics, ...] | None = None,
    **more: Any,
) -> TaskStatistics:
    """A task whose operators have had so many records; it was busy all the time."""
    histogram = LatencyHistogram()
    for each in latencies_ms or ():
        histogram.record(int(each * 1e6))
    names = vertex.split(" -> ")
    return TaskStatistics(
        vertex=vertex,
        index=index,
        operators=operators or tuple(OperatorStatistics(name, records, records) for name in names),
        elapsed_seconds=elapsed,
        busy_seconds=elapsed,
        waiting_seconds=0.0,
        idle_seconds=0.0,
        blocked_seconds=0.0,
        source_window=None,
        sink_window=None,
        latency=None if latencies_ms is None else histogram.to_bytes(),
        **more,
    )
