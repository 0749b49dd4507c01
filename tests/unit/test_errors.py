"""Errors: they survive a pickle's way with all fields, and are raised without our frames."""

from __future__ import annotations

import copy
import pickle
import re
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

import engine
from engine import errors, network
from engine.driver.launcher import WorkerDied
from engine.errors import (
    EngineError,
    JobStopped,
    OperatorError,
    StorageError,
    WorkerLost,
    without_frames,
)

EXAMPLES: dict[type[EngineError], EngineError] = {
    OperatorError: OperatorError("map", "map[0]", "5", "ValueError: v", "  File …", "h", "full"),
    WorkerLost: WorkerLost("map[0]", "node", "killed by SIGKILL", "last words"),
    JobStopped: JobStopped("it was stopped", "go on with --resume s", "s"),
    StorageError: StorageError("s3://b/k: no", "check the key", code="NoSuchKey"),
}


def classes(of: type[EngineError] = EngineError) -> Iterator[type[EngineError]]:
    yield of
    for kind in of.__subclasses__():
        yield from classes(kind)


@pytest.mark.parametrize("kind", [k for k in classes() if k.__module__ == errors.__name__])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_survives_pickling(kind: type[EngineError], protocol: int) -> None:
    error = EXAMPLES.get(kind) or kind("what", "hint")
    for found in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error)):
        assert type(found) is kind
        assert str(found) == str(error)
        assert found.args == error.args
        assert vars(found) == vars(error)
    assert {"message", "hint"} <= set(vars(error))


def test_errors_of_the_core_survive_pickling() -> None:
    for name in dir(network):
        kind = getattr(network, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            found = pickle.loads(pickle.dumps(kind("what\n\nhint: h")))
            assert (type(found), str(found)) == (kind, "what\n\nhint: h")
    died = pickle.loads(pickle.dumps(WorkerDied("killed", "log")))
    assert (died.status, died.log) == ("killed", "log")


def test_an_error_of_ones_own_below_ours_survives_pickling() -> None:
    found = pickle.loads(pickle.dumps(Own(7)))
    assert (str(found), found.hint, found.number) == ("number 7\n\nhint: take 8", "take 8", 7)


class Own(EngineError):
    def __init__(self, number: int) -> None:
        super().__init__(f"number {number}", f"take {number + 1}")
        self.number = number


@without_frames
def fail(error: BaseException) -> None:
    def inside() -> None:
        try:
            raise KeyError("inside")
        except KeyError as cause:
            raise error from cause

    inside()


def printed(error: BaseException) -> str:
    with pytest.raises(type(error)) as caught:
        fail(error)
    return "".join(traceback.format_exception(caught.value))


def test_our_frames_and_causes_are_left_out() -> None:
    text = printed(engine.StartError("no", "hint"))
    assert "in inside" not in text
    assert "KeyError" not in text
    assert text.count("  File ") == 2  # the caller's, and the one that raises


def test_a_debugger_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    error = engine.StartError("no")
    printed(error)
    assert isinstance(error.__context__, KeyError)
    monkeypatch.setenv("OKA_DEBUG", "1")
    text = printed(error)
    assert "in inside" in text
    assert "KeyError: 'inside'" in text
    monkeypatch.setenv("OKA_DEBUG", "0")
    assert "in inside" not in printed(error)


def test_other_exceptions_are_raised_as_they_are() -> None:
    assert "in inside" in printed(RuntimeError("ours"))


@pytest.mark.parametrize(("debug", "shown"), [("", "user"), ("1", "full")])
def test_an_operator_error_tells_the_frames_once(
    debug: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKA_DEBUG", debug)
    error = OperatorError("map", "map[0]", "5", "ValueError: v", "user\n", "see", "full\n")
    assert str(error) == (
        f"operator 'map' (task map[0]) failed on record 5: ValueError: v\n\n{shown}\n\nhint: see"
    )
    monkeypatch.setenv("OKA_DEBUG", "")
    found: Any = pickle.loads(pickle.dumps(error))
    assert str(found) == str(error)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        ("exited with status 3", r"such as os\._exit\(3\) in a function"),
        ("killed by SIGSEGV", "a library in compiled code failed .*the log has what was called"),
        ("killed by SIGTERM", "somebody has sent it SIGTERM"),
        ("killed by SIGKILL", "was it out of memory"),
        ("died, SYSTEM_ERROR: Worker unexpectedly exits", "was it out of memory"),
    ],
)
def test_how_a_worker_ended_says_what_to_look_for(status: str, hint: str) -> None:
    lost = WorkerLost("map[0]", "local", status)
    assert re.search(hint, str(lost.hint))
