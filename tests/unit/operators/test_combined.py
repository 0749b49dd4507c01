"""Parts of requests that are put together, without a gateway."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

import engine.testing
from engine.errors import GraphError
from engine.gateway import Request
from operators import TaskContext, combine, source
from operators.combined import Combine
from operators.sinks import Collect
from operators.sources import Collection


def request(number: int, seconds: float = 60.0) -> Request:
    return Request(number, "GET", "/", b"", b"", time.time() + seconds)


def test_every_request_has_all_its_parts() -> None:
    requests = source(Collection([request(number) for number in range(500)]))
    double = requests.map(lambda r: (r, 2 * r.id))
    text = requests.map(lambda r: (r, str(r.id)))
    negative = requests.map(lambda r: (r, -r.id))
    combined = combine(double, text, negative).map(lambda both: (both[0].id, both[1]))
    found = engine.testing.run(combined.sink(Collect()), parallelism=3, batch_size=7)["collect"]
    assert sorted(found) == [(n, (2 * n, str(n), -n)) for n in range(500)]


class Clock:
    """The time of an operator that is called by hand."""

    def __init__(self) -> None:
        self.now_ns = 10**9

    def __call__(self) -> int:
        return self.now_ns


def opened(operator: Combine, clock: Clock) -> Any:
    return operator.open(TaskContext("combine[0]", 0, 1, 3, "job", now_ns=clock))


def part(each: Request, branch: int) -> tuple[int, int, Request, str]:
    return each.id, branch, each, f"{each.id} {branch}"


def fire(function: Any, clock: Clock) -> Iterator[Any]:
    """What it gives at its next timer."""
    clock.now_ns = function.next_timer
    function.next_timer = None
    for batch in function.on_timer(clock.now_ns):
        assert len(batch) <= 3
        yield from batch


@pytest.mark.parametrize("seed", range(20))
def test_parts_in_any_order(seed: int) -> None:
    function = opened(Combine(3), Clock())
    requests = [request(number) for number in range(30)]
    parts = [part(each, branch) for each in requests for branch in range(3)]
    random.Random(seed).shuffle(parts)
    out = [each for at in range(0, 90, 3) for each in function.process(parts[at : at + 3])]
    expected = [(each, tuple(f"{each.id} {branch}" for branch in range(3))) for each in requests]
    assert sorted(out, key=lambda both: both[0].id) == expected
    assert function.next_timer is None


def test_what_has_not_come_in_time_is_missing() -> None:
    clock = Clock()
    function = opened(Combine(2, wait_ms=5.0, missing="?"), clock)
    requests = [request(number) for number in range(7)]
    assert function.process([part(each, 0) for each in requests[:4]]) == []
    clock.now_ns += 1_000_000
    assert function.process([part(each, 1) for each in requests[3:]]) == [
        (requests[3], ("3 0", "3 1"))
    ]
    assert list(fire(function, clock)) == [(each, (f"{each.id} 0", "?")) for each in requests[:3]]
    assert clock.now_ns == 10**9 + 5_000_000
    assert list(fire(function, clock)) == [(each, ("?", f"{each.id} 1")) for each in requests[4:]]
    assert function.next_timer is None
    assert function.failures == 0


def test_parts_are_forgotten_at_the_deadline() -> None:
    clock = Clock()
    function = opened(Combine(2), clock)
    function.process([part(request(1, seconds=5.0), 0), part(request(2, seconds=-1.0), 1)])
    assert 10**9 < function.next_timer <= 6 * 10**9
    assert list(fire(function, clock)) == []
    assert function.failures == 2
    function.process([part(request(3), 0)])
    assert list(function.on_end()) == []
    assert function.failures == 3


def test_what_comes_twice_counts_once() -> None:
    function = opened(Combine(2), Clock())
    only = request(1)
    assert function.process([part(only, 0), part(only, 0)]) == []
    assert function.process([part(only, 1)]) == [(only, ("1 0", "1 1"))]


def test_wrong_settings() -> None:
    requests = source(Collection([request(1)])).map(lambda r: (r, 1))
    with pytest.raises(GraphError, match="got 1 streams, expected at least two"):
        combine(requests)
    with pytest.raises(GraphError, match="wait_ms is -1, expected a number >= 0"):
        combine(requests, requests, wait_ms=-1)
