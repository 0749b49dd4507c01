"""What a connector does in a run, and who does the same beside it."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.peers.flink import Found, run_program
from benchmarks.peers.peer import Peer

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
    api: ClassVar[str] = "columnar"
    """How it is written in Oka."""
    batch: ClassVar[int] = BATCH
    """Most records of a batch."""
    peers: ClassVar[tuple[Peer, ...]]
    """The others; ratios are to the first."""

    @contextmanager
    @abstractmethod
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """Input in the folder, and servers, for the runs in the block."""
        yield

    def run(self, case: WorkCase) -> Found:
        """Do it once, from the first source's start to the last sink's end.

        Oka's job, or the program of a peer in a process of its own.
        """
        with tempfile.TemporaryDirectory(prefix="oka-connectors-") as folder:
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
        """The case of Oka, and those of the peers that are here."""
        ways = [(OKA, self.api, "local", "shm")]
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
