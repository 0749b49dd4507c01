"""Replies of workers: whatever a method returns or raises arrives as something that can be told."""

from __future__ import annotations

import pickle
import threading
from typing import Any, NoReturn

import pytest

from engine.deployment.reply import CallFailed, open_reply, pack
from engine.errors import WorkerLost


class Unkind(Exception):
    """Cannot be pickled, nor be asked what it says."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        raise SystemExit(3)


def explode() -> NoReturn:
    raise RuntimeError("exploded while it was read")


class Trap:
    def __reduce__(self) -> Any:
        return explode, ()


def raising(error: BaseException) -> Any:
    def call() -> NoReturn:
        raise error

    return call


def test_what_a_method_returns_arrives() -> None:
    assert open_reply(pack(lambda: {"shm": "endpoint"})) == {"shm": "endpoint"}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (raising(KeyError("batch")), "KeyError: 'batch'"),
        (raising(WorkerLost("map[0]", "local", "killed by SIGKILL")), "WorkerLost: worker of task"),
        (raising(Unkind()), "Unkind: its text cannot be had: SystemExit"),
        (raising(SystemExit(2)), "SystemExit: 2"),
        (threading.Lock, "TypeError: cannot pickle '_thread.lock' object"),
        (Trap, "RuntimeError: exploded while it was read"),
        (raising(pickle.PicklingError("of the user's")), "PicklingError: of the user's"),
    ],
)
def test_what_goes_wrong_arrives_as_text(call: Any, told: str) -> None:
    with pytest.raises(CallFailed, match="^" + told.replace("(", r"\(")):
        open_reply(pack(call))


@pytest.mark.parametrize("reply", [b"", b"\0", b"\1", b"\0garbage", b"\7" * 100])
def test_bytes_that_are_no_reply_are_an_error(reply: bytes) -> None:
    with pytest.raises(CallFailed):
        open_reply(reply)
