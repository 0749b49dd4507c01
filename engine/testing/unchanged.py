"""A check for functions that change a record in place: it compares records before and after.

An operator may keep a record that it has emitted, as `reduce` does. A function behind it that
changes the record changes the operator's state, too, and results then depend on batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.errors import EngineError
from engine.graph.failing import FailureContext
from engine.network import Batch
from engine.task.compared import bytes_of
from engine.task.failure import shortened

Run = Callable[[Any], Any]


class RecordChanged(EngineError):
    """A function has changed a record in place that its emitter may keep."""


def leaves_records(run: Run, failing: FailureContext, name: str, before: str | None) -> Run:
    """The batch function of operator `name`, which fails if it changes records of `before`.

    `before` is the operator in front; None for a source, or an operator of another task.

    It compares the encoded records, and never calls their `==`. A record that cannot be encoded is
    not checked.
    """

    def checked(batch: Any) -> Any:
        if type(batch) is not list:
            return run(batch)
        records = list(batch)  # the list itself is the function's
        given = [_encoded(record) for record in records]
        out = run(batch)
        for record, was in zip(records, given, strict=True):
            if was is None:
                continue
            now = _encoded(record)
            if now is None or bytes_of(now) != bytes_of(was):
                failing.operator = name
                failing.on(was.to_list()[0])
                giver = "it was given" if before is None else f"{before!r} gave it"
                raise RecordChanged(
                    f"it made {shortened(record)} of a record that {giver}, expected the record as "
                    "it was",
                    hint="return a new record, such as {**record, 'n': 1} or "
                    "dataclasses.replace(record, n=1)",
                )
        return out

    return checked


def _encoded(record: Any) -> Batch | None:
    """The record's encoding now; None if the record cannot change or be encoded."""
    if type(record) in _NEVER_CHANGE:
        return None
    try:
        return Batch.from_list([record], pickle=True)
    except Exception:  # noqa: BLE001 - whatever it is, no channel has to carry it
        return None


_NEVER_CHANGE = frozenset({bool, bytes, float, int, str, type(None)})
