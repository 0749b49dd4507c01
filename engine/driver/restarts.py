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
    """The failures that one job survived.

    A job waits for a storage that does not answer, for a limited time, and spends no restart.
    Before the job has made progress it spends them, as the storage may not exist, such as with a
    wrong endpoint.

    >>> restarts = Restarts(most=3, storage_seconds=60.0)
    >>> [restarts.delay_after(WorkerLost("t[0]", "n", "killed"), 0.0) for _ in range(4)]
    [0.1, 0.2, 0.4, None]
    >>> restarts.progressed()
    >>> away = StorageError("no answer", code="Unreachable")
    >>> [restarts.delay_after(away, now) for now in (1.0, 2.0, 61.0)]
    [0.1, 0.2, None]
    """

    def __init__(self, most: int, storage_seconds: float) -> None:
        self.count = 0
        """All of them."""
        self.most = most
        self.in_a_row = 0
        """The failures since the last checkpoint that was not the first one after a failure."""
        self.words = ""
        """The number of the last failure among the allowed ones."""
        self._storage_seconds = storage_seconds
        self._has_progressed = False
        self._away: float | None = None
        """Since when the storage is away, as far as is known."""
        self._tries = 0
        """Failures since then that were for that."""
        self._starts = 0
        """Consecutive failures in which tasks did not begin to work."""
        self._last: tuple[str, str] | None = None
        """The operator of the last failure, and what would tell that it came again."""

    def progressed(self) -> None:
        """A checkpoint was stored, and the job had worked since the one before."""
        self.in_a_row = self._starts = self._tries = 0
        self._away = None
        self._has_progressed = True

    def delay_after(self, error: EngineError, now: float) -> float | None:
        """Seconds until the job begins again; None where that would be in vain."""
        if not isinstance(error, _PASSING):
            return None
        if self._has_progressed and isinstance(error, StorageError) and error.is_away:
            return self._delay_of_storage(now)
        failed = _failed(error)
        is_again = failed is not None and failed == self._last
        self._last = failed
        self._starts = self._starts + 1 if isinstance(error, StartError) else 0
        if is_again or self._starts > _MOST_STARTS or self.in_a_row >= self.most:
            return None
        self.in_a_row += 1
        self.count += 1
        self.words = f"{self.in_a_row} of {self.most}"
        return _delay(self.in_a_row)

    def _delay_of_storage(self, now: float) -> float | None:
        if self._away is None:
            self._away = now
        if now - self._away >= self._storage_seconds:
            return None
        self._tries += 1
        self.count += 1
        away = f"{now - self._away:.0f} of {self._storage_seconds:g} s"
        self.words = f"(storage away for {away})"
        return _delay(self._tries)


def _delay(number: int) -> float:
    return min(_FIRST_SECONDS * 2.0 ** (number - 1), _LONGEST_SECONDS)


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
"""A failure that must not come again."""
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
