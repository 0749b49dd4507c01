"""`check_sink`: sinks that keep all promises pass, and each mistake is found and named."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.graph.context import TaskContext
from engine.testing import CheckFailed, check_sink
from operators import SinkOperator, SinkWriter
from operators.sinks import JsonLines, ParquetSink

TABLES: dict[int, dict[Any, list[Any]]] = {}
"""The rows of each place, by what commits them."""


@pytest.fixture(autouse=True)
def _no_tables() -> Iterator[None]:
    TABLES.clear()
    yield
    TABLES.clear()


class Writer(SinkWriter):
    """Commits rows under their task and epoch."""

    def __init__(self, place: int, context: TaskContext) -> None:
        self.table, self.context = TABLES.setdefault(place, {}), context
        self.rows: list[Any] = []

    def write(self, records: list[Any]) -> None:
        self.rows += records

    def prepare(self, epoch: int) -> Any:
        rows, self.rows = self.rows, []
        return self.context.index, self.context.generation, rows

    def commit(self, epoch: int, prepared: Any) -> None:
        task, generation, rows = prepared
        self.table[task, generation, epoch] = rows


class Table(SinkOperator[Any]):
    writer: type[Writer] = Writer

    def __init__(self, place: int) -> None:
        self.place = place

    def open(self, context: TaskContext) -> SinkWriter:
        return self.writer(self.place, context)


def rows(place: int) -> list[Any]:
    return [row for each in TABLES.get(place, {}).values() for row in each]


def test_a_sink_without_a_mistake_passes() -> None:
    check_sink(Table, read=rows)


def test_files_of_lines_pass(tmp_path: Path) -> None:
    def read(place: int) -> list[Any]:
        files = sorted((tmp_path / str(place)).glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    check_sink(lambda place: JsonLines(tmp_path / str(place)), read=read)


def test_parquet_passes(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")

    def read(place: int) -> list[Any]:
        files = sorted((tmp_path / str(place)).glob("*.parquet"))
        return [row for file in files for row in parquet.read_table(file).to_pylist()]

    check_sink(
        lambda place: ParquetSink(tmp_path / str(place)),
        read=read,
        record=lambda n: {"n": n, "text": f"{n}"},
        columns=True,
    )


class Appends(Writer):
    """A repeated commit writes once more."""

    def commit(self, epoch: int, prepared: Any) -> None:
        self.table.setdefault("all", []).extend(prepared[2])


class AtOnce(Writer):
    """All is final as it is written."""

    def write(self, records: list[Any]) -> None:
        self.table.setdefault("all", []).extend(records)


class InPrepare(Writer):
    """All is final with prepare."""

    def prepare(self, epoch: int) -> Any:
        prepared = super().prepare(epoch)
        super().commit(epoch, prepared)
        return prepared


class BehindBarrier(Writer):
    """Commits what it has, not what was prepared."""

    def prepare(self, epoch: int) -> Any:
        return self.context.index, self.context.generation, [*self.rows]

    def commit(self, epoch: int, prepared: Any) -> None:
        rows, self.rows = self.rows, []
        super().commit(epoch, (*prepared[:2], rows))


class OnlyNewest(Writer):
    """Keeps one prepared epoch."""

    kept: Any = None

    def prepare(self, epoch: int) -> Any:
        self.kept = super().prepare(epoch)
        return self.kept

    def commit(self, epoch: int, prepared: Any) -> None:
        super().commit(epoch, self.kept or prepared)


class InMemory(Writer):
    """A new writer does not know what was prepared."""

    def prepare(self, epoch: int) -> Any:
        self.kept = {**getattr(self, "kept", {}), epoch: super().prepare(epoch)}
        return None

    def commit(self, epoch: int, prepared: Any) -> None:
        if epoch in self.kept:
            super().commit(epoch, self.kept[epoch])

    kept: dict[int, Any] = {}  # noqa: RUF012 - each writer makes its own


class NoRestore(Writer):
    """What was prepared by others is not committed."""

    def restore(self, epoch: int, prepared: Any) -> None:
        """Nothing."""


class ByEpoch(Writer):
    """Tasks of one epoch take each other's place."""

    def commit(self, epoch: int, prepared: Any) -> None:
        self.table.setdefault((self.context.index, epoch), prepared[2])


class NotPlain(Writer):
    """What it prepares is an object."""

    def prepare(self, epoch: int) -> Any:
        return iter(self.rows)


class AbortCommits(Writer):
    """The end of a failed job is taken for the end of a job."""

    def abort(self) -> None:
        super().commit(99, super().prepare(99))


class RestoresLater(Writer):
    """What was prepared is found in the system, whether or not its epoch was stored."""

    def prepare(self, epoch: int) -> Any:
        prepared = super().prepare(epoch)
        STAGED.setdefault(id(self.table), []).append((epoch, prepared))
        return prepared

    def restore(self, epoch: int, prepared: Any) -> None:
        for each, made in STAGED.get(id(self.table), []):
            super().commit(each, made)


class OwnThread(Writer):
    """Commits only in the thread that has opened it."""

    def __init__(self, place: int, context: TaskContext) -> None:
        super().__init__(place, context)
        self.thread = threading.get_ident()

    def commit(self, epoch: int, prepared: Any) -> None:
        if threading.get_ident() != self.thread:
            raise RuntimeError("made in another thread")
        super().commit(epoch, prepared)


STAGED: dict[int, list[Any]] = {}

MISTAKES: dict[type[Writer], str] = {
    AtOnce: r"behind write, in front of prepare\(1\), final is .* must not be final",
    InPrepare: r"behind prepare\(1\), in front of commit\(1\), final is .* must not be final",
    BehindBarrier: r"further records written since prepare\(1\), final is .* must not be final",
    OnlyNewest: r"commit\(2\) and commit\(3\), which came together, final is .*not 'record",
    Appends: r"behind a second commit\(1\), final is 'record 0'.* 2 times.*commit may come again",
    InMemory: r"restore\(1\).*final is not 'record 0'",
    NoRestore: r"behind a kill after epoch 1 was stored, .* final is not 'record 0'",
    ByEpoch: r"behind restore\(2\) by 1 tasks, after 2, final is not 'record",
    NotPlain: r"the result of prepare\(1\) is <list_iterator .*, expected plain data",
    AbortCommits: "behind abort, final is .* must not be final",
    RestoresLater: r"behind a kill after prepare\(1\), .* final is .* must not be final",
    OwnThread: r"commit\(1, .* in another thread, raised RuntimeError: made in another thread",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda kind: kind.__name__)
def test_a_mistake_is_named(mistake: type[Writer]) -> None:
    class Wrong(Table):
        writer = mistake

    STAGED.clear()
    with pytest.raises(CheckFailed, match=f"(?s)^Wrong: .*{MISTAKES[mistake]}"):
        check_sink(Wrong, read=rows)


def test_what_is_left_is_named(tmp_path: Path) -> None:
    class Leaves(Writer):
        def write(self, records: list[Any]) -> None:
            super().write(records)
            (tmp_path / f"{self.context.job_name}.tmp").touch()

    class Wrong(Table):
        writer = Leaves

    def left(place: int) -> list[str]:
        return [path.name for path in tmp_path.glob(f"check-{place}.tmp")]

    with pytest.raises(CheckFailed, match=r"at the end of the job, \['check-1.tmp'\] is left"):
        check_sink(Wrong, read=rows, left=left)
