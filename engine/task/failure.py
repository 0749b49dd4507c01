"""From an exception in a task to a TaskFailure: operator, record, and the user's traceback.

Invariant: nothing here raises, whatever the user's exceptions and records do in `str` or `repr`. A
part without a text is left out or marked; the others are shown all the same.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from traceback import TracebackException
from types import FrameType, TracebackType
from typing import TypeVar

from engine.deployment.description import TaskDescription, TaskFailure
from engine.errors import CheckpointError, EngineError, StorageError
from engine.graph.failing import FailureContext
from engine.network import AggregateError, Cancelled, ChannelLost, EncodeError, KeyExtractError

T = TypeVar("T")


def describe(
    error: BaseException, description: TaskDescription, failing: FailureContext
) -> TaskFailure:
    """The failure of this task, as data that can travel to the job master."""
    frames: list[FrameType] = _guarded(lambda: _frames(error), [])
    kind, text, hint = _kind(error), in_words(error), ""
    if kind in ("operator", "checkpoint"):
        text, _, hint = text.partition("\n\nhint: ")
    if not hint and _type_name(error) == "ArrowNotImplementedError":
        hint = _NO_KERNEL
    told, full = _tracebacks(error)
    code = _code(error)
    if not (hint or told or issubclass(type(error), _TOLD)) and _ended_in_engine(frames):
        hint = "OKA_DEBUG=1 shows where in the engine that was"
    return TaskFailure(
        kind=kind if code is None or told else "storage",
        operator=failing.operator or description.operators[0].name,
        record=None if failing.record is None else shortened(failing.record[0]),
        error=text,
        traceback=told,
        hint=hint or None,
        full_traceback=full,
        code=code,
    )


def in_words(error: BaseException) -> str:
    """The exception's type and message, as in the last lines of a traceback; never raises."""
    kind = type(error)
    if issubclass(kind, ChannelLost):
        words = _guarded(lambda: _plain(str(error)), "")
    elif issubclass(kind, SyntaxError):  # Python shows the offending line first
        words = _guarded(lambda: _plain(f"{kind.__qualname__}: {error}"), "")
    else:
        words = _guarded(lambda: "".join(traceback.format_exception_only(kind, error)), "")
        words = re.sub(r"^engine\.[\w.]*\.", "", words)
    return _cut(words.strip(), _MOST_WORDS) or f"{_type_name(error)}, which says nothing of itself"


def shortened(value: object) -> str:
    """The repr of `value`, cut to a length for messages; never raises."""
    try:
        text = _plain(repr(value))
    except BaseException as error:  # noqa: BLE001 - a repr of the user's may raise anything
        text = f"<{_type_name(value)}, whose repr raised {_type_name(error)}>"
    return _cut(text, _MOST_REPR)


def _kind(error: BaseException) -> str:
    if issubclass(type(error), Cancelled):
        return "cancelled"
    if issubclass(type(error), CheckpointError):
        return "checkpoint"
    return "channel_lost" if issubclass(type(error), ChannelLost) else "operator"


def _code(error: BaseException) -> str | None:
    """The error code of a storage that does not answer."""
    if not issubclass(type(error), StorageError):
        return None
    assert isinstance(error, StorageError)
    return error.code if error.is_away else None


def _traceback(error: BaseException) -> TracebackType | None:
    """The exception's traceback, read without the exception's own attributes."""
    found: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    return found


def _frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(_traceback(error))]


def _tracebacks(error: BaseException) -> tuple[str, str]:
    """The user's part of the traceback, without `in_words` at its end; and the whole."""
    try:
        told = TracebackException(type(error), error, _traceback(error))
        full = "".join(told.format())
        return _plain(_users_part(told)), _plain(full)
    except BaseException:  # noqa: BLE001 - what Python asks of an exception may raise anything
        return "", ""


def _users_part(told: TracebackException) -> str:
    for each in _linked(told):
        each.stack[:] = [frame for frame in each.stack if not _is_own(frame.filename)]
    for each in _linked(told):
        each.__cause__, each.__context__ = _seen(each.__cause__), _seen(each.__context__)
    if getattr(told, "exceptions", None):
        return "".join(told.format())
    before = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    if before is None:
        return "".join(told.stack.format())
    if not told.stack:
        return "".join(before.format())
    words = len(list(told.format_exception_only()))
    return "".join(list(told.format())[:-words])


def _linked(told: TracebackException) -> Iterator[TracebackException]:
    """The exception, its causes and its members."""
    waiting = [told]
    while waiting:
        each = waiting.pop()
        yield each
        others = (each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ()))
        waiting += filter(None, others)


def _seen(told: TracebackException | None) -> TracebackException | None:
    """The exception, or its first cause, that passed through the user's code."""
    while told is not None and not told.stack and not getattr(told, "exceptions", None):
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return told


def _ended_in_engine(frames: Sequence[FrameType]) -> bool:
    return bool(frames) and frames[-1].f_code.co_filename.startswith(_OWN_FOLDERS[0])


def _is_own(file: str) -> bool:
    return file.startswith(_OWN_FOLDERS)


def _type_name(value: object) -> str:
    return _guarded(lambda: _plain(type(value).__name__), "?")


def _plain(text: str) -> str:
    """A plain `str` in place of a user's subclass, which the driver may not be able to import."""
    return "".join(str.__iter__(text))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _guarded(tell: Callable[[], T], otherwise: T) -> T:
    try:
        return tell()
    except BaseException:  # noqa: BLE001 - the user's code is asked, and may raise anything
        return otherwise


_TOLD = (EncodeError, KeyExtractError, AggregateError, Cancelled, ChannelLost, EngineError)
"""Oka's errors, which say all that a user needs: the engine's frames add nothing."""

_NO_KERNEL = (
    "PyArrow's functions do not take columns of all types, such as views and runs: cast them "
    "before, as in batch['x'].cast('string') or pyarrow.compute.run_end_decode(batch['x'])"
)
_MOST_WORDS = 2000
_MOST_REPR = 200
_PACKAGES = Path(__file__).resolve().parents[2]
_OWN_FOLDERS = tuple(f"{_PACKAGES / package}{os.sep}" for package in ("engine", "operators"))
