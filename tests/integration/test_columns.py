"""Streams of columns from source to sink on the local runtime."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine
from engine.testing import run
from operators import Stream, source
from operators.sinks import Callback, Collect, Counts, Discard, JsonLines
from operators.sources import Collection, Function, RandomWords
from pipelines.word_count import random_word_count, word_count
from tests.part import examples

pytestmark = pytest.mark.usefixtures("nothing_left")


def execute(pipeline: Any, **settings: Any) -> engine.JobResult:
    return engine.execute(pipeline, progress="none", **settings)


def words(count: int, **more: Any) -> RandomWords:
    return RandomWords(length=8, count=count, seed=3, **more)


@cache
def counted_as_records(total: int, parallelism: int) -> dict[str, int]:
    stream = source(words(total)).key_by().count()
    counts: dict[str, int] = execute(stream.sink(Counts()), parallelism=parallelism).output
    return counts


@pytest.mark.table(2)
@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("coded", [False, True])
def test_columns_are_counted_as_records_are(transport: str, parallelism: int, coded: bool) -> None:
    total = 50_001
    columns = source(words(total, columnar=True, dictionary_encoded=coded))
    settings = {"parallelism": parallelism, "transport": transport, "batch_size": 1000}
    result = execute(columns.key_by("word").count().sink(Counts()), **settings)
    assert result.output == counted_as_records(total, parallelism)
    assert sum(result.output.values()) == total
    assert result.statistics.source_records == total
    assert result.statistics.records == total
    assert result.latency.count > 0


def test_the_word_count_of_a_text_is_that_of_its_records() -> None:
    columnar = execute(word_count(api="columnar"), parallelism=2)
    assert columnar.output == execute(word_count(api="native"), parallelism=2).output


@settings(
    max_examples=examples(8),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batches=st.lists(st.lists(st.none() | st.text(max_size=12), max_size=60), max_size=6),
    coded=st.booleans(),
    parallelism=st.integers(1, 3),
    batch_size=st.one_of(st.just(1), st.integers(1, 100)),
)
def test_counts_are_those_of_a_counter(
    batches: list[list[str | None]], coded: bool, parallelism: int, batch_size: int
) -> None:
    columns = [pa.array(batch, pa.string()) for batch in batches]
    if coded:
        columns = [column.dictionary_encode() for column in columns]
    stream = source(Collection([pa.record_batch([column], ["w"]) for column in columns]))
    result = execute(
        stream.key_by("w").count().sink(Counts()), parallelism=parallelism, batch_size=batch_size
    )
    assert result.output == Counter(word for batch in batches for word in batch)


def numbers() -> Iterator[pa.RecordBatch]:
    for start in range(0, 1000, 100):
        n = pa.array(range(start, start + 100))
        yield pa.record_batch({"n": n, "odd": pc.equal(pc.bit_wise_and(n, 1), 1)})


def test_map_batches_works_on_columns_at_any_batch_size() -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(0, "n", pc.multiply(batch["n"], 2))

    for batch_size in (7, 1000):
        stream = source(Function(numbers)).map_batches(doubled).key_by("odd").sum("n")
        result = execute(stream.sink(Counts()), parallelism=2, batch_size=batch_size)
        # Each of the two source tasks emits all the numbers.
        assert result.output == {
            False: 4 * sum(range(0, 1000, 2)),
            True: 4 * sum(range(1, 1000, 2)),
        }


def test_tables_and_empty_batches_are_fine() -> None:
    def few(batch: pa.RecordBatch) -> pa.Table:
        return pa.table(batch).filter(pc.less(batch["n"], 150))

    result = execute(source(Function(numbers)).map_batches(few).rebalance().sink(Collect()))
    assert pa.Table.from_batches(result.output)["n"].to_pylist() == list(range(150))
    assert result.statistics.records == 150


def test_rows_without_a_column_fail_the_job_wherever_they_come_from() -> None:
    def bare(*_: Any) -> pa.RecordBatch:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))

    def bare_batches() -> Iterator[pa.RecordBatch]:
        yield bare()

    for stream, operator in [
        (source(Function(bare_batches)), "function"),
        (source(Function(numbers)).map_batches(bare), "map_batches"),
        (source(Collection([{}] * 5)).to_columns(), "to_columns"),
    ]:
        for sink in (Collect(), Discard()):
            for batch_size in (2, 100):
                with pytest.raises(
                    engine.OperatorError, match=r"without a (column|field)"
                ) as raised:
                    run(stream.sink(sink), batch_size=batch_size)
                assert raised.value.operator == operator


def test_no_field_of_a_dict_is_lost() -> None:
    records = [{"a": 1}, {"a": 2, "b": "x"}, {"c": None, "b": "y"}]
    out = run(source(Collection(records)).to_columns().to_records().sink(Collect()))["collect"]
    assert out == [{"a": None, "b": None, "c": None} | record for record in records]


def test_pieces_of_a_batch_are_joined_whole_and_of_one_kind() -> None:
    def one_and_none(batch: pa.RecordBatch) -> Any:
        return batch if batch["n"][0].as_py() % 20 else []

    stream = source(Function(numbers)).map_batches(one_and_none, max_records=10)
    (*_, last) = run(stream.sink(Collect()))["collect"]
    assert last.num_rows == 50

    def mixed(batch: pa.RecordBatch) -> Any:
        return batch if batch["n"][0].as_py() % 20 else [1]

    with pytest.raises(engine.OperatorError, match="a list for one piece of a batch and columns"):
        run(source(Function(numbers)).map_batches(mixed, max_records=10).sink(Collect()))


def test_numpy_sees_a_column_in_place() -> None:
    def total(batch: pa.RecordBatch) -> list[int]:
        return [int(batch["n"].to_numpy(zero_copy_only=True).sum())]

    result = execute(source(Function(numbers)).rebalance().map_batches(total).sink(Collect()))
    assert sum(result.output) == sum(range(1000))


def test_polars_takes_a_batch_and_gives_a_table() -> None:
    def largest(batch: pa.RecordBatch) -> pa.Table:
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        words = pl.format("{}", pl.col("n") // 100).alias("hundred")
        return frame.with_columns(words).group_by("hundred").agg(pl.col("n").max()).to_arrow()

    found = source(Function(numbers)).map_batches(largest).key_by("hundred").max("n").sink(Counts())
    result = execute(found, parallelism=2)
    assert result.output == {str(hundred): 100 * hundred + 99 for hundred in range(10)}


def test_records_become_columns_and_records_again() -> None:
    records = [{"k": f"{n % 3}", "n": n} for n in range(100)]
    schema = pa.schema({"k": pa.string(), "n": pa.int64()})
    stream = source(Collection(records)).to_columns(schema)
    result = execute(stream.key_by("k").max("n").sink(Counts()), parallelism=2, batch_size=9)
    assert result.output == {"0": 99, "1": 97, "2": 98}
    back = source(Collection(records)).to_columns().rebalance().to_records().map(dict)
    assert execute(back.sink(Collect())).output == records


def test_record_batches_reach_every_sink_that_takes_them(tmp_path: Any) -> None:
    stream = source(Function(numbers))
    lines = stream.sink(JsonLines(tmp_path))
    count = stream.sink(Discard())
    batches = stream.sink(Callback(lambda batch: batch.num_rows + 1, batches=True))
    result = execute([lines, count, batches])
    assert result.statistics.records == 3000
    first = (tmp_path / "part-00000.jsonl").read_text().splitlines()[1]
    assert first == '{"n":1,"odd":true}'


def test_open_load_paces_rows() -> None:
    result = execute(random_word_count(1.0, 8, rate=20_000.0, api="columnar"), batch_size=100)
    assert sum(result.output.values()) == result.statistics.source_records
    assert 10_000 < result.statistics.source_records <= 22_000


def test_tasks_load_pyarrow_as_they_start_and_only_where_there_are_columns() -> None:
    def loaded() -> Stream[Any]:
        # A lambda travels by value: this module, which imports PyArrow, stays here.
        return source(Collection([0])).map(lambda _: {"loaded": "pyarrow" in sys.modules})

    assert execute(loaded().sink(Collect())).output == [{"loaded": False}]
    columns = loaded().rebalance().to_columns().to_records().sink(Collect())
    assert execute(columns, parallelism=1).output == [{"loaded": True}]
