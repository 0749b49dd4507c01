"""Operators that read two streams alike: which record came of which, and what time it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from engine.config import JobConfig
from engine.errors import GraphError
from engine.graph import logical_graph
from engine.graph.declaration import shown
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing import VirtualClock, run
from engine.testing.threads import ThreadLauncher
from operators import BatchFunction, BatchOperator, Properties, Stream, TaskContext, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.watermarks import timed


class Both(BatchOperator):
    """Tells of each record which input it came of, and in which task; and of watermarks."""

    properties = Properties(accepts_encoded=True, accepts_columns=True, two_inputs=True)

    def open(self, context: TaskContext) -> BatchFunction:
        return _Both(context.index)


class _Both(BatchFunction):
    def __init__(self, index: int) -> None:
        self._index = index

    def process(self, batch: Any) -> Any:
        return [(batch.input, record, self._index) for record in batch.decode()]

    def on_watermark(self, watermark_us: int) -> Iterable[Any]:
        yield [("W", watermark_us)]

    def on_end(self) -> Iterable[Any]:
        yield [("end",)]


LEFT = [(f"k{number % 7}", number) for number in range(500)]
RIGHT = [(number, {"of": f"k{number % 7}"}) for number in range(300)]


def both(left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    by_function = right.key_by(lambda record: record[1]["of"])
    return left.key_by(0).then(Both(), side=by_function)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 1000])
def test_each_record_comes_once_in_order_and_equal_keys_meet(
    parallelism: int, batch_size: int
) -> None:
    streams = (source(Collection(each)).with_parallelism(1) for each in (LEFT, RIGHT))
    stream = both(*streams)
    found = run(stream.sink(Collect()), parallelism=parallelism, batch_size=batch_size)["collect"]
    assert found.count(("end",)) == parallelism
    place: dict[str, set[int]] = {}
    by_key: dict[tuple[int, str], list[Any]] = {}
    for number, record, index in (each for each in found if len(each) == 3):
        key, value = record if number == 0 else (record[0], record[1])
        if number == 1:
            assert key == value[1]["of"]
        place.setdefault(key, set()).add(index)
        by_key.setdefault((number, key), []).append(record if number == 0 else value)
    assert all(len(tasks) == 1 for tasks in place.values())
    for at, records in ((0, LEFT), (1, RIGHT)):
        key_of = {0: lambda r: r[0], 1: lambda r: r[1]["of"]}[at]
        for key in {key_of(record) for record in records}:
            wanted = [record for record in records if key_of(record) == key]
            assert by_key[at, key] == wanted


def test_a_stream_may_be_both() -> None:
    numbers = source(Collection([1, 2]))
    found = run(numbers.key_by().then(Both(), side=numbers.key_by()).sink(Collect()))["collect"]
    assert sorted(found[:-1]) == [(0, 1, 0), (0, 2, 0), (1, 1, 0), (1, 2, 0)]


def test_a_watermark_is_that_of_both() -> None:
    fast, slow = (timed([("a", at) for at in times]) for times in ((10, 20, 30), (1, 2, 25)))
    stream = fast.key_by(0).then(Both(), side=slow.key_by(0))
    found = run(stream.sink(Collect()), clock=VirtualClock(), batch_size=1)["collect"]
    times = [each[1] for each in found if each[0] == "W"]
    assert times[:2] == [0, 1]
    assert times == sorted(times)
    assert max(times) <= 29


def test_records_of_both_count() -> None:
    streams = (source(Collection(each)) for each in (LEFT, RIGHT))
    plan = Plan.of(both(*streams).sink(Collect()), JobConfig.of({"progress": "none"}))
    result = JobHandle(plan, ThreadLauncher()).wait_finished()
    (found,) = (each for each in result.statistics.operators if each.name == "both")
    assert found.records_in == len(LEFT) + len(RIGHT)


def test_the_plan_tells_them_apart() -> None:
    stream = both(source(Collection([])), source(Collection([])))
    graph = logical_graph(stream.sink(Collect()))
    (operator,) = (each for each in graph.operators if each.name == "both")
    assert [edge.input for edge in graph.inputs(operator)] == [0, 1]
    assert shown(stream.inputs) == "(collection | key_by) -> both"


def test_what_cannot_work_is_refused() -> None:
    numbers = source(Collection([1]))
    with pytest.raises(GraphError, match="got no side input for 'both', expected one"):
        numbers.key_by().then(Both())
    with pytest.raises(GraphError, match="got side=list \\[1\\], expected a stream"):
        numbers.key_by().then(Both(), side=[1])  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expected accepts_encoded=True and no side_input"):
        Properties(two_inputs=True)
    with pytest.raises(GraphError, match="expected accepts_encoded=True and no side_input"):
        Properties(two_inputs=True, side_input=True, accepts_encoded=True)
