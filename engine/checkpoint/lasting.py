"""Errors with an operator's state, which would come again: no restart helps."""

from __future__ import annotations

from typing import Literal

from engine.errors import CheckpointError
from engine.network import AggregateError, DecodeError, EncodeError, KeyExtractError


class keeping:  # noqa: N801 - it is used as a function, and leaves no frame of contextlib's behind
    """Turn errors inside into a CheckpointError that names the operator, unless they may pass.

    >>> with keeping("totals", "saved"):
    ...     raise TypeError("a lock cannot travel in a record")
    Traceback (most recent call last):
    engine.errors.CheckpointError: the state of operator 'totals' cannot be saved: TypeError: ...
    """

    def __init__(self, operator: str, done: Literal["saved", "read"]) -> None:
        self._operator = operator
        self._done: Literal["saved", "read"] = done

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type | None, error: BaseException | None, _traceback: object) -> None:
        """Raise the error of ours in place of the other."""
        if isinstance(error, _LASTING):
            told, _, hint = str(error).partition("\n\nhint: ")
            raise CheckpointError(
                f"the state of operator {self._operator!r} cannot be {self._done}: "
                f"{type(error).__name__}: {told}",
                hint or _HINTS[self._done],
            ) from error


_LASTING = (
    *(LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError),
    *(AggregateError, DecodeError, EncodeError, KeyExtractError),
)
_HINTS = {
    "saved": "checkpoints hold what channels take: plain data, dataclasses and their like; or, "
    "with .with_pickle(), what can be pickled",
    "read": "is the operator the one that wrote it? A new name by .named(…) lets it begin anew, "
    "with drop_state=[…] for what it kept",
}
