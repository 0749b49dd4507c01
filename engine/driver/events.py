"""The events of a job, and the commands of its coordinator: plain data.

Those of checkpoints are with `Epochs`, those of the step `place` with `Placing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from engine.driver.epochs import EpochCommand, EpochEvent
from engine.driver.moves import Departure
from engine.driver.placing import Place, Waits, WorkersPlaced
from engine.errors import EngineError, WorkerLost

Step: TypeAlias = Literal[
    "place", "process_id", "deploy", "connect", "run", "commit", "cancel", "close"
]
"""A method of the worker, but for `place`. Only a worker that lives is given work: `process_id`
asks whether it does, so that one that is killed while it starts leaves nothing."""


@dataclass(frozen=True)
class AttemptRequested:
    """Somebody wants an attempt to begin: the first, or one in the place of that at work."""


@dataclass(frozen=True)
class StepDone:
    """A task is done with a step."""

    task: int
    step: Step
    attempt: int


@dataclass(frozen=True)
class StepFailed:
    """A task could not take a step, or failed in it; its worker lives."""

    task: int
    step: Step
    attempt: int
    error: EngineError


@dataclass(frozen=True)
class WorkerGone:
    """The worker of a task is gone."""

    task: int
    error: WorkerLost


@dataclass(frozen=True)
class LimitPassed:
    """An operator of a task has emitted all that its limit lets through."""

    task: int
    attempt: int
    operator: str


@dataclass(frozen=True)
class SourceProgressed:
    """The source of a task has come so far in event time; None: it is idle, or has ended."""

    task: int
    attempt: int
    watermark_us: int | None


@dataclass(frozen=True)
class StopRequested:
    """Somebody wants the sources to end."""


@dataclass(frozen=True)
class Cancelled:
    """Somebody wants the job to end."""


@dataclass(frozen=True)
class NodesDraining:
    """All nodes that are about to go; each event has all of them."""

    nodes: tuple[Departure, ...]


@dataclass(frozen=True)
class MasterFailed:
    """The master itself cannot go on."""

    error: BaseException


Event: TypeAlias = (
    AttemptRequested
    | WorkersPlaced
    | Waits
    | StepDone
    | StepFailed
    | WorkerGone
    | LimitPassed
    | SourceProgressed
    | StopRequested
    | Cancelled
    | NodesDraining
    | MasterFailed
    | EpochEvent
)


@dataclass(frozen=True)
class Call:
    """Have a task take a step."""

    task: int
    step: Step
    attempt: int


@dataclass(frozen=True)
class EndSource:
    """Let the source of a task end, as if it had no more."""

    task: int
    attempt: int


@dataclass(frozen=True)
class RaiseLimit:
    """Let the source of a task read until it has come further than this in event time."""

    task: int
    attempt: int
    limit_us: int


@dataclass(frozen=True)
class Verify:
    """Look whether the job is still this driver's; it is `MasterFailed` if not."""


Command: TypeAlias = Place | Call | EndSource | RaiseLimit | Verify | EpochCommand
