"""A mistake that a conformance test has found in a connector, and what all of these tests need."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from engine.columns import is_columns
from engine.record import code_pickle
from engine.state import decode_value, encode_value

T = TypeVar("T")


class CheckFailed(AssertionError):
    """A connector does not keep a promise, which the message names."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n\nhint: {hint}")


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Raise CheckFailed, with its cause, for an exception of the connector."""
    try:
        yield
    except CheckFailed:
        raise
    except Exception as error:
        raise CheckFailed(
            f"{what} raised {type(error).__name__}: {error}", "the exception above has the place"
        ) from error


def sent(operator: T) -> T:
    """The operator as a task gets it."""
    name = type(operator).__name__
    with calling(f"{name} cannot be sent to tasks: pickling it"):
        made: T = pickle.loads(code_pickle.dumps(operator))  # noqa: S301 - our own bytes
        return made


def stored(what: str, value: Any) -> Any:
    """The value as a checkpoint gives it back; CheckFailed if it is no plain data."""
    hint = "a checkpoint stores it, and another process reads it: numbers and texts, in tuples"
    try:
        back = decode_value(encode_value(value, pickle=False))
    except Exception as error:
        raise CheckFailed(
            f"{what} is {value!r:.200}, expected plain data: {error}", hint
        ) from error
    if back != value:
        raise CheckFailed(f"{what} is {value!r:.200}, and comes back as {back!r:.200}", hint)
    return back


def rows_of(batch: Any) -> list[bytes]:
    """The records of a batch, or the rows of columns, in a form that can be compared."""
    records = batch.to_pylist() if is_columns(batch) else batch
    return [encode_value(record, pickle=True) for record in records]


def shown(rows: Sequence[bytes]) -> str:
    """Some rows, for a message."""
    first = ", ".join(f"{decode_value(row)!r:.100}" for row in rows[:3])
    return f"{first}, … ({len(rows)} in all)" if len(rows) > 3 else first or "none"
