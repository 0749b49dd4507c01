"""Running a pipeline in a test: in this process, in a few milliseconds, to its end."""

from __future__ import annotations

from typing import Any

from engine.config import JobConfig
from engine.job import JobHandle, Pipelines, Plan
from engine.runtime.threads import ThreadLauncher


def run(pipelines: Pipelines, **settings: Any) -> dict[str, Any]:
    """What each driver sink of the pipelines gathered, by name; `settings` as for `execute`.

    All of it runs in threads of this process, with real channels; breakpoints and coverage reach
    the functions of the pipeline. Raises what `execute` raises.

    >>> from operators import source
    >>> from operators.sinks import Collect
    >>> from operators.sources import Collection
    >>> run(source(Collection([1, 2, 3])).map(lambda n: n * n).sink(Collect()))
    {'collect': [1, 4, 9]}
    """
    config = JobConfig.of({"name": "test", "progress": "none", **settings})
    handle = JobHandle(Plan.of(pipelines, config), ThreadLauncher())
    try:
        return handle.wait_finished().outputs
    finally:
        handle.cancel()
        handle.wait_stopped()
