"""The partitions of one task: who is told of commits, and when each is closed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.graph.context import TaskContext
from engine.graph.partitions import Partition, PartitionReader
from engine.task.source.partitions import SHARES, Partitions
from tests.partitioned import LOGS, Log, Logs, LogSource, Told

NAME = "unit"


@pytest.fixture
def logs() -> Iterator[Logs]:
    LOGS[NAME] = logs = Logs(p0=range(3), p1=range(5))
    yield logs
    del LOGS[NAME]


def reading(*, tells: bool = True, **settings: object) -> Partitions:
    source = LogSource(NAME, tells=tells, **settings)  # type: ignore[arg-type]
    made = Partitions(source, TaskContext("t[0]", 0, 1, 2, "job"), SHARES, {})
    made.pause = lambda _wait, _seconds: None
    return made


def test_an_epoch_that_was_given_up_is_committed_with_the_next(logs: Logs) -> None:
    parts = reading(bounded=False)
    batches = iter(parts)
    next(batches)
    parts.keep(1, parts.positions)
    next(batches)
    parts.keep(2, parts.positions)
    next(batches)
    parts.commit(2)
    assert logs.committed == []  # the thread that polls tells, in front of its next round
    next(batches)
    next(batches)
    assert sorted(logs.committed) == [("p0", 2), ("p1", 2)]
    assert logs.open == {"p0": 1, "p1": 1}


@pytest.mark.parametrize("tells", [True, False])
def test_a_commit_is_wanted_while_a_partition_wants_to_know(logs: Logs, tells: bool) -> None:
    parts = reading(tells=tells)
    batches = iter(parts)
    wanted = [parts.keep(1, parts.positions)]
    next(batches)
    wanted.append(parts.keep(2, parts.positions))
    list(batches)
    parts.close()
    parts.commit(2)
    wanted.append(parts.keep(3, parts.positions))
    parts.commit(3)
    wanted.append(parts.keep(4, parts.positions))
    assert wanted == [False, tells, tells, False]


def test_an_ended_partition_is_closed_when_its_end_is_committed(logs: Logs) -> None:
    parts = reading()
    batches = iter(parts)
    while len(logs.open) < 2:  # the first has ended
        next(batches)
    assert logs.open == {"p0": 1, "p1": 1}
    parts.keep(1, parts.positions)
    parts.commit(1)
    parts.keep(2, parts.positions)  # a barrier comes before it is told
    next(batches)
    assert logs.open == {"p0": 0, "p1": 1}
    parts.commit(2)
    list(batches)
    parts.close()
    assert logs.open == {"p0": 0, "p1": 1}  # until the job has ended
    parts.commit(None)
    assert logs.open == {"p0": 0, "p1": 0}
    assert sorted(logs.committed) == [("p0", 3), ("p1", 2), ("p1", 2), ("p1", 5)]


def test_a_job_that_fails_tells_nobody(logs: Logs) -> None:
    parts = reading()
    list(parts)
    parts.close()
    parts.abort()
    parts.abort()
    assert logs.open == {"p0": 0, "p1": 0}
    assert logs.committed == []


class Reader(PartitionReader):
    """Notes how many partitions are open when it is closed."""

    def __init__(self, source: LogSource, fails_at: str | None = None) -> None:
        self.source, self.fails_at = source, fails_at
        self.closed: list[int] = []

    def partitions(self) -> list[str]:
        return self.source.partitions()

    def open_partition(self, name: str, position: object) -> Partition:
        if name == self.fails_at:
            raise OSError("no such partition")
        return (Told if self.source.tells else Log)(self.source, name, position)

    def close(self) -> None:
        self.closed.append(sum(self.source.logs.open.values()))


class ReadSource(LogSource):
    """A source with this reader."""

    reader: Reader

    def open(self, _context: TaskContext) -> PartitionReader:  # type: ignore[override]
        return self.reader


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_the_reader_is_closed_once(logs: Logs, tells: bool, ends: str) -> None:
    source = ReadSource(NAME, tells=tells)
    source.reader = Reader(source)
    parts = Partitions(source, TaskContext("t[0]", 0, 1, 2, "job"), SHARES, {})
    list(parts)
    parts.close()
    if ends == "commit":
        parts.commit(None)
    parts.abort()
    assert source.reader.closed == [0]  # behind all partitions


@pytest.mark.parametrize("tells", [True, False])
def test_all_is_closed_where_a_partition_cannot_be_opened(logs: Logs, tells: bool) -> None:
    source = ReadSource(NAME, bounded=False, tells=tells)
    source.reader = Reader(source, fails_at="p1")
    with pytest.raises(OSError, match="no such partition"):
        Partitions(source, TaskContext("t[0]", 0, 1, 2, "job"), SHARES, {})
    assert logs.open == {"p0": 0}
    assert source.reader.closed == [0]


@pytest.mark.parametrize("form", ["record_batch", "table"])
def test_columns_without_rows_are_none_yet(logs: Logs, form: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.record_batch({"n": pyarrow.array([], "int64")})
    empty = batch if form == "record_batch" else pyarrow.Table.from_batches([batch])
    polled: list[int] = []

    def given(_: list[object]) -> object:
        polled.append(logs.polls)
        assert len(polled) < 10, "it is asked again and again, and no barrier can pass"
        return empty

    parts = Partitions(LogSource(NAME, form=given), TaskContext("t[0]", 0, 1, 2, "job"), SHARES, {})
    parts.pause = lambda _wait, _seconds: None
    assert next(iter(parts)) == []
    assert len(polled) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"open_partition": lambda *_: None}, "open_partition gave NoneType None, expected a Part"),
        ({"partitions": lambda _: ["p0", 7]}, "partitions gave 7, expected names: str"),
    ],
)
def test_what_a_source_gives_is_checked(logs: Logs, wrong: dict[str, object], words: str) -> None:
    source = type("Wrong", (LogSource,), wrong)(NAME, bounded=False)
    with pytest.raises(TypeError, match=words):
        Partitions(source, TaskContext("t[0]", 0, 1, 2, "job"), SHARES, {})


@pytest.mark.parametrize("given", [("a", "b"), "ab", 7, {"a": 1}])
def test_what_a_poll_gives_is_checked(logs: Logs, given: object) -> None:
    source = LogSource(NAME, form=lambda _: given)
    parts = Partitions(source, TaskContext("t[0]", 0, 1, 2, "job"), SHARES, {})
    with pytest.raises(TypeError, match=r"poll gave .*, expected a list, columns or None"):
        next(iter(parts))
