"""What a history tells of an error: all that a person needs who has nothing else."""

from __future__ import annotations

import traceback
from typing import Any

from engine.errors import EngineError, OperatorError, WorkerLost


def told(error: BaseException) -> dict[str, Any]:
    """The error's fields: the operator, task, record and traceback where it has them."""
    found: dict[str, Any] = {"type": type(error).__name__}
    if not isinstance(error, EngineError):
        last = "".join(traceback.format_exception_only(type(error), error)).strip()
        whole = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return {**found, "message": _cut(last, _LONGEST_TEXT), "traceback": _end(whole)}
    found["message"] = _cut(error.message, _LONGEST_TEXT)
    if error.hint:
        found["hint"] = _cut(error.hint, _LONGEST_TEXT)
    if isinstance(error, OperatorError):
        found |= {"operator": error.operator, "task": error.task}
        found["message"] = _cut(error.error, _LONGEST_TEXT)
        if error.record is not None:
            found["record"] = error.record
        if error.user_traceback:
            found["traceback"] = _end(error.user_traceback)
        if error.full_traceback and not error.user_traceback:
            found["traceback"] = _end(error.full_traceback)
    if isinstance(error, WorkerLost):
        found |= {"task": error.task, "node": error.node, "status": error.status}
        found["message"] = error.message.partition("\nlast log lines:")[0]
        if error.log:
            found["log"] = _end(error.log)
    return found


def in_a_line(error: dict[str, Any]) -> str:
    """The failure in one line: what, where, with which record.

    >>> in_a_line({"type": "OperatorError", "operator": "parse", "task": "parse[1]",
    ...            "record": "'x'", "message": "ValueError: no number"})
    "operator 'parse' (task parse[1]) failed on record 'x': ValueError: no number"
    """
    message = " ".join(str(error.get("message", "")).split())
    if "operator" not in error:
        return f"{error.get('type', 'error')}: {message}"
    on = f" on record {error['record']}" if "record" in error else ""
    where = f"operator {error['operator']!r} (task {error.get('task', '?')})"
    return f"{where} failed{on}: {message}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _end(text: str) -> str:
    """The end of a text, where the cause is told."""
    return text if len(text) <= _LONGEST_TRACEBACK else f"…{text[1 - _LONGEST_TRACEBACK :]}"


_LONGEST_TEXT = 4000
_LONGEST_TRACEBACK = 16_000
