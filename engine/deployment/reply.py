"""A worker's answer to a call: bytes that any runtime carries and the job master decodes.

Invariant: `pack` never raises, and `open_reply` raises only CallFailed. A value that cannot travel,
such as an exception that cannot be pickled, travels as its text.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


class CallFailed(Exception):
    """The exception of a worker's method: the name of its type, and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")


def pack(call: Callable[[], Any]) -> bytes:
    """Call the function; returns its value or exception as bytes."""
    try:
        return _RETURNED + pickle.dumps(call())
    except BaseException as error:  # noqa: BLE001 - also what a user's code raises to end the process
        return _RAISED + pickle.dumps((type(error).__name__, text_of(error)))


def open_reply(reply: bytes) -> Any:
    """The method's value. Raises CallFailed if it raised, or its value cannot be read."""
    try:
        value = pickle.loads(memoryview(reply)[1:])  # noqa: S301 - sent by our own worker
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is told
        raise CallFailed(type(error).__name__, text_of(error)) from None
    if reply[:1] == _RAISED:
        raise CallFailed(*value)
    return value


def text_of(error: BaseException) -> str:
    """The text of an exception, a plain string; never raises."""
    try:
        return "".join(str(error))
    except BaseException as other:  # noqa: BLE001 - the user's __str__ may raise anything
        return f"its text cannot be had: {type(other).__name__}"


_RETURNED, _RAISED = b"\0", b"\1"
