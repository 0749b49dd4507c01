"""How a metric is declared: once, with how it is merged, shown and exposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

Merge: TypeAlias = Literal["sum", "max", "way", "each"]
"""How a job merges its tasks' values: their sum, the largest, the largest of each vertex, summed up
along a record's way, or, of mappings to counts, the sum of each."""


@dataclass(frozen=True)
class Metric:
    """How a metric is merged, and shown where it is not 0."""

    merge: Merge
    unit: str
    """A unit of time or size, or what is counted, in the singular."""
    help: str
    json: str | None = None
    """Its name in JSON, if that is not its own."""
    row: str | None = None
    """The row of a result's table that tells of it; metrics may share one."""
    text: str = "{}"
    """What the row says."""
    alone: bool = True
    """Whether the row is there for this metric alone."""
    progress: bool = False
    """Whether the progress line tells of it."""
    goes_on: bool = False
    """Whether a task counts on behind a restart, from what it had counted at the checkpoint."""
    exposed: str | None = None
    """Its name in monitoring systems, in seconds or bytes; a counter ends in `_total`."""
    by: str | None = None
    """What the keys of a mapping to counts are: the label that they are exposed by."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What tells it from others that are exposed by the same name, whose help is in `SHARED`."""
    of_job: bool = False
    """Whether it is exposed once for the job, and not for each task."""
    always: bool = False
    """Whether it is exposed from the beginning, and not only where a task has had a value."""


def metric(merge: Merge, unit: str, what: str, default: Any = 0, **told: Any) -> Any:
    """Declare a field of a dataclass as a metric; without a default where that is `MISSING`."""
    metadata = {_KEY: Metric(merge, unit, what, **told)}
    if merge == "each":
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared(kind: type) -> dict[str, Metric]:
    """The metrics among the fields of a dataclass, by name, in their order."""
    return {each.name: each.metadata[_KEY] for each in fields(kind) if _KEY in each.metadata}


_KEY = "metric"
