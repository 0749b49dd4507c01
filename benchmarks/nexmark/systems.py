"""One run of a query of Nexmark, by Oka or by Flink SQL, over files of events."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.nexmark import sql
from benchmarks.peers.jvm import JvmPeer
from benchmarks.peers.peer import ENVIRONMENTS
from operators.sinks import Discard
from pipelines.nexmark.events import Events
from pipelines.nexmark.queries import query
from pipelines.nexmark.source import Api, Tables

OKA, FLINK = "oka", "flink_java"
FLINK_SQL = JvmPeer(FLINK, "sql", "columnar", None, "oka-peers.jar", needs_jar=True)
"""For what it needs and how that is installed."""


@dataclass(frozen=True)
class QueryCase(Case):
    """A query, in one way of one system. `payload_bytes` is how large a bid is about."""

    query: str = ""
    unit: ClassVar[str] = "events/s"

    @property
    def label(self) -> str:
        """The case in words."""
        return f"{self.query} {self.system} {self.api}, parallelism {self.parallelism}"


@dataclass(frozen=True)
class Found:
    """What one run took, and how many rows it came to."""

    seconds: float
    cpu_seconds: float
    rows: int


class Systems:
    """Measures cases over the same events; all that answer a query come to as many rows."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._rows: dict[str, tuple[int, str]] = {}

    def measure(self, case: Case, _run: Run) -> Measurement:
        """Run a case once; raises RuntimeError where it comes to other rows than one before."""
        assert isinstance(case, QueryCase)
        run = _SYSTEMS[case.system]
        found = run(case, self._events)
        rows, first = self._rows.setdefault(case.query, (found.rows, case.label))
        if found.rows != rows:
            raise RuntimeError(
                f"{case.label} came to {found.rows:,} rows, expected {rows:,} as of {first}"
            )
        events = self._events.events
        return Measurement(
            throughput=events / found.seconds,
            cpu_seconds_per_million=found.cpu_seconds / events * 1e6,
            histogram=b"",
            records=events,
        )


def run_oka(case: QueryCase, events: Events) -> Found:
    """Run it once, from the first task's begin to the last one's end."""
    stream = query(case.query).of(Tables(events, cast(Api, case.api)))
    result = engine.execute(
        stream.sink(Discard()),
        name=case.query,
        runtime="local",
        transport="shm",
        parallelism=case.parallelism,
        batch_size=case.batch_size,
        progress="none",
    )
    statistics = result.statistics
    late = sum(each.late for each in statistics.operators)
    if late:
        raise RuntimeError(f"{case.label} left {late:,} records out as late, expected none")
    return Found(statistics.elapsed_seconds, statistics.cpu_seconds, statistics.records)


def run_flink(case: QueryCase, events: Events) -> Found:
    """Run it several times in one JVM, the last of which counts: the code is compiled then."""
    with tempfile.TemporaryDirectory(prefix="oka-nexmark-") as folder:
        result = Path(folder) / "result.json"
        settings: dict[str, Any] = {
            "runs": _FLINK_RUNS,
            "result": str(result),
            "parallelism": case.parallelism,
            "configuration": sql.CONFIGURATION,
            "statements": sql.statements(events),
            "query": sql.QUERIES[case.query],
        }
        options = [*_JVM_OPTIONS, f"-Djava.io.tmpdir={folder}"]
        flink = ENVIRONMENTS / "flink"
        program = ["-cp", f"{flink / 'oka-peers.jar'}:{flink / 'lib'}/*", "oka.peers.Nexmark"]
        done = subprocess.run(
            ["java", *options, *program, json.dumps(settings)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_SECONDS,
        )
        if not result.exists():
            lines = (done.stdout + done.stderr).splitlines()
            told = "\n".join([line for line in lines if not line.startswith("\tat ")][-15:])
            raise RuntimeError(f"flink sql ended with status {done.returncode}:\n{told}")
        return Found(**json.loads(result.read_text()))


_SYSTEMS: dict[str, Callable[[QueryCase, Events], Found]] = {OKA: run_oka, FLINK: run_flink}
_FLINK_RUNS = 6
_JVM_OPTIONS = (
    *("-Xms1g", "-Xmx4g"),
    # The parallel collector costs less CPU per event than G1.
    *("-XX:+UseParallelGC", "-XX:-UsePerfData"),
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # Arrow's memory
)
_LONGEST_SECONDS = 600
