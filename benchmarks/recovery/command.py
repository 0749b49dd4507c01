"""The time until a job goes on after a process was killed: `oka bench recovery`.

SIGKILL ends the process with the state of a running count of many keys, with a checkpoint twice a
second. The measured time ends with the first file that the sinks commit after that. The same is
done with a TaskManager of Flink's DataStream in Java with state on the heap, with another
TaskManager idle. Each kill has a job of its own; systems take turns.
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import psutil

import engine
from benchmarks.measurement import Case
from benchmarks.options import file_options
from benchmarks.peers.flink import FLINK
from benchmarks.progress import Runs
from benchmarks.recovery.checkpoints import FLINK_JAVA, Keys
from benchmarks.recovery.flink_cluster import running_cluster
from benchmarks.schema.result import Result, Row
from benchmarks.schema.rows import OWN
from benchmarks.sweep import FAILURES
from benchmarks.systems import OKA, runtime
from engine.report.tables import table
from operators import Pipeline, source
from operators.sinks import JsonLines


@dataclass(frozen=True)
class RecoveryCase(Case):
    """Keys counted by one system with some settings, until a process is killed."""

    keys: int = 0
    settings: str = ""
    """A key of `FLINK_SETTINGS`; Oka has its own settings."""

    @property
    def label(self) -> str:
        """The case in words."""
        settings = f", {self.settings}" if self.settings else ""
        return f"{self.system} {self.api}{settings}, {self.keys:,} keys"


@click.command("recovery")
@click.option(
    "--runtime",
    "runtime_name",
    type=click.Choice(["local", "ray"]),
    default="local",
    help="ray: one on this machine, which is started.",
)
@click.option(
    "--keys",
    default="3e6",
    type=click.FloatRange(1, 1e9),
    help="The number of keys; each takes about 34 bytes of Oka's checkpoint.",
)
@click.option("--kills", default=5, type=click.IntRange(1), help="Kills per system, alternating.")
@click.option("--peers/--no-peers", default=True, help="Alternate with Flink in Java.")
@file_options
def command(
    runtime_name: str,
    keys: float,
    kills: int,
    peers: bool,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """Seconds from a worker's SIGKILL to the next final output, and the same for Flink.

    Flink has a JobManager and two TaskManagers, which are processes of this machine. `make
    peers-flink` builds it; without it, Oka runs alone.
    """
    if runtime_name == "ray" and os.environ.get("RAY_ADDRESS"):
        raise click.UsageError("RAY_ADDRESS is set, expected none: this kills a worker of its own")
    absent = FLINK_JAVA.missing() if peers else None
    if absent:
        click.echo(f"left out: {absent}; {FLINK_JAVA.setup}", err=True)
    cases = _cases(runtime_name, int(keys), peers and not absent)
    result = Result("recovery", {"kills": kills}, json_file, fresh, RecoveryCase)
    if all(result.has(case) for case in cases):
        result.tell_found(len(cases))
    else:
        with runtime(runtime_name, 1), Runs(kills * len(cases)) as progress:
            result.add(_alternate(cases, kills, progress))
    click.echo(report(result.rows))
    result.raise_failures(cases)


def _cases(runtime_name: str, keys: int, with_flink: bool) -> list[RecoveryCase]:
    cases = [_case(OKA, "native", runtime_name, keys)]
    if with_flink:
        cases += [_case(FLINK, "datastream", OWN, keys, each) for each in FLINK_SETTINGS]
    return cases


def _case(system: str, api: str, runtime_name: str, keys: int, settings: str = "") -> RecoveryCase:
    place = (system, api, runtime_name, OWN if system == FLINK else "auto")
    return RecoveryCase(*place, _KEY_BYTES, _BATCH, 1, keys=keys, settings=settings)


def _alternate(cases: Sequence[RecoveryCase], kills: int, progress: Runs) -> list[Row]:
    """Kill a process of each system in turn; a kill that fails is a failure of its row."""
    seconds: list[list[float]] = [[] for _ in cases]
    failures: list[list[str]] = [[] for _ in cases]
    for kill in range(kills):
        for at, case in enumerate(cases):
            progress.runs(case)
            try:
                seconds[at].append(measure(case, (kill + 0.5) / kills))
            except FAILURES as error:
                failures[at].append(str(error) or type(error).__name__)
                progress.ran(case, f"failed: {failures[at][-1]}")
            else:
                progress.ran(case, f"{seconds[at][-1]:.2f} s")
    return [row(*each) for each in zip(cases, seconds, failures, strict=True)]


def measure(case: RecoveryCase, phase: float) -> float:
    """Seconds of one kill, at that share of the interval after a checkpoint.

    Raises EngineError or RuntimeError if the job does not go on.
    """
    running = _running_oka if case.system == OKA else _running_flink
    with running(case) as (out, working):
        # The next one may have begun before all keys had come.
        _wait_for_more(out, committed(out), 2)
        time.sleep(phase * _INTERVAL_SECONDS)
        process, before = working(), committed(out)
        killed = time.monotonic()
        os.kill(process, signal.SIGKILL)
        _wait_for_more(out, before, 1)
        return time.monotonic() - killed


@contextmanager
def _running_oka(case: RecoveryCase) -> Iterator[tuple[Path, Callable[[], int]]]:
    """A job that has seen all keys: its folder, and the process that has them."""
    settings: dict[str, Any] = {"runtime": case.runtime, "progress": "none"}
    with tempfile.TemporaryDirectory(prefix="oka-recovery-") as folder:
        out = Path(folder) / "out"
        handle = engine.submit(
            pipeline(case.keys, out),
            checkpoints=str(Path(folder) / "checkpoints"),
            checkpoint_interval_seconds=_INTERVAL_SECONDS,
            **settings,
        )
        try:
            wait_for_state(handle, case.keys)
            yield out, lambda: _largest_worker(case.runtime)
        finally:
            handle.cancel()
            handle.wait_stopped()


@contextmanager
def _running_flink(case: RecoveryCase) -> Iterator[tuple[Path, Callable[[], int]]]:
    """The same for Flink."""
    own = FLINK_SETTINGS[case.settings]
    with running_cluster(own) as cluster:
        out = cluster.folder / "out"
        configuration = {
            "pipeline.object-reuse": "true",
            "state.backend.type": "hashmap",
            "execution.checkpointing.dir": f"file://{cluster.folder}/checkpoints",
            "execution.checkpointing.interval": f"{round(_INTERVAL_SECONDS * 1000)} ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "0 s",
            **own,
        }
        settings = {"keys": case.keys, "output": f"file://{out}", "configuration": configuration}
        cluster.submit("EndlessCount", settings)
        cluster.wait_for("all keys", lambda: cluster.records_in() >= 2 * case.keys)
        yield out, cluster.working


def pipeline(keys: int, out: Path) -> Pipeline:
    """Counts, one in a thousand of which is written."""
    counts = source(Keys(10**12, keys)).key_by().count()
    return counts.map_batches(lambda batch: batch[:1]).sink(JsonLines(out))


def wait_for_state(handle: engine.JobHandle, keys: int) -> None:
    """Wait until each key has passed the operators; two of them see all keys.

    Raises the job's error.
    """
    while sum(each.records_in for each in handle.statistics().operators) < 4 * keys:
        with suppress(NotYet):
            handle.wait_finished(0.1)


def committed(out: Path) -> set[Path]:
    """The final files."""
    return set(out.glob("part-*"))


def _wait_for_more(out: Path, before: set[Path], files: int) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while len(committed(out) - before) < files:
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing new was committed for {_LONGEST_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _largest_worker(runtime_name: str) -> int:
    """The worker that has the state: the one with the most memory."""
    below = psutil.Process().children(recursive=True)
    if runtime_name == "ray":
        workers = [each for each in below if each.name().startswith("ray::Worker")]
    else:
        workers = [each for each in below if each.ppid() != os.getpid()]
    return max(workers, key=lambda each: each.memory_info().rss).pid


def row(case: RecoveryCase, seconds: Sequence[float], failures: Sequence[str]) -> Row:
    """The times of the kills of a case, and the failures."""
    return {
        **asdict(case),
        "runs": len(seconds),
        "recovery_seconds": {
            "median": statistics.median(seconds),
            "min": min(seconds),
            "max": max(seconds),
        }
        if seconds
        else None,
        "throughput": None,
        "latency_us": None,
        "failures": list(failures),
    }


def report(rows: Sequence[Row]) -> str:
    """A line for each case, with its ratio to Oka."""
    oka = {found["keys"]: found["recovery_seconds"] for found in rows if found["system"] == OKA}
    return table(_COLUMNS, [_line(found, oka.get(found["keys"])) for found in rows], keys=4)


def _line(found: Row, oka: Mapping[str, float] | None) -> tuple[str, ...]:
    ran = found["settings"] if found["system"] == FLINK else found["runtime"]
    place = (found["system"], found["api"], ran, f"{found['keys']:,}", str(found["runs"]))
    seconds = found["recovery_seconds"]
    if seconds is None:
        return (*place, "failed", "", "")
    return (
        *place,
        f"{seconds['median']:.2f}",
        f"{seconds['min']:.2f}-{seconds['max']:.2f}",
        f"{seconds['median'] / oka['median']:.1f}" if oka and found["system"] != OKA else "",
    )


# A process is given up when two heartbeats in a row cannot be sent. The timeout is for heartbeats
# without an answer: a shorter one would give up TaskManagers that wait for a busy machine.
_HEARTBEATS = {"heartbeat.interval": "100 ms"}
FLINK_SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "heartbeats": _HEARTBEATS,
    # Without it, Flink reads local files a few bytes at a time: six system calls a key.
    "heartbeats, compressed": {
        **_HEARTBEATS,
        "execution.checkpointing.snapshot-compression": "true",
    },
}
"""Flink with default settings, with earlier detection, and also with faster checkpoints."""
_COLUMNS = ("system", "api", "how", "keys", "kills", "seconds", "min-max", "x oka")
_KEY_BYTES = 8
_BATCH = 1000
_INTERVAL_SECONDS = 0.5
_POLL_SECONDS = 0.005
_LONGEST_SECONDS = 180.0
