"""Where threads are: what the sampler tells of functions that do nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.host import stacks
from engine.host.stacks import sampled

pytestmark = pytest.mark.usefixtures("nothing_left")


def run(function: Callable[[], Any]) -> None:
    """What the sampler looks into."""
    function()


@contextmanager
def running(function: Callable[[threading.Event], Any], name: str = "task") -> Iterator[None]:
    ended = threading.Event()
    target = (lambda: run(lambda: function(ended))) if name == "task" else lambda: function(ended)
    thread = threading.Thread(target=target, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def spin(ended: threading.Event) -> None:
    while not ended.is_set():
        sum(range(1000))


def test_a_hot_function_is_most_of_it() -> None:
    with running(spin):
        found = sampled(run.__code__, 0.5)
    assert 0.5 <= found.seconds < 5
    assert found.samples == sum(count for _, count in found.stacks) >= 5
    first, *_ = found.stacks
    names = first[0].split(";")
    line = spin.__code__.co_firstlineno
    assert names[1] == f"spin (tests/unit/host/test_stacks.py:{line})"
    assert names[0].startswith("<lambda> (tests/unit/host/test_stacks.py:")
    assert [count for _, count in found.stacks] == sorted(
        (count for _, count in found.stacks), reverse=True
    )


def test_threads_with_code_of_the_users_are_seen_and_no_others() -> None:
    wait = threading.Event.wait
    with running(spin), running(wait, "other"), running(wait, "oka-async"):
        found = sampled(run.__code__, 0.1)
    roots = {stack.split(";")[0].split(" (tests/")[0] for stack, _ in found.stacks}
    assert roots == {"<lambda>", "(calls of coroutines)"}
    assert any(stack.startswith("(calls of coroutines);") for stack, _ in found.stacks)


def test_it_ends_with_the_function() -> None:
    with running(lambda ended: time.sleep(0.3)):
        began = time.monotonic()
        found = sampled(run.__code__, 60)
    assert time.monotonic() - began < 30
    assert found.samples > 0
    assert found.seconds < 30


def test_what_does_not_run_and_what_is_looked_at_already_are_told() -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        sampled(run.__code__, 0.1)
    with running(spin), running(lambda ended: sampled(run.__code__, 0.5), "first"):
        time.sleep(0.1)
        with pytest.raises(RuntimeError, match="already"):
            sampled(run.__code__, 0.1)
    with running(spin):
        assert sampled(run.__code__, 0.01).samples > 0  # once more


def test_deep_recursion_keeps_its_inner_end() -> None:
    def down(ended: threading.Event, depth: int) -> None:
        if depth:
            down(ended, depth - 1)
        else:
            ended.wait()

    with running(lambda ended: down(ended, 300)):
        time.sleep(0.05)
        found = sampled(run.__code__, 0.1)
    names = found.stacks[0][0].split(";")
    assert names[0] == "(deeper than is kept)"
    assert names[-1].startswith("Condition.wait (") or "wait" in names[-1]
    assert len(names) == stacks._DEEPEST + 1


def test_no_more_stacks_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(ended: threading.Event) -> None:
        number = 0
        while not ended.is_set():
            exec(compile(f"def f{number}():\n time.sleep(0.002)\nf{number}()", "a;b\n.py", "exec"),
                 {"time": time})  # fmt: skip
            number += 1

    monkeypatch.setattr(stacks, "_MOST_STACKS", 3)
    with running(many):
        found = sampled(run.__code__, 0.3)
    assert len(found.stacks) == 4
    assert found.stacks[-1][0] == "(others)"
    assert sum(count for _, count in found.stacks) == found.samples
    assert "(a?b?.py:1)" in found.stacks[0][0]
    monkeypatch.setattr(stacks, "_MOST_TEXT", 10)
    with running(many):
        assert [each for each, _ in sampled(run.__code__, 0.05).stacks] == ["(others)"]
