"""How long a job waits for its storage when it has nothing else to do: without I/O or a clock."""

from __future__ import annotations

from engine.errors import EngineError, StorageError


class LastCheckpoint:
    """The time limit of the checkpoint with which a job ends.

    >>> last = LastCheckpoint(seconds=60.0)
    >>> last.look(True, 100.0, None), last.deadline
    (None, 160.0)
    >>> last.look(True, 160.0, StorageError("/data: No space left on device")).message
    'the last checkpoint could not be written within 60 s: /data: No space left on device'
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.deadline: float | None = None
        """When it is too late; None while the job has something to do."""

    def look(
        self, is_awaited: bool, now: float, failure: EngineError | None
    ) -> StorageError | None:
        """Why the job ends, where nothing but this was waited for, for too long."""
        if not is_awaited:
            self.deadline = None
            return None
        if self.deadline is None:
            self.deadline = now + self._seconds
        return self._error(failure) if now >= self.deadline else None

    def _error(self, failure: EngineError | None) -> StorageError:
        what = f"the last checkpoint could not be written within {self._seconds:g} s"
        if failure is None:
            return StorageError(f"{what}: its storage has not answered", _HINT)
        code = failure.code if isinstance(failure, StorageError) else None
        hint = "; ".join(filter(None, (failure.hint, _HINT)))
        return StorageError(f"{what}: {failure.message}", hint, code=code)


_HINT = (
    "`--resume latest` (resume='latest') goes on from the checkpoint before; "
    "checkpoint_timeout_seconds is how long to wait"
)
