"""From an exception in a task to a TaskFailure: operator, record, and the user's traceback."""

from __future__ import annotations

import operator
import os
import traceback
from pathlib import Path

from engine.errors import EngineError
from engine.network import Cancelled, ChannelLost, EncodeError, KeyExtractError
from engine.runtime.chain import Chain
from engine.runtime.description import TaskDescription, TaskFailure


def describe(error: BaseException, description: TaskDescription, chain: Chain) -> TaskFailure:
    """What went wrong in this task, as data that can travel to the job master."""
    kind = "operator"
    if isinstance(error, Cancelled):
        kind = "cancelled"
    elif isinstance(error, ChannelLost):
        kind = "channel_lost"
    frames = list(traceback.walk_tb(error.__traceback__))
    by_code = {frame.f_code: frame for frame, _ in frames}
    if at_work := chain.failed(by_code):
        name = at_work
    elif Chain.open.__code__ in by_code or Chain.close.__code__ in by_code:
        name = chain.opening
    elif isinstance(error, EncodeError | KeyExtractError):
        name = description.operators[-1].name
    else:
        name = description.operators[0].name
    record = None
    user_frames = []
    for frame, line in frames:
        if not frame.f_code.co_filename.startswith(_OWN_FOLDERS):
            user_frames.append((frame, line))
        elif "record" in frame.f_locals:
            record = shortened(frame.f_locals["record"])
        elif "records" in frame.f_locals and type(frame.f_locals.get("batch")) is list:
            batch, left = frame.f_locals["batch"], operator.length_hint(frame.f_locals["records"])
            record = shortened(batch[len(batch) - left - 1])
    lines = traceback.format_exception_only(type(error), error)
    summary = str(error) if kind == "channel_lost" else lines[-1].strip()
    if user_frames:
        stack = traceback.StackSummary.extract(iter(user_frames))
        lines = ["Traceback (most recent call last):\n", *stack.format(), *lines]
    elif isinstance(error, _TOLD):
        lines = []
    else:
        lines = traceback.format_exception(error)
    return TaskFailure(kind, name, record, summary, "".join(lines))


def shortened(value: object, limit: int = 200) -> str:
    """The repr of `value`, cut to `limit` characters; never raises."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a repr of the user's may raise anything
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


_TOLD = (EncodeError, KeyExtractError, Cancelled, ChannelLost, EngineError)
"""Errors of our own, which say all that a user needs: our frames add nothing."""

_PACKAGES = Path(__file__).resolve().parents[2]
_OWN_FOLDERS = tuple(f"{_PACKAGES / package}{os.sep}" for package in ("engine", "operators"))
