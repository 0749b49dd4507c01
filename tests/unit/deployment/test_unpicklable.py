"""What cannot be sent to workers is named: operator, function, variable."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine import execute
from engine.errors import StartError
from engine.record import pickles as record_pickle
from engine.testing import run
from operators import source
from operators.sinks import Collect, Discard
from operators.sources import Collection


def object_ref() -> object:
    """One of Ray's, as far as a pickle is concerned; Ray need not be there."""
    return type("ObjectRef", (), {"__module__": "ray", "__reduce__": lambda _: "unused"})()


OBJECT_REF = object_ref()


class Service:
    """Holds what cannot leave its process."""

    def __init__(self) -> None:
        self.name = "service"
        self.guard = threading.Lock()

    def work(self, n: int) -> int:
        return n

    def __call__(self, n: int) -> int:
        return n


def uses(value: Any) -> Callable[[int], int]:
    def work(n: int) -> int:
        return n if value else 0

    return work


def calls(function: Callable[[int], int]) -> Callable[[int], int]:
    def outer(n: int) -> int:
        return function(n) + (outer(n - 1) if n else 0)

    return outer


LOCK = threading.Lock()
MODULE_LEVEL = """
def work(n):
    return [LOCK for _ in range(n)]
"""


def of_main() -> Any:
    """A function of a script, which is pickled with the globals that it uses."""
    scope = {"__name__": "__main__", "LOCK": LOCK, "other": LOCK}
    exec(MODULE_LEVEL, scope)
    return scope["work"]


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (uses(threading.Lock()), "variable 'value' (lock) of function 'uses.<locals>.work'"),
        (
            calls(uses(threading.Lock())),
            "variable 'value' (lock) of function 'uses.<locals>.work' of function "
            "'calls.<locals>.outer'",
        ),
        (
            uses({"a": 1, "b": [1, threading.Lock()]}),
            "item 1 of value 1 of variable 'value' (dict) of function 'uses.<locals>.work'",
        ),
        (
            uses(Service()),
            "variable 'guard' (lock) of variable 'value' (Service) of function "
            "'uses.<locals>.work'",
        ),
        (Service().work, "variable 'guard' (lock) of the object of method 'work'"),
        (Service(), "variable 'guard' (lock) of variable 'function' (Service)"),
        (
            functools.partial(uses(threading.Lock())),
            "variable 'value' (lock) of function 'uses.<locals>.work' of variable 'function' "
            "(partial)",
        ),
        (of_main(), "variable 'LOCK' (lock) of function 'work'"),
        (lambda n, lock=LOCK: n, "default 0 of function '<lambda>'"),
        (lambda n, *, lock=LOCK: n, "default 0 of function '<lambda>'"),
    ],
)
def test_what_cannot_be_sent_is_named(function: Any, named: str) -> None:
    pipeline = source(Collection([1])).map(abs).map(function).named("work").sink(Discard())
    with pytest.raises(StartError) as caught:
        run(pipeline)
    assert caught.value.message.startswith(f"{named} of ")
    assert "operator 'work' cannot be sent to workers: TypeError: cannot pickle" in str(
        caught.value
    )
    assert "inside the function" in str(caught.value.hint)


def test_a_record_that_cannot_be_sent_is_named() -> None:
    with pytest.raises(StartError, match=r"item 1 of variable 'records' \(list\) of operator"):
        run(source(Collection([1, LOCK])).sink(Discard()))


def test_what_is_of_ray_goes_beside_the_bytes_or_is_named() -> None:
    here = {"task": OBJECT_REF}
    numbers = source(Collection([1])).map(lambda _: here["task"] is OBJECT_REF).named("work")
    assert run(numbers.sink(Collect())) == {"collect": [True]}
    with pytest.raises(StartError) as caught:
        execute(numbers.sink(Collect()))
    assert caught.value.message.startswith("value 0 of variable 'here' (dict) of function ")
    assert "it is of Ray, and the workers are not" in caught.value.message
    assert "ray.get" in str(caught.value.hint)


@pytest.mark.parametrize("value", [OBJECT_REF, [OBJECT_REF], {"a": OBJECT_REF}])
def test_an_object_ref_is_in_no_record(value: object) -> None:
    with pytest.raises(TypeError, match="would not know who has this ObjectRef") as caught:
        record_pickle.dumps(value)
    assert str(caught.value).endswith("hint: use ray.get before, and send the value")
