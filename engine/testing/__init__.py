"""Tests in this process: of a pipeline, in a few milliseconds to its end, and of your connectors.

`check_source` and `check_sink` find what your own source or sink does wrong. With a `VirtualClock`,
rates and timers take no time and have the same results on every machine.
"""

from __future__ import annotations

from typing import Any

from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Pipelines, Plan
from engine.testing.check_failed import CheckFailed
from engine.testing.check_sink import check_sink
from engine.testing.check_source import check_source
from engine.testing.threads import ThreadLauncher
from engine.testing.unchanged import leaves_records
from engine.testing.virtual_clock import VirtualClock

__all__ = ["CheckFailed", "VirtualClock", "check_sink", "check_source", "run"]


def run(
    pipelines: Pipelines,
    *,
    clock: VirtualClock | None = None,
    check_changes: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Run pipelines; returns what each driver sink gathered, by name. `settings` as for `execute`.

    It runs in threads of this process, with real channels; breakpoints and coverage work in the
    functions of the pipeline. Raises what `execute` raises.

    >>> from operators import source
    >>> from operators.sinks import Collect
    >>> from operators.sources import Collection
    >>> run(source(Collection([1, 2, 3])).map(lambda n: n * n).sink(Collect()))
    {'collect': [1, 4, 9]}

    A clock is that of all tasks:

    >>> clock = VirtualClock()
    >>> hourly = source(Collection(["a", "b"], rate=1 / 3600))
    >>> run(hourly.sink(Collect()), clock=clock, batch_size=1)
    {'collect': ['a', 'b']}
    >>> clock.now_ns() / 1e9
    3600.0

    With `check_changes`, a function that changes a record in place, rather than return a new one,
    fails the job: the operator that emitted the record may still keep it. The error names the
    operator and the record. This encodes each record twice.
    """
    config = JobConfig.of({"name": "test", "progress": "none", "history": "off", **settings})
    handle = JobHandle(
        Plan.of(pipelines, config), ThreadLauncher(clock, leaves_records if check_changes else None)
    )
    try:
        return handle.wait_finished().outputs
    finally:
        handle.cancel()
        handle.wait_stopped()
