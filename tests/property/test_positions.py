"""Sources that are cut anywhere: what another reader gives from the position on is the rest."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine
from engine.errors import CheckpointError, GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator, SourceReader
from engine.task.chain import Chain
from engine.task.clock import SYSTEM_CLOCK
from engine.task.source.loop import SourceLoop
from engine.task.timers import Timers
from engine.task.window import SteadyWindow
from engine.testing import run
from operators import source
from operators.sinks import Collect
from operators.sources import At, Collection, Function, Models, RandomWords, TextFiles
from tests.part import examples


def records(batch: Any) -> list[Any]:
    return batch if isinstance(batch, list) else batch.to_pylist()


class Cut(SourceOperator[Any]):
    """A source whose readers are given up after some batches; others go on where they were."""

    def __init__(self, of: SourceOperator[Any], cuts: tuple[int, ...]) -> None:
        self.of = of
        self.cuts = cuts

    @property
    def properties(self) -> Any:
        return self.of.properties

    def open(self, context: TaskContext) -> Iterable[Any]:
        position = None
        for cut in (*self.cuts, None):
            reader = self.of.open(context)
            assert isinstance(reader, SourceReader)
            if position is not None:
                reader.restore(position)
            items = iter(reader)
            while cut != 0:
                if (item := next(items, None)) is None:
                    break
                yield item
                cut = None if cut is None else cut - 1
            position = reader.position


cuts = st.lists(st.integers(0, 7), max_size=5).map(tuple)
sizes = st.integers(1, 7)
shares = st.integers(1, 3).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))
texts = st.lists(
    st.text(st.sampled_from("ab\r\n é"), max_size=40).map(lambda text: text.encode()), max_size=4
)


def check(of: SourceOperator[Any], cuts: tuple[int, ...], size: int, share: Any = (0, 1)) -> None:
    context = TaskContext("t[0]", *share, size, "job")
    whole = [record for batch in of.open(context) for record in records(batch)]
    cut = [record for batch in Cut(of, cuts).open(context) for record in records(batch)]
    assert cut == whole


@given(st.integers(0, 30), cuts, sizes, shares)
def test_collections(count: int, cuts: tuple[int, ...], size: int, share: Any) -> None:
    check(Collection(range(count)), cuts, size, share)


@given(st.lists(st.integers(0, 9), max_size=6), cuts, sizes, shares)
def test_collections_of_columns(
    counts: list[int], cuts: tuple[int, ...], size: int, share: Any
) -> None:
    batches = [pa.RecordBatch.from_pydict({"n": list(range(count))}) for count in counts]
    check(Collection(batches), cuts, size, share)


@pytest.mark.parametrize("columnar", [False, True])
@given(st.lists(st.integers(0, 9), max_size=6), cuts, sizes)
def test_functions(columnar: bool, counts: list[int], cuts: tuple[int, ...], size: int) -> None:
    def numbers(context: TaskContext, position: int | None) -> Iterator[At]:
        for at, count in enumerate(counts[position or 0 :], position or 0):
            block = list(range(100 * at, 100 * at + count))
            yield At(at + 1, pa.RecordBatch.from_pydict({"n": block}) if columnar else block)

    check(Function(numbers), cuts, size)


def test_a_function_with_a_position_has_to_give_one() -> None:
    reader = Function(lambda context, position: iter("ab")).open(CONTEXT)
    with pytest.raises(TypeError, match=r"gave str 'a', expected At\(…\)"):
        list(reader)


@pytest.mark.parametrize("of", [Function(lambda: iter("ab")), Models(b"model")])
def test_a_source_without_a_position_is_refused_before_any_worker(
    tmp_path: Path, of: SourceOperator[Any]
) -> None:
    pipeline = source(of).sink(Collect())
    with pytest.raises(GraphError, match=r"source (Function|Models) does not tell where it is"):
        engine.submit(pipeline, checkpoints=str(tmp_path / "checkpoints"))
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("columnar", [False, True])
@given(cuts, st.sampled_from([1, 7, 4096, 10_000]), shares)
@settings(max_examples=examples(20))
def test_random_words(columnar: bool, cuts: tuple[int, ...], size: int, share: Any) -> None:
    check(RandomWords(length=3, count=20_001, columnar=columnar), cuts, size, share)


@pytest.mark.parametrize("packed", [False, True])
@given(texts, cuts, sizes, shares, st.integers(1, 2))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_text_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    packed: bool,
    contents: list[bytes],
    cuts: tuple[int, ...],
    size: int,
    share: Any,
    repeat: int,
) -> None:
    monkeypatch.setattr("operators.sources.text_files._BLOCK_BYTES", 5)
    paths = []
    for number, content in enumerate([b"", *contents]):
        paths.append(tmp_path / f"{number}.{'gz' if packed else 'txt'}")
        paths[-1].write_bytes(gzip.compress(content) if packed else content)
    check(TextFiles(paths, repeat=repeat), cuts, size, share)


@pytest.mark.parametrize("columnar", [False, True])
@given(
    st.integers(1, 9000), st.integers(1, 9000), st.integers(0, 4), st.sampled_from([None, 5000.0])
)
@settings(max_examples=examples(30))
def test_random_words_go_on_with_batches_of_another_size(
    columnar: bool, size: int, other: int, batches: int, rate: float | None
) -> None:
    def reader(size: int, rate: float | None = None) -> Any:
        words = RandomWords(length=3, count=20_000, columnar=columnar, rate=rate)
        return words.open(TaskContext("t[0]", 0, 1, size, "job"))

    def words(given: Iterable[Any]) -> list[Any]:
        return [record for batch in given for record in records(batch)]

    first, second = reader(size), reader(other, rate)
    begun = words(islice(first, batches))
    second.restore(first.position)
    assert begun + words(second) == words(reader(size))


@pytest.mark.parametrize("columnar", [False, True])
def test_a_collection_of_other_records_is_refused(columnar: bool) -> None:
    def reader(count: int) -> Any:
        given = [pa.RecordBatch.from_pydict({"n": [n]}) if columnar else n for n in range(count)]
        return Collection(given).open(CONTEXT)

    with pytest.raises(CheckpointError, match="the Collection has 4 records, expected 5 as in the"):
        reader(4).restore(reader(5).position)
    reader(4).restore((0, 0))  # as it was before


def test_a_collection_goes_on_with_batches_of_another_size() -> None:
    first, second = (
        Collection(range(10)).open(TaskContext("t[0]", 0, 1, size, "job")) for size in (3, 4)
    )
    batches = iter(first)
    assert [next(batches), next(batches)] == [[0, 1, 2], [3, 4, 5]]
    second.restore(first.position)
    assert list(second) == [[6, 7, 8, 9]]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_does_not_see_the_cuts(parallelism: int) -> None:
    words = RandomWords(length=3, count=20_000)
    counts = [
        source(of).key_by().count(emit="final").sink(Collect())
        for of in (words, Cut(words, (1, 0, 5, 300)))
    ]
    whole, cut = (run(each, parallelism=parallelism, batch_size=10)["collect"] for each in counts)
    assert sorted(cut) == sorted(whole)


class Later(BatchOperator):
    """An operator with a timer that is never due: sources run ahead of it."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Later()


class _Later(BatchFunction):
    next_timer: int | None = 1 << 62

    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def on_timer(self, now_ns: int) -> Iterable[list[Any]]:
        raise AssertionError("it is far away")


class Waits(Collection[int]):
    """As if it might wait for its records: another thread iterates where there are timers."""

    @property
    def properties(self) -> Properties:
        return replace(super().properties, never_waits=False)


@pytest.mark.parametrize(("timed", "kind"), [(False, Waits), (True, Waits), (True, Collection)])
@pytest.mark.parametrize("cut", [0, 1, 3, 10])
def test_the_loop_of_a_source_goes_on_where_another_was(
    timed: bool, kind: type[Collection[int]], cut: int
) -> None:
    left: list[Any] = []

    def loop() -> tuple[SourceLoop, Timers]:
        chain = Chain()
        operators = [LogicalOperator(1, "later", Later(), None, {})] if timed else []
        chain.open(operators, CONTEXT, encoded=False)
        timers = Timers(chain, SYSTEM_CLOCK, lambda given: left.extend(given))
        return SourceLoop(kind(range(20)), chain, 100, SYSTEM_CLOCK, has_barriers=True), timers

    first, timers = loop()

    def deliver(out: list[int], stamps: list[int] | None = None) -> None:
        left.extend(out)
        if len(left) >= 2 * cut:
            first.end()

    if cut:
        first.run(CONTEXT, deliver, WINDOW, timers, left.append)
    assert left == list(range(2 * cut))
    second, timers = loop()
    if cut:
        assert first.positions.keys() == {0}
        second.restore(first.positions, 1)
    second.run(CONTEXT, lambda out, stamps=None: left.extend(out), WINDOW, timers, left.append)
    assert left == list(range(20))


CONTEXT = TaskContext("t[0]", 0, 1, 2, "job")
WINDOW = SteadyWindow(0.0, SYSTEM_CLOCK, lambda: (0, 0), list)
