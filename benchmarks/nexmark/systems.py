"""One run of a query of Nexmark, by Oka or by another system, over files of events."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, cast

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.nexmark import sql
from benchmarks.nexmark.latency import run_at_rate
from benchmarks.peers.flink import FLINK, JVM_OPTIONS, RUNS, Found, run_flink, run_program
from benchmarks.peers.jvm import JvmPeer
from benchmarks.peers.peer import Peer
from benchmarks.recovery.checkpoints import checkpoint_settings, told_of
from operators.sinks import Discard
from pipelines.nexmark.events import KINDS, Events
from pipelines.nexmark.queries import query
from pipelines.nexmark.source import Api, Tables

OKA = "oka"
FLINK_SQL = JvmPeer(FLINK, "sql", "columnar", None, "oka-peers.jar", needs_jar=True)
"""Says what it needs, and how to install that."""
PYTHON_PEERS: dict[str, Peer] = {
    "bytewax": Peer(
        *("bytewax", "per_record", "per_record", "bytewax", "nexmark/bytewax_nexmark.py"),
        most_tasks=1,
    ),
    "pathway": Peer(
        "pathway", "python_source", "per_record", "pathway", "nexmark/pathway_nexmark.py"
    ),
    "pyflink": JvmPeer(
        *("pyflink", "table", "per_record", "pyflink", "nexmark/flink_python_nexmark.py"),
        needs_jar=True,
    ),
}
PYTHON_QUERIES = ("q1", "q2", "q5", "q7", "q8")
"""The queries that they have."""


@dataclass(frozen=True)
class QueryCase(Case):
    """A query by one API of one system. `payload_bytes` is the approximate size of a bid."""

    query: str = ""
    interval_seconds: float | None = None
    """Seconds between checkpoints; None: no checkpoints."""
    unit: ClassVar[str] = "events/s"

    @property
    def label(self) -> str:
        """The case in words."""
        told = f"{self.query} {self.system} {self.api}, parallelism {self.parallelism}"
        return f"{told}, {told_of(self.interval_seconds)}" if self.interval_seconds else told


class Systems:
    """Measures cases over the same events; all systems must give the same number of rows."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._rows: dict[str, tuple[int, str]] = {}

    def measure(self, case: Case, settings: Run) -> Measurement:
        """Run a case once. Raises RuntimeError if its number of rows differs from an earlier one.

        At a rate, it measures the latency of Oka's windows.
        """
        assert isinstance(case, QueryCase)
        if settings.rate is not None:
            with checkpoint_settings(case.interval_seconds) as kept:
                return run_at_rate(case, case.query, self._events, settings.rate, kept)
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
    """Run it once, from the first task's start to the last one's end."""
    stream = query(case.query).of(Tables(events, cast(Api, case.api)))
    with checkpoint_settings(case.interval_seconds) as settings:
        result = engine.execute(
            stream.sink(Discard()),
            name=case.query,
            runtime="local",
            transport="shm",
            parallelism=case.parallelism,
            batch_size=case.batch_size,
            progress="none",
            **settings,
        )
    statistics = result.statistics
    late = sum(each.late for each in statistics.operators)
    if late:
        raise RuntimeError(f"{case.label} left {late:,} records out as late, expected none")
    return Found(statistics.elapsed_seconds, statistics.cpu_seconds, statistics.records)


def run_sql(case: QueryCase, events: Events) -> Found:
    """Run it several times in one JVM; the last run counts."""
    statements = {"statements": sql.statements(events), "query": sql.QUERIES[case.query]}
    return run_flink("Query", case.parallelism, sql.CONFIGURATION, statements)


def run_python(case: QueryCase, events: Events, *, with_rows: bool = False) -> Found:
    """Run the program of a peer once, in its own environment."""
    peer = PYTHON_PEERS[case.system]
    late = max(map(events.out_of_orderness, KINDS)) / timedelta(milliseconds=1)
    settings = {
        "query": case.query,
        "folder": events.folder,
        "late_ms": int(late),
        "batch_size": case.batch_size,
        "parallelism": case.parallelism,
        "with_rows": with_rows,
    }
    with tempfile.TemporaryDirectory(prefix="oka-peer-") as folder:
        return run_program(case.label, peer.command, settings, folder)


def run_pyflink(case: QueryCase, events: Events) -> Found:
    """As `run_sql`, through PyFlink and with Python functions."""
    peer = PYTHON_PEERS[case.system]
    with tempfile.TemporaryDirectory(prefix="oka-flink-") as folder:
        settings = {
            "runs": RUNS,
            "folder": folder,
            "parallelism": case.parallelism,
            "jvm_options": [*JVM_OPTIONS, f"-Djava.io.tmpdir={folder}"],
            "configuration": sql.CONFIGURATION,
            "statements": sql.statements(events),
            "query": {**sql.QUERIES, **sql.PYTHON_QUERIES}[case.query],
        }
        return run_program(case.label, peer.command, settings, folder)


_SYSTEMS: dict[str, Callable[[QueryCase, Events], Found]] = {
    OKA: run_oka,
    FLINK: run_sql,
    **dict.fromkeys(PYTHON_PEERS, run_python),
    "pyflink": run_pyflink,
}
