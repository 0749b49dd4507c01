"""What is said of a pipeline that cannot travel: operator, function, variable."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import engine
from operators import source
from operators.sinks import Discard
from operators.sources import Collection


def told(function: Callable[[Any], Any]) -> str:
    pipeline = source(Collection([1])).map(len).named("first").map(function).sink(Discard())
    with pytest.raises(engine.StartError) as raised:
        engine.execute(pipeline, progress="none")
    return str(raised.value)


def test_a_lock_in_a_closure_is_named_with_its_function() -> None:
    lock = threading.Lock()

    def guarded(n: int) -> int:
        with lock:
            return n

    message = told(guarded)
    assert "operator 'map': function" in message
    assert "guarded (test_unpicklable.py, line " in message
    assert "its variable 'lock', a _thread.lock," in message
    assert "cannot be pickled: TypeError: cannot pickle '_thread.lock' object" in message
    assert "hint: open files, sockets and locks inside the function" in message
    assert "first" not in message


def test_a_function_in_a_function() -> None:
    lock = threading.Lock()
    inner = lambda n: lock.locked()  # noqa: E731

    message = told(lambda n: inner(n))
    assert "inner" not in message.partition("its variable")[0] or "<lambda>" in message
    assert "its variable 'lock', a _thread.lock," in message


class Guarded:
    def __init__(self) -> None:
        self.items = {"lock": threading.Lock()}

    def __call__(self, n: int) -> int:
        return n

    def method(self, n: int) -> int:
        return n


def test_attributes_items_methods_and_partial_functions() -> None:
    assert "the attribute 'items', a builtins.dict,: the item 'lock', a _thread.lock," in told(
        Guarded()
    )
    assert "its object, a " in told(Guarded().method)
    assert "an argument of functools.partial, a _thread.lock," in told(
        functools.partial(lambda lock, n: n, threading.Lock())
    )


def test_what_refers_to_itself_is_told_of_too() -> None:
    cycle: list[Any] = [threading.Lock()]
    cycle.insert(0, cycle)
    assert "operator 'map'" in told(lambda n: cycle)
