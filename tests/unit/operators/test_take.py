"""take and show: the first records, and sources that end when nobody wants more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import engine.testing
from engine import GraphError
from engine.graph import TaskContext
from operators import Stream, source
from operators.sinks import Collect, Discard
from operators.sources import Collection, Function

pytestmark = pytest.mark.usefixtures("nothing_left")


def collected(stream: Stream[Any], **settings: Any) -> list[Any]:
    (found,) = engine.testing.run(stream.sink(Collect()), **settings).values()
    return list(found)


def endless(context: TaskContext) -> Iterator[list[int]]:
    for start in itertools.count(context.index, 10 * context.parallelism):
        yield list(range(start, start + 10 * context.parallelism, context.parallelism))


@pytest.mark.parametrize("n", [1, 3, 4, 5, 9, 10, 100])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_the_first_records_and_no_more(n: int, batch_size: int) -> None:
    stream = source(Collection(range(10))).take(n)
    assert collected(stream, batch_size=batch_size) == list(range(10))[:n]


@pytest.mark.parametrize("parallelism", [2, 3])
def test_the_count_is_that_of_all_tasks(parallelism: int) -> None:
    found = collected(source(Collection(range(100))).map(str).take(7), parallelism=parallelism)
    assert len(set(found)) == 7


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_sources_without_end_end(parallelism: int) -> None:
    stream = source(Function(endless)).key_by(lambda n: n % 5).map_batches(list).take(20)
    assert len(collected(stream, parallelism=parallelism)) == 20


def test_a_source_that_is_read_elsewhere_goes_on() -> None:
    numbers = source(Collection(range(50_000)))
    few, all_of_them = numbers.take(3), numbers.map(lambda n: 1)
    outputs = engine.testing.run(
        [few.sink(Collect()), all_of_them.sink(Collect()).named("all")], batch_size=10
    )
    assert outputs["collect"] == [0, 1, 2]
    assert len(outputs["all"]) == 50_000


def test_what_is_final_comes_when_the_source_was_ended() -> None:
    stream = source(Function(endless)).take(20).key_by(lambda n: n % 2).count(emit="final")
    assert sorted(collected(stream)) == [(0, 10), (1, 10)]


def test_rows_of_columns_are_records() -> None:
    batches = [pa.record_batch({"n": list(range(start, start + 4))}) for start in (0, 4, 8)]
    found = collected(source(Collection(batches)).take(6))
    assert pa.Table.from_batches(found)["n"].to_pylist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3"])
def test_what_is_no_number_of_records_is_refused(n: Any) -> None:
    for method in ("take", "show"):
        with pytest.raises(GraphError, match=rf"{method}\(\) got .*, expected a number of records"):
            getattr(source(Collection([1])), method)(n)


def test_take_has_one_task() -> None:
    with pytest.raises(GraphError, match="got 2 for 'take', expected 1"):
        source(Collection([1])).take(1).with_parallelism(2)


def test_show_prints_a_line_for_each_record(capsys: pytest.CaptureFixture[str]) -> None:
    stream = source(Collection([("a", 1), "b", None]))
    assert stream.show() is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == "('a', 1)\n'b'\nNone\n"
    stream.with_parallelism(2).map(str).named("collect").show(1)
    assert len(capsys.readouterr().out.splitlines()) == 1
    source(Function(endless)).show(3)
    assert capsys.readouterr().out == "0\n1\n2\n"
    source(Collection([pa.record_batch({"n": [1, 2], "s": ["x", None]})])).show()
    assert capsys.readouterr().out == "{'n': 1, 's': 'x'}\n{'n': 2, 's': None}\n"


def test_show_raises_what_the_job_raises() -> None:
    with pytest.raises(engine.OperatorError, match="ZeroDivisionError"):
        source(Collection([1])).map(lambda n: n // 0).show()


def test_a_stream_may_be_looked_at_and_used() -> None:
    stream = source(Collection([1, 2])).map(str)
    stream.show(1)
    assert engine.testing.run(stream.sink(Discard())) == {}
