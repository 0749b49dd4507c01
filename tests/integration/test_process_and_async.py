"""Process functions and calls of coroutine functions in jobs of processes."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import engine
from operators import ListState, ProcessContext, ProcessFunction, TaskContext, ValueState, source
from operators.sinks import Collect
from operators.sources import Collection, Function

pytestmark = pytest.mark.usefixtures("nothing_left")


class Pairs(ProcessFunction):
    """Numbers of each key, two by two; at the end, what is left."""

    waiting = ListState[int](ttl=timedelta(hours=1))
    pairs = ValueState(0)

    def process(self, record: Any, context: ProcessContext) -> list[Any] | None:
        _, n = record
        if n < 0:
            raise ValueError("below zero")
        self.waiting.append(n)
        context.set_timer(10**15)
        if len(self.waiting) < 2:
            return None
        self.pairs += 1
        numbers, _ = list(self.waiting), self.waiting.clear()
        return [(context.key, numbers)]

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        return [(context.key, list(self.waiting), self.pairs)]


async def looked_up(n: int) -> tuple[str, int]:
    await asyncio.sleep(n % 3 / 1000)
    return "abc"[n % 3], n


def numbers(context: TaskContext) -> Iterator[int]:
    yield from range(context.index, 100, context.parallelism)


@pytest.mark.table(2)
@pytest.mark.parametrize("transport", ["auto", "tcp"])
@pytest.mark.parametrize("ordered", [True, False])
def test_calls_then_state(transport: str, ordered: bool) -> None:
    called = source(Function(numbers)).map_async(looked_up, ordered=ordered, max_in_flight=10)
    pairs = called.key_by(0).process(Pairs()).sink(Collect())
    out = engine.execute(pairs, parallelism=2, batch_size=7, transport=transport).output
    found = sorted(n for _, of_key, *_ in out for n in of_key)
    assert found == list(range(100))
    assert all(len({n % 3 for n in of_key}) <= 1 for _, of_key, *_ in out)
    ends = sorted(each for each in out if len(each) == 3)
    assert [(key, len(left), count) for key, left, count in ends] == [
        ("a", 0, 17),
        ("b", 1, 16),
        ("c", 1, 16),
    ]


def test_what_fails_is_told() -> None:
    failing = source(Collection([("a", 1), ("a", -1)])).key_by(0).process(Pairs())
    with pytest.raises(engine.OperatorError, match="ValueError: below zero") as caught:
        engine.execute(failing.sink(Collect()), parallelism=2)
    assert (caught.value.operator, caught.value.record) == ("process", "('a', -1)")


async def dies(n: int) -> None:
    os._exit(7)


def test_a_worker_that_dies_in_a_call_is_told() -> None:
    dying = source(Collection([1])).rebalance().map_async(dies).sink(Collect())
    with pytest.raises(engine.WorkerLost, match="7"):
        engine.execute(dying, parallelism=2)


def endless() -> Iterator[int]:
    yield from itertools.count()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_stream_without_end(ordered: bool) -> None:
    taken = source(Function(endless)).map_async(looked_up, ordered=ordered).take(5)
    assert len(engine.execute(taken.sink(Collect()), parallelism=2).output) == 5
