"""What operators are called in every run: by their paths, in whatever order they are declared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from engine.graph import TaskContext, logical_graph
from engine.testing import run
from operators import Pipeline, Stream, source
from operators.sinks import Collect, Counts, Discard
from operators.sources import Collection, Function


def numbers() -> Stream[int]:
    return source(Collection([1, 2, 3]))


def functions(pipelines: Any) -> dict[str, Any]:
    """What each operator does, by identity."""
    graph = logical_graph(pipelines)
    found = {each.identity: each.operator for each in graph.operators}
    assert len(found) == len(graph.operators)
    return found


def branches() -> list[Pipeline]:
    """Branches of one program, some of which only what is behind them tells apart."""
    shared = numbers().map(abs)
    odd, even = shared.filter(lambda n: n % 2), shared.filter(lambda n: n % 2 == 0)
    return [
        odd.key_by().count().sink(Counts()),
        even.sink(Discard()),
        shared.map(str).map(int).sink(Collect()),
        odd.union(even, shared).sink(Collect()),
        numbers().rebalance().map(str).sink(Collect()),
        numbers().map(str, on_error="side").side("errors").sink(Collect()),
    ]


def test_the_order_of_declaration_does_not_matter() -> None:
    pipelines = branches()
    expected = functions(pipelines)
    for seed in range(20):
        shuffled = random.Random(seed).sample(pipelines, len(pipelines))
        assert functions(shuffled) == expected, f"seed {seed}"


def identity(stream: Stream[Any]) -> str:
    return logical_graph(stream.sink(Collect())).operators[-2].identity


def test_what_is_put_behind_or_beside_an_operator_does_not_change_it() -> None:
    stream = numbers().map(str)
    alone = identity(stream)
    assert alone.startswith("map-")
    more = [stream.filter(bool).sink(Collect()), numbers().named("other").map(str).sink(Collect())]
    assert alone in functions(more)
    assert identity(numbers().filter(bool).map(str)) != alone


def test_a_name_is_an_identity_and_what_is_behind_depends_on_it_alone() -> None:
    assert identity(numbers().map(str).named("texts")) == "texts"
    one = identity(numbers().named("start").map(str))
    assert one == identity(numbers().rebalance().filter(bool).named("start").map(str))
    assert one != identity(numbers().named("begin").map(str))


def test_twins_are_numbered() -> None:
    stream = numbers()
    first, second = logical_graph([stream.sink(Collect()), stream.sink(Collect())]).operators[1:]
    assert second.identity == f"{first.identity}-2"


def test_a_long_pipeline_has_short_identities() -> None:
    stream = numbers()
    for _ in range(2000):
        stream = stream.map(abs)
    found = functions(stream.sink(Collect()))
    assert len(found) == 2002
    assert max(map(len, found)) < 30


@pytest.mark.parametrize("named", [True, False])
def test_tasks_are_told(named: bool) -> None:
    def told(context: TaskContext) -> Iterator[str]:
        yield context.identity

    stream: Stream[str] = source(Function(told))
    stream = stream.named("teller") if named else stream
    (expected,) = [
        each.identity
        for each in logical_graph(stream.sink(Collect())).operators
        if isinstance(each.operator, Function)
    ]
    assert expected == "teller" if named else expected.startswith("function-")
    assert run(stream.sink(Collect())) == {"collect": [expected]}
