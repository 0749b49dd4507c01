"""Partitions that are stopped anywhere and go on with other tasks: each record comes once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.columns import is_columns
from engine.errors import CheckpointError
from engine.graph.context import TaskContext
from engine.graph.partitions import Partition, PartitionedSource
from engine.graph.splits import Splits
from engine.state import decode_value, encode_value
from engine.task.source.partitions import SHARES, Partitions
from engine.task.source.reading import ENDED, Position
from engine.task.source.shares import Shares


class Lists(PartitionedSource[Any]):
    """A list for each partition, given in polls of drawn sizes and forms."""

    def __init__(
        self, lengths: Iterable[int], sizes: list[int], form: str, *, bounded: bool = True
    ) -> None:
        self.lists = {f"p{n}": [(n, at) for at in range(many)] for n, many in enumerate(lengths)}
        self.sizes, self.form, self.bounded = sizes, form, bounded
        self.open_now: list[str] = []
        self.most_open = 0

    def partitions(self) -> list[str]:
        return list(self.lists)

    def open_partition(self, name: str, position: Any, context: TaskContext) -> Partition:
        self.open_now.append(name)
        self.most_open = max(self.most_open, len(self.open_now))
        return _List(self, name, position or 0)

    def number(self, name: str) -> int:
        return 3 * SHARES + int(name[1:]) // 2  # two in each share


class _List(Partition):
    def __init__(self, of: Lists, name: str, at: int) -> None:
        self._of, self._name, self.position = of, name, at

    position = 0

    def poll(self, limit: int) -> Any:
        sizes = self._of.sizes
        size = sizes[self.position % len(sizes)]
        found = self._of.lists[self._name][self.position : self.position + size]
        self.position += len(found)
        if not found:
            return None
        if self._of.form == "list":
            return found
        rows = pa.RecordBatch.from_arrays(
            [pa.array(each) for each in zip(*found, strict=True)], ["p", "n"]
        )
        if self._of.form == "columns":
            return rows
        return pa.RecordBatchReader.from_batches(rows.schema, [rows.slice(0, 1), rows.slice(1)])

    def close(self) -> None:
        self._of.open_now.remove(self._name)


def context(index: int, parallelism: int, *, goes_on: bool = False) -> TaskContext:
    made = TaskContext(f"t[{index}]", index, parallelism, 3, "job")
    return replace(made, open_shares=frozenset() if goes_on else None)


def rows(batch: Any) -> list[tuple[int, int]]:
    return [(r["p"], r["n"]) for r in batch.to_pylist()] if is_columns(batch) else batch


starts = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.integers(0, 9), min_size=6, max_size=6)), max_size=4
)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.sampled_from(["list", "columns", "stream"]),
    st.booleans(),
    starts,
)
def test_each_record_comes_once_and_in_its_partitions_order(
    lengths: list[int],
    sizes: list[int],
    form: str,
    bounded: bool,
    starts: list[tuple[int, list[int]]],
) -> None:
    source = Lists(lengths, sizes, form, bounded=bounded)
    came: list[tuple[int, int]] = []
    positions: dict[int, Position] = {}
    for number, (parallelism, cuts) in enumerate([*starts, (2, [1000] * 2)]):
        after: dict[int, Position] = {}
        for index in range(parallelism):
            own = {share: at for share, at in positions.items() if share % parallelism == index}
            reading = Partitions(
                source, context(index, parallelism, goes_on=number > 0), SHARES, own
            )
            for _, batch in zip(range(cuts[index]), reading, strict=False):
                assert len(batch) <= 3
                came += rows(batch)
            after |= reading.positions
            reading.close()
        assert source.open_now == []
        positions = decode_value(encode_value(after, pickle=False))
    for name, expected in source.lists.items():
        assert [row for row in came if row[0] == int(name[1:])] == expected
    assert positions == {
        share: ({f"p{n}": ENDED for n in range(len(lengths)) if n // 2 == share},)
        for share in {n // 2 for n in range(len(lengths))}
    }
    assert not bounded or source.most_open <= 1


@given(st.lists(st.integers(0, 80), min_size=20, max_size=30), st.integers(1, 5))
def test_few_partitions_are_open_where_the_furthest_behind_goes_on(
    lengths: list[int], size: int
) -> None:
    source = Lists(lengths, [size], "list")
    splits = Splits()
    times = splits.follow()
    reading = Partitions(source, replace(context(0, 1), splits=splits), SHARES, {})
    splits.begin(reading.splits)
    came: list[tuple[int, int]] = []
    for batch in reading:
        came += batch
        if batch:
            times.tell(reading.current, batch[-1][1])
        assert len(source.open_now) <= 17
    reading.close()
    for name, expected in source.lists.items():
        assert [row for row in came if row[0] == int(name[1:])] == expected
    assert source.open_now == []


def test_positions_of_another_kind_of_source_are_refused() -> None:
    source = Lists([1], [1], "list")
    with pytest.raises(CheckpointError, match="a source without partitions: share 0 is at"):
        Partitions(source, context(0, 1), SHARES, {0: (7,)})
    for position in ((7,), (), ("text", 1)):  # of a task that had finished
        with pytest.raises(CheckpointError, match="a source without partitions: share 0 is at"):
            Partitions(source, context(0, 1), SHARES, {0: Partitions.ended(position)})
    with pytest.raises(CheckpointError, match="a source without partitions: it is in 3 shares"):
        Partitions(source, context(0, 1), 3, {})
    with pytest.raises(CheckpointError, match="the positions of a source of partitions"):
        Shares(source, context(0, 1), 1, {0: ({"p0": (7,)},)})
