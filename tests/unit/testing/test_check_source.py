"""`check_source`: sources that keep all promises pass, and each mistake is found and named."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from engine.graph.context import TaskContext
from engine.testing import CheckFailed, check_source
from operators import Partition, PartitionedSource

DATA = {f"shard-{number}": [(number, n) for n in range(9 + number)] for number in range(4)}


class Shard(Partition):
    """A list, read from its position on."""

    gives: Callable[[list[Any]], Any] = staticmethod(lambda found: found)

    def __init__(self, rows: list[Any], position: int | None, bounded: bool) -> None:
        self.rows, self.at, self.bounded = rows, position or 0, bounded

    def poll(self, limit: int) -> Any:
        found = self.rows[self.at : self.at + limit]
        self.at += len(found)
        if not found:
            return None if self.bounded else []
        return self.gives(found)

    @property
    def position(self) -> Any:
        return self.at


class Shards(PartitionedSource[Any]):
    """`DATA`, by a kind of partition."""

    kind: type[Any] = Shard

    def __init__(self, bounded: bool = True) -> None:
        self.bounded = bounded
        self.discover_seconds = None if bounded else 0.01

    def partitions(self) -> list[str]:
        return list(DATA)

    def open_partition(self, name: str, position: Any, context: TaskContext) -> Partition:
        made: Partition = self.kind(DATA[name], position, self.bounded)
        return made


class Columns(Shard):
    gives = staticmethod(
        lambda found: pa.RecordBatch.from_pylist([{"shard": s, "row": n} for s, n in found])
    )


class Streams(Shard):
    """Gives more than the limit, which a stream may."""

    gives = staticmethod(lambda found: pa.table({"row": [f"{row}" for row in found]}))

    def poll(self, limit: int) -> Any:
        return super().poll(limit + 1)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("kind", [Shard, Columns, Streams])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_source_without_a_mistake_passes(kind: Any, bounded: bool, batch_size: int) -> None:
    class Good(Shards):
        pass

    Good.kind = kind
    check_source(Good(bounded), batch_size=batch_size, idle_seconds=0.2, most_positions=4)


def test_one_position_is_enough() -> None:
    check_source(Shards(), most_positions=1)


class InFront(Shard):
    """The position is that of the last poll."""

    last = 0

    def poll(self, limit: int) -> Any:
        self.last = self.at
        return super().poll(limit)

    @property
    def position(self) -> Any:
        return self.last


class Ahead(Shard):
    """The position is that of records that were fetched, not given."""

    @property
    def position(self) -> Any:
        return min(self.at + 1, len(self.rows)) if self.at else 0


class Anew(Shard):
    """The position is lost."""

    def __init__(self, rows: list[Any], position: int | None, bounded: bool) -> None:
        super().__init__(rows, None, bounded)


class EndForgotten(Shard):
    """At the end, the position is that of a partition that begins."""

    @property
    def position(self) -> Any:
        return None if self.at == len(self.rows) else self.at


class Place:
    def __init__(self, at: int) -> None:
        self.at = at


class NotPlain(Shard):
    """The position is an object."""

    def __init__(self, rows: list[Any], position: Place | None, bounded: bool) -> None:
        super().__init__(rows, position.at if position else None, bounded)

    @property
    def position(self) -> Any:
        return Place(self.at)


class Greedy(Shard):
    """The limit is ignored."""

    def poll(self, limit: int) -> Any:
        return super().poll(limit + 1)


class Reordered(Shard):
    """What is read from the middle on comes the other way round."""

    def __init__(self, rows: list[Any], position: int | None, bounded: bool) -> None:
        at = position or 0
        rest = rows[at:] if not at else rows[at:][::-1]
        super().__init__([*rows[:at], *rest], position, bounded)


class All(Shard):
    """Each partition has the records of all."""

    def __init__(self, _rows: list[Any], position: int | None, bounded: bool) -> None:
        super().__init__([row for each in DATA.values() for row in each], position, bounded)


class Acknowledges(Shard):
    """A commit drops all that was polled, whatever the position."""

    dropped: ClassVar[dict[int, int]] = {}

    def committed(self, _position: Any) -> None:
        self.dropped[self.rows[0][0]] = self.at

    def poll(self, limit: int) -> Any:
        self.at = max(self.at, self.dropped.get(self.rows[0][0], 0))
        return super().poll(limit)


class Fails(Shard):
    """It cannot be opened at its end."""

    def __init__(self, rows: list[Any], position: int | None, bounded: bool) -> None:
        super().__init__(rows, position, bounded)
        if position is not None:
            _ = rows[position]


MISTAKES: dict[type[Shard], str] = {
    InFront: "gives 4 records again: .*hint: position has to be behind the last poll",
    Ahead: "loses 1 records: .*hint: position must not be ahead",
    Anew: "begins anew",
    EndForgotten: "position .* which is its end, gives .* expected no record",
    NotPlain: "position of partition 'shard-0' is <.*Place object .*, expected plain data",
    Greedy: r"poll\(4\) of partition 'shard-0' gave 5 records, expected at most 4",
    Reordered: "gives the records in another order",
    All: "partitions 'shard-0' and 'shard-1' have the same records",
    Acknowledges: r"behind committed\(\d+\) of partition .*, that position gives .* not at all",
    Fails: r"open_partition\('shard-0', 9\) raised IndexError",
}


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda kind: kind.__name__)
def test_a_mistake_of_a_partition_is_named(mistake: type[Shard], bounded: bool) -> None:
    class Wrong(Shards):
        kind = mistake

    Acknowledges.dropped.clear()
    with pytest.raises(CheckFailed, match=f"(?s)^Wrong: .*{MISTAKES[mistake]}"):
        check_source(Wrong(bounded), idle_seconds=0.1, most_positions=6)


class ByHash(Shards):
    """Two tasks read a partition: its number is another one in each process."""

    def number(self, name: str) -> int:
        return hash(name)


class Renamed(Shards):
    """Names come anew with each call."""

    calls = itertools.count()

    def partitions(self) -> list[str]:
        return [f"{name}-{next(self.calls)}" for name in DATA]


class Twice(Shards):
    def partitions(self) -> list[str]:
        return ["shard-0", *DATA]


class Few(Shards):
    def partitions(self) -> list[str]:
        return ["shard-0"]


class Unsendable(Shards):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class OneReader(Shards):
    """All tasks of a process go on where the last one of them is."""

    at: ClassVar[dict[str, int]] = {}

    def open_partition(self, name: str, position: Any, context: TaskContext) -> Partition:
        if context.parallelism > 1 and position is None:
            return Shard(DATA[name], self.at.setdefault(name, 1), self.bounded)
        return super().open_partition(name, position, context)


WRONG_SOURCES: dict[type[Shards], str] = {
    ByHash: r"number\('shard-0'\) is -?\d+, and -?\d+ in another process.*two tasks would read",
    Renamed: r"partitions\(\) gave the new name 'shard-0-\d+'",
    Twice: r"partitions\(\) gave .*, expected names: at least one, and each once",
    Few: "1 of 1 partitions have records.*this shows nothing",
    Unsendable: "cannot be sent to tasks",
    OneReader: "tasks that were stopped and went on .* read .* not at all of partition",
}


@pytest.mark.parametrize("source", WRONG_SOURCES, ids=lambda kind: kind.__name__)
def test_a_mistake_of_a_source_is_named(source: type[Shards]) -> None:
    with pytest.raises(CheckFailed, match=f"(?s)^{source.__name__}.*{WRONG_SOURCES[source]}"):
        check_source(source(), idle_seconds=0.1)
