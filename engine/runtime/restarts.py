"""Whether a job with checkpoints goes on after a failure, and how soon: without I/O or a clock."""

from __future__ import annotations

from engine.errors import (
    ChannelLost,
    EngineError,
    OperatorError,
    StartError,
    StorageError,
    WorkerLost,
)


class Restarts:
    """The failures of one job that it went on after.

    >>> restarts = Restarts(most=3)
    >>> [restarts.delay_after(WorkerLost("t[0]", "n", "killed")) for _ in range(4)]
    [0.1, 0.2, 0.4, None]
    """

    def __init__(self, most: int) -> None:
        self.count = 0
        """All of them."""
        self.most = most
        self.in_a_row = 0
        """Those since the last checkpoint that was not the first behind a failure."""
        self._starts = 0
        """Those in a row in which tasks did not begin to work."""
        self._record: tuple[str, str] | None = None
        """The operator and the record of the last failure, if it was one."""

    def progressed(self) -> None:
        """A checkpoint was stored, and the job had worked since the one before."""
        self.in_a_row = self._starts = 0

    def delay_after(self, error: EngineError) -> float | None:
        """Seconds until the job begins again; None where that would be in vain."""
        if not isinstance(error, _PASSING):
            return None
        record = _record(error)
        is_again = record is not None and record == self._record
        self._record = record
        self._starts = self._starts + 1 if isinstance(error, StartError) else 0
        if is_again or self._starts > _MOST_STARTS or self.in_a_row >= self.most:
            return None
        self.in_a_row += 1
        self.count += 1
        return min(_FIRST_SECONDS * 2.0 ** (self.in_a_row - 1), _LONGEST_SECONDS)


def _record(error: EngineError) -> tuple[str, str] | None:
    if not isinstance(error, OperatorError) or error.record is None:
        return None
    return error.operator, error.record


_PASSING = (ChannelLost, OperatorError, StartError, StorageError, WorkerLost)
"""What may not come again."""
_MOST_STARTS = 2
_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 10.0
