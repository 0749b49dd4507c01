"""Works: what Oka and others do in turn, over the same input, in runs to its end."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.options import file_options, names_option, parallelism_option, repeats_option
from benchmarks.peers.flink import Found, run_program
from benchmarks.peers.peer import Peer
from benchmarks.schema.result import Result, Row
from benchmarks.sweep import Cell, Settings, every_case, missing, sweep
from engine.report.result import JobResult
from engine.report.tables import table
from engine.units import rate

OKA = "oka"
BATCH = 16_384
"""Most rows of a batch of columns."""


@dataclass(frozen=True)
class WorkCase(Case):
    """A work of one system. `payload_bytes` is the approximate size of a record."""

    work: str = ""
    input_records: int = 0
    unit: ClassVar[str] = "records/s"

    @property
    def label(self) -> str:
        """The case in words."""
        return f"{self.work} {self.system} {self.api}, parallelism {self.parallelism}"


class Work(ABC):
    """One work, which all systems do in turn, over the same input."""

    name: ClassVar[str]
    record_bytes: ClassVar[int]
    apis: ClassVar[tuple[str, ...]] = ("columnar",)
    """The ways in which it is written in Oka."""
    batch: ClassVar[int] = BATCH
    """Most records of a batch."""
    peers: ClassVar[tuple[Peer, ...]]
    """The others; a figure has ratios to the first."""

    @contextmanager
    @abstractmethod
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """Input in the folder, and servers, for the runs in the block."""
        yield

    def run(self, case: WorkCase) -> Found:
        """Do it once, from the first source's start to the last sink's end.

        Oka's job, or the program of a peer in a process of its own.
        """
        with tempfile.TemporaryDirectory(prefix="oka-work-") as folder:
            if case.system != OKA:
                peer = next(each for each in self.peers if each.system == case.system)
                return run_program(case.label, peer.command, self.peer_settings(case), folder)
            result = engine.execute(
                self.pipeline(case),
                name=case.work,
                runtime="local",
                parallelism=case.parallelism,
                batch_size=case.batch_size,
                progress="none",
                **self.job_settings(folder),
            )
        return self.found(result)

    def found(self, result: JobResult) -> Found:
        """What Oka's job did."""
        statistics = result.statistics
        return Found(statistics.elapsed_seconds, statistics.cpu_seconds, statistics.records)

    def pipeline(self, case: WorkCase) -> Any:
        """Oka's program."""
        raise NotImplementedError

    def job_settings(self, folder: str) -> dict[str, Any]:  # noqa: ARG002 - of a job with checkpoints
        """Further settings of Oka's job, which may use the folder."""
        return {}

    def peer_settings(self, case: WorkCase) -> dict[str, Any]:
        """What the program of a peer is told."""
        raise NotImplementedError

    def measure(self, case: Case, _run: Run) -> Measurement:
        """Do it once. Raises RuntimeError if it came to another number of records than expected."""
        assert isinstance(case, WorkCase)
        found = self.run(case)
        if found.rows != (expected := self.expected(case)):
            raise RuntimeError(
                f"{case.label} came to {found.rows:,} records, expected {expected:,}"
            )
        return Measurement(
            throughput=case.input_records / found.seconds,
            cpu_seconds_per_million=found.cpu_seconds / case.input_records * 1e6,
            histogram=b"",
            records=case.input_records,
        )

    def expected(self, case: WorkCase) -> int:
        """The number of records that it comes to."""
        return case.input_records

    def cases(self, records: int, parallelism: int) -> list[WorkCase]:
        """The cases of Oka, and those of the peers that are here."""
        ways = [(OKA, api, "local", "shm") for api in self.apis]
        ways += [
            (peer.system, peer.api, "own", "own")
            for peer in self.peers
            if not peer.missing() and parallelism <= peer.most_tasks
        ]
        return [
            WorkCase(
                *(*way, self.record_bytes, self.batch, parallelism),
                work=self.name,
                input_records=records,
            )
            for way in ways
        ]


def works_command(
    benchmark: str, works: Mapping[str, Work], usual: int, text: str
) -> click.Command:
    """`oka bench BENCHMARK`: these works in turn, of `usual` records unless told otherwise."""

    @click.command(benchmark, help=text)
    @names_option("--work", "chosen", works, "Which ones.")
    @click.option("--records", default=usual, type=click.IntRange(1), help="Of the input.")
    @parallelism_option("1")
    @repeats_option
    @file_options
    def command(
        chosen: tuple[str, ...],
        records: int,
        parallelism: tuple[int, ...],
        repeats: int,
        json_file: Path | None,
        fresh: bool,
    ) -> None:
        settings = {"records": records, "repeats": repeats}
        result = Result(benchmark, settings, json_file, fresh, WorkCase)
        _run([works[name] for name in chosen], records, parallelism, repeats, result)

    return command


def _run(
    works: Sequence[Work], records: int, parallelism: Sequence[int], repeats: int, result: Result
) -> None:
    """Do these works in turn with what is here of the others, and print a line of each system."""
    for peer in dict.fromkeys(peer for work in works for peer in work.peers):
        if absent := peer.missing():
            click.echo(f"left out: {absent}; {peer.setup}", err=True)
    every: list[Cell] = []
    for work in works:
        cells = [Cell(tuple(work.cases(records, tasks)), ("closed",)) for tasks in parallelism]
        every += cells
        with ExitStack() as stack:
            if missing(cells, result):
                folder = tempfile.TemporaryDirectory(prefix="oka-work-")
                stack.enter_context(work.prepared(records, Path(stack.enter_context(folder))))
            sweep(cells, Settings(0.0, 0.0, repeats, 0), result, work.measure)
    click.echo(report(result.rows))
    result.raise_failures(every_case(every))


def report(rows: Sequence[Row]) -> str:
    """A line for each system of each work; how many times Oka's rate and CPU time are theirs.

    Where Oka has several ways, another system has a line beside each.
    """
    own: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row["system"] == OKA:
            own.setdefault(_place(row), []).append(row)
    lines = [
        _line(row, beside)
        for row in rows
        for beside in ([None] if row["system"] == OKA else own.get(_place(row), [None]))
    ]
    return table(_COLUMNS, lines, keys=4)


def _line(found: Row, own: Row | None) -> tuple[str, ...]:
    place = tuple(str(found[field]) for field in ("work", "system", "api", "parallelism"))
    throughput, cpu = found["throughput"], found["cpu_seconds_per_million"]
    if throughput is None:
        return (*place, "failed", "", "", "", "", "")
    ratios = ("", "", "")
    if own is not None and own["throughput"]:
        ratios = (
            own["api"],
            f"{own['throughput']['median'] / throughput['median']:.2f}",
            f"{own['cpu_seconds_per_million']['median'] / cpu['median']:.2f}",
        )
    return (
        *place,
        rate(throughput["median"]),
        f"{rate(throughput['min'])}-{rate(throughput['max'])}",
        f"{cpu['median']:.3f}",
        *ratios,
    )


def _place(found: Row) -> tuple[object, ...]:
    return found["work"], found["parallelism"]


_COLUMNS = (
    *("work", "system", "api", "p", "records/s", "min-max", "cpu s/M"),
    *("beside Oka's", "Oka x this", "Oka x this cpu"),
)
