"""Works on a file of records with times: what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from benchmarks.peers.flink import FLINK, Found, run_flink
from benchmarks.peers.jvm import JvmPeer
from benchmarks.works import Work, WorkCase
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator
from engine.report.result import JobResult
from operators import Pipeline, Stream, TaskContext, source
from operators.sinks import Collect

if TYPE_CHECKING:
    import pyarrow as pa

FLINK_SQL = JvmPeer(FLINK, "sql", "columnar", None, "oka-peers.jar", needs_jar=True)
FLINK_CEP = JvmPeer(FLINK, "cep", "per_record", None, "oka-peers.jar", needs_jar=True)
"""They say what they need, and how to install that."""
COLUMNS = ("user", "time", "kind", "amount")
"""All are whole numbers; times are milliseconds, in order."""
Api = Literal["records", "columnar"]


class EventTimeWork(Work):
    """The common part: the file, and that all systems come to the same.

    A result has a number, and a run the sum of all: it must be that of the first run.
    """

    record_bytes, batch = 32, 4096
    users: ClassVar[int]
    step_ms: ClassVar[int]
    """Event time between two records."""

    @contextmanager
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """Records as columns in `records.arrow`."""
        self.file = folder / "records.arrow"
        self.first: tuple[int, int, str] | None = None
        write_records(self.file, records, self.users, self.step_ms)
        yield

    def run(self, case: WorkCase) -> Found:
        """Do it once. Raises RuntimeError if it comes to something else than the first run."""
        if case.system == FLINK:
            found = run_flink(
                self.program, case.parallelism, CONFIGURATION, self.flink_settings(case)
            )
        else:
            found = super().run(case)
        self.first = self.first or (found.rows, found.total, case.label)
        _, total, first = self.first
        if found.total != total:
            raise RuntimeError(
                f"{case.label} came to a sum of {found.total:,}, expected {total:,} as of {first}"
            )
        return found

    program: ClassVar[str]
    """Flink's class in the jar."""

    @abstractmethod
    def flink_settings(self, case: WorkCase) -> dict[str, Any]:
        """What it is told."""

    def pipeline(self, case: WorkCase) -> Pipeline:
        """The results of each batch: their number and the sum of their numbers."""
        times: Any = "time" if case.api == "columnar" else COLUMNS.index("time")
        records: Stream[Any] = source(Records(str(self.file), columnar=case.api == "columnar"))
        timed = records.with_event_time(times, unit="ms")
        return (
            self.results(timed, case.api).map_batches(partial(summed, self.number)).sink(Collect())
        )

    @abstractmethod
    def results(self, timed: Stream[Any], api: str) -> Stream[Any]:
        """Oka's program."""

    @staticmethod
    @abstractmethod
    def number(batch: Any) -> int:
        """The sum of the numbers of a batch of results."""

    def found(self, result: JobResult) -> Found:
        """The sums of all batches."""
        if late := sum(each.late for each in result.statistics.operators):
            raise RuntimeError(f"{late:,} records were left out as late, expected none")
        statistics, sums = result.statistics, result.outputs["collect"]
        rows, total = (sum(each) for each in zip(*sums, strict=True)) if sums else (0, 0)
        return Found(statistics.elapsed_seconds, statistics.cpu_seconds, rows, total=total)

    def expected(self, _case: WorkCase) -> int:
        """As of the first run."""
        assert self.first is not None
        return self.first[0]


class Records(SourceOperator[Any]):
    """The records of a file, which every task has: columns, or a tuple for each."""

    def __init__(self, file: str, *, columnar: bool) -> None:
        self.file = file
        self.columnar = columnar

    @property
    def properties(self) -> Properties:
        """Whether records are columns, and that it never waits."""
        return Properties(emits_columns=self.columnar, never_waits=True, goes_on=False)

    def open(self, context: TaskContext) -> Iterator[Any]:
        """The share of a task, in batches."""
        return (batches if self.columnar else tuples)(self.file, context)


def summed(number: Any, results: Any) -> list[tuple[int, int]]:
    """The number of these results, and the sum of theirs."""
    return [(len(results), number(results))]


def write_records(file: Path, records: int, users: int, step_ms: int) -> None:
    """Write so many records; of one user, no two have the same time."""
    import numpy as np
    import pyarrow as pa

    with pa.ipc.new_file(file, pa.schema([(name, pa.int64()) for name in COLUMNS])) as out:
        for start in range(0, records, _BLOCK):
            count = min(_BLOCK, records - start)
            chance = np.random.default_rng(start)
            times = START_MS + np.arange(start, start + count) * step_ms
            columns = (
                chance.integers(0, users, count),
                times + chance.integers(0, step_ms, count),
                chance.integers(0, KINDS, count),
                chance.integers(1, 1000, count),
            )
            out.write(pa.record_batch(list(columns), names=list(COLUMNS)))


def batches(file: str, context: TaskContext) -> Iterator[pa.RecordBatch]:
    """A task's share of the file, as columns."""
    import pyarrow as pa

    with pa.memory_map(file) as memory:
        reader = pa.ipc.open_file(memory)
        for number in range(context.index, reader.num_record_batches, context.parallelism):
            block = reader.get_batch(number)
            for at in range(0, len(block), context.batch_size):
                yield block.slice(at, context.batch_size)


def tuples(file: str, context: TaskContext) -> Iterator[list[tuple[int, ...]]]:
    """A task's share of the file, a tuple for each record."""
    for batch in batches(file, context):
        yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


CONFIGURATION = {
    "execution.buffer-timeout.interval": "5 ms",
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
}
START_MS = 1_764_000_000_000
KINDS = 10
_BLOCK = 16_384
