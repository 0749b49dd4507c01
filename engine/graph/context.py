"""The environment of a task when its operators open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any, Protocol

from engine.config import Native
from engine.graph.failing import FailureContext
from engine.graph.splits import Splits


@dataclass(frozen=True)
class TaskContext:
    """The environment of a task when its operators open.

    `index` counts from 0 to `parallelism - 1`; `batch_size` is the most records a batch may hold.
    """

    task_name: str
    index: int
    parallelism: int
    batch_size: int
    job_name: str
    rescue: Rescue | None = None
    """The handler of records that the operator's function fails on; None where that fails the
    job."""
    check: Callable[[Any], None] | None = field(default=None, compare=False, repr=False)
    """Raises TypeError for a result that the next operator does not take, so that the record is
    rescued."""
    failing: FailureContext = field(default_factory=FailureContext, compare=False, repr=False)
    """Notes which record the function failed on, where that fails the job."""
    side_outputs: Mapping[str, Callable[[list[Any]], None]] = field(default_factory=dict)
    """Functions that send records to the operator's side outputs, by name; only outputs with a
    reader are in it."""
    pickle: bool = False
    """Whether records that leave the task may be pickled if they cannot travel otherwise."""
    native: Native = "auto"
    """The way of the operator's functions of records."""
    identity: str = ""
    """The operator's identity in every run of the program, whatever else is declared: its given
    name, else a name from its path. It identifies data that the operator keeps outside of the
    job."""
    gate: Gate | None = None
    """The gate of an operator with a side input; None in a task that has none."""
    now_ns: Callable[[], int] = field(default=monotonic_ns, compare=False, repr=False)
    """The task's clock, which only goes forward: nanoseconds since some moment."""
    is_virtual: bool = False
    """Whether the clock is that of a test, which stands still while tasks work."""
    wake: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Has a waiting task look at its timers again, after another thread has set a `next_timer`."""
    checkpoints: bool = False
    """Whether the job writes checkpoints: sinks then make their output final epoch by epoch."""
    generation: int = 0
    """With checkpoints, the driver's generation: each new driver of a job has a higher one."""
    committed: int = 0
    """With checkpoints, the last epoch that all sinks are known to have committed; they may have
    committed a later one."""
    only_last: bool = False
    """Whether the operator behind it is a sink to which only the last of a batch's records with the
    same first item matters."""
    drift: Drift | None = field(default=None, compare=False, repr=False)
    """The control that holds the source, for the last operator of its task with a
    `max_drift_us`."""
    splits: Splits = field(default_factory=Splits, compare=False, repr=False)
    """The splits that the source of the task reads, for its operators up to the first that may
    hold a record back beyond its batch. For all others, every record is of one split."""
    open_shares: frozenset[int] | None = None
    """For a restored source: the numbers of its shares that tasks still read."""


class Rescue(Protocol):
    """Handles records that an operator's function fails on."""

    def __call__(self, record: Any, error: BaseException) -> None:
        """Count the record, put it aside if wanted, and raise errors that are not the record's."""


class Drift(Protocol):
    """Holds back a source that is too far ahead of others in event time."""

    def tell(self, watermark_us: int | None) -> None:
        """Note the source's progress; None: it is idle."""

    def has_held(self) -> bool:
        """Whether the source has waited since the last call."""


class Gate(Protocol):
    """Controls of a task for the function of an operator with a side input, from any thread.

    Records that it holds at the start stay in their channels, so credits bound them; they come
    after `resume`, or when the side input has ended.
    """

    def resume(self) -> None:
        """Let held records come. The task then looks at them without a record of the side input."""

    def fail(self, error: BaseException) -> None:
        """End the task with this error, even while it waits."""
