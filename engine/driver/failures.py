"""The failures of one step, of which the worst is reported: pure, like the coordinator.

A death comes before a user's error, and that before a broken channel. A channel breaks when its
other end dies, and is often noticed first, so it is reported only after some time without a death.
"""

from __future__ import annotations

from engine.driver.events import Step
from engine.errors import ChannelLost, EngineError, OperatorError, StorageError, WorkerLost


class Failures:
    """The worst failure of each task."""

    def __init__(self) -> None:
        self._worst: dict[int, EngineError] = {}
        self.grace: float | None = None
        """Until when a death may still explain a broken channel."""

    def note(self, task: int, error: EngineError) -> None:
        """A task has failed, perhaps once more."""
        before = self._worst.get(task)
        if before is None or _rank(error) < _rank(before):
            self._worst[task] = error

    def __bool__(self) -> bool:
        return bool(self._worst)

    def __contains__(self, task: int) -> bool:
        return task in self._worst

    @property
    def has_deaths(self) -> bool:
        """Whether a worker has died."""
        return any(isinstance(error, WorkerLost) for error in self._worst.values())

    def verdict(self, step: Step, now: float, *, is_over: bool) -> EngineError | None:
        """The worst of all, if no worse one may come soon; `is_over`: no task works."""
        worst = min((self._worst[task] for task in sorted(self._worst)), default=None, key=_rank)
        return None if worst is None or self._is_open(worst, step, now, is_over) else worst

    def _is_open(self, error: EngineError, step: Step, now: float, is_over: bool) -> bool:
        if step == "commit":  # what other sinks hold becomes final all the same
            return not is_over and isinstance(error, OperatorError | StorageError)
        if step != "run":
            return False
        if self.grace is None and isinstance(error, ChannelLost):
            self.grace = now + GRACE_SECONDS
        if self.grace is None or isinstance(error, WorkerLost):
            return False
        return not is_over and now < self.grace


def _rank(error: EngineError) -> int:
    """The rank of an error; the lowest is reported."""
    return 0 if isinstance(error, WorkerLost) else 1 if isinstance(error, OperatorError) else 2


GRACE_SECONDS = 0.8
