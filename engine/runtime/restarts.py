"""Whether a job with checkpoints goes on after a failure, and how soon: without I/O or a clock."""

from __future__ import annotations

import re

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
        self._last: tuple[str, str] | None = None
        """The operator of the last failure, and what would tell that it came again."""

    def progressed(self) -> None:
        """A checkpoint was stored, and the job had worked since the one before."""
        self.in_a_row = self._starts = 0

    def delay_after(self, error: EngineError) -> float | None:
        """Seconds until the job begins again; None where that would be in vain."""
        if not isinstance(error, _PASSING):
            return None
        failed = _failed(error)
        is_again = failed is not None and failed == self._last
        self._last = failed
        self._starts = self._starts + 1 if isinstance(error, StartError) else 0
        if is_again or self._starts > _MOST_STARTS or self.in_a_row >= self.most:
            return None
        self.in_a_row += 1
        self.count += 1
        return min(_FIRST_SECONDS * 2.0 ** (self.in_a_row - 1), _LONGEST_SECONDS)


def _failed(error: EngineError) -> tuple[str, str] | None:
    """The operator, and the record or, where none is known, the words: None of what may pass."""
    if not isinstance(error, OperatorError):
        return None
    if error.record is not None:
        return error.operator, error.record
    if _LASTING.match(error.error):
        return error.operator, _ADDRESS.sub("", error.error)
    return None


_PASSING = (ChannelLost, OperatorError, StartError, StorageError, WorkerLost)
"""What may not come again."""
_LASTING = re.compile(
    "(Encode|KeyExtract|Aggregate|Decode|Type|Value|Index|Key|Lookup|Attribute|Name|ZeroDivision|"
    "Overflow|Recursion|Assertion|NotImplemented|Import|ModuleNotFound)Error: "
)
"""How the words of a failure begin that nothing outside of the job is the cause of."""
_ADDRESS = re.compile("0x[0-9a-f]+")
"""In the words of an object, in every process another."""
_MOST_STARTS = 2
_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 10.0
