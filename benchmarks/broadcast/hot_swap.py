"""Hot swap of a model under a steady stream of records: `oka bench hot-swap`.

Sources emit records by the clock, those of a millisecond at a time, each with the time at which it
is due. An operator answers them with a model, which is replaced again and again. A sink after it
checks that every record is the next one of its source, and measures its latency. Latencies around a
swap are counted apart: from the moment at which the task begins to load a model until it is
applied, and `AROUND_SECONDS` on either side. The first model is no swap: records wait for it, and
are counted apart until one is less than `AROUND_SECONDS` late.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

import engine
from benchmarks.options import runtime_option, transport_option
from benchmarks.schema.results_file import check_writable, write_whole
from benchmarks.systems import runtime
from engine.errors import EngineError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from engine.report.provenance import commit, machine, versions
from engine.report.tables import table
from engine.units import duration, rate
from operators import Pipeline, source
from operators.sources import Function

Via = Literal["channels", "plasma", "records"]
Record = tuple[int, int, int]
"""Number of its source, number in it, and when it was due, in ns of CLOCK_MONOTONIC."""


@dataclass(frozen=True)
class HotSwap:
    """The settings of a run. Every source has the same share of the rate."""

    rate: float = 100_000.0
    """Records per second over all sources."""
    seconds: float = 10.0
    swaps: int = 5
    """Models after the first."""
    model_bytes: int = 4_000_000
    parallelism: int = 1
    via: Via = "channels"
    """`records`: the models are plain records."""
    load_in_background: bool = True
    load_ms: float = 0.0
    """Python work of each load, besides reading the bytes: it holds the GIL."""

    @property
    def records_of_a_source(self) -> int:
        """In the whole run."""
        return self.ticks * self.records_of_a_tick

    @property
    def ticks(self) -> int:
        """How often each source emits."""
        return round(self.seconds / TICK_SECONDS)

    @property
    def records_of_a_tick(self) -> int:
        """From one source."""
        return max(1, round(self.rate * TICK_SECONDS / self.parallelism))

    def model(self, version: int) -> bytes:
        """The bytes of a version; each process makes the same."""
        return random.Random(version).randbytes(self.model_bytes)


class Loaded(NamedTuple):
    """A loaded model in a task."""

    version: int
    crc: int
    began_ns: int
    ended_ns: int


@dataclass(frozen=True)
class Swap:
    """A model that took over in a task."""

    model: Loaded
    applied_ns: int
    """When its first record was at the sink."""


@dataclass(frozen=True)
class Seen:
    """The measurements of one task's sink."""

    counts: dict[int, int]
    """Records of each source."""
    disorder: int
    """Records that did not follow the one before."""
    arrivals: list[tuple[int, int, int]]
    """When some records arrived, how late they were (ns), and their number."""
    swaps: list[Swap]


@dataclass(frozen=True)
class Spread:
    """Latencies of some records, in µs."""

    records: int
    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, latencies: list[tuple[int, int]]) -> Spread:
        """From pairs of a latency in ns and the number of records with it."""
        latencies = sorted(latencies)
        records = sum(count for _, count in latencies)

        def at(share: float) -> float:
            seen = 0
            for latency, count in latencies:
                seen += count
                if seen >= share * records:
                    return latency / 1e3
            return 0.0

        return cls(records, at(0.5), at(0.99), at(1.0))


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    records_in: int
    records_out: int
    lost: int
    reordered: int
    """Records that were followed by an earlier one of their source, or by themselves."""
    versions: tuple[tuple[int, ...], ...]
    """The models that each task applied, in order."""
    wrong_models: int
    """Models whose bytes differ from the published ones."""
    throughput: float
    load_ms: float
    """The longest that a task took to load a model."""
    overall: Spread
    at_start: Spread
    """Latencies of records that waited for the first model, until records were in time again."""
    around_swaps: Spread
    outside: Spread


@click.command("hot-swap")
@click.option(
    "--rate", "records_per_second", default=100_000.0, help="Records per second over all sources."
)
@click.option("--seconds", default=10.0, help="Length of the run.")
@click.option("--swaps", default=5, help="Models after the first.")
@click.option("--model-mb", default=4.0, help="Size of each, in MB.")
@click.option("--parallelism", "-p", default=1, help="Sources, and tasks with the model.")
@click.option(
    "--via",
    type=click.Choice(["channels", "plasma", "records"]),
    default="channels",
    help="How models travel; records: as plain records.",
)
@click.option("--in-foreground", is_flag=True, help="Load between two batches, not in a thread.")
@click.option(
    "--load-ms", default=0.0, help="Python work of each load, in ms, besides reading the bytes."
)
@runtime_option
@transport_option
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the outcome here, in the schema oka.hot_swap/1.")  # fmt: skip
def command(
    records_per_second: float,
    seconds: float,
    swaps: int,
    model_mb: float,
    parallelism: int,
    via: Via,
    in_foreground: bool,
    load_ms: float,
    runtime_name: str,
    transport: str | None,
    json_file: Path | None,
) -> None:
    """Replace a model under a steady stream: lost and reordered records, and p99."""
    for option, value, least in (
        ("--rate", records_per_second, 1), ("--seconds", seconds, 0.5), ("--swaps", swaps, 0),
        ("--model-mb", model_mb, 1e-6), ("--parallelism", parallelism, 1),
        ("--load-ms", load_ms, 0),
    ):  # fmt: skip
        if not least <= value < float("inf"):
            raise click.UsageError(f"{option} is {value:g}, expected at least {least:g}")
    if json_file is not None:
        check_writable(json_file)
    case = HotSwap(
        records_per_second,
        seconds,
        swaps,
        round(model_mb * 1e6),
        parallelism,
        via,
        not in_foreground,
        load_ms,
    )
    settings = {"runtime": runtime_name, "transport": transport or "auto"}
    with runtime(runtime_name, 2 * parallelism + 1):
        outcome = measure(case, **settings)
    click.echo(report(case, outcome))
    if json_file is not None:
        result = {
            "schema": "oka.hot_swap/1",
            "settings": {**dataclasses.asdict(case), **settings},
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
            "date": time.strftime("%Y-%m-%d"),
            "outcome": dataclasses.asdict(outcome),
        }
        write_whole(json_file, (json.dumps(result, indent=2) + "\n").encode())
    if outcome.lost or outcome.reordered or outcome.wrong_models:
        raise EngineError(
            f"{outcome.lost} records were lost, {outcome.reordered} reordered and "
            f"{outcome.wrong_models} models wrong, expected none"
        )


def measure(case: HotSwap, **settings: Any) -> Outcome:
    """Run it once; `settings` as for `engine.execute`."""
    job = engine.execute(pipeline(case), parallelism=case.parallelism, **settings)
    return judge(case, job.output)


def pipeline(case: HotSwap) -> Pipeline:
    """Sources by the clock, the operator with the model, and the sink that checks all records."""
    models = source(Function(_models(case))).with_parallelism(1).named("models")
    published = models.broadcast() if case.via == "records" else models.broadcast(via=case.via)
    return (
        source(Function(_paced(case)))
        .named("records")
        .map_batches_with_model(
            published, _load(case.load_ms), _answer, load_in_background=case.load_in_background
        )
        .sink(Watch())
    )


def judge(case: HotSwap, seen: Sequence[Seen]) -> Outcome:
    """The outcome from the measurements of all sinks."""
    records_in = case.records_of_a_source * case.parallelism
    crcs = {number: zlib.crc32(case.model(number)) for number in range(1, case.swaps + 2)}
    start: list[tuple[int, int]] = []
    around: list[tuple[int, int]] = []
    outside: list[tuple[int, int]] = []
    for each in seen:
        held_until = next((at for at, late, _ in each.arrivals if late < _AROUND_NS), math.inf)
        windows = [
            (swap.model.began_ns - _AROUND_NS, swap.applied_ns + _AROUND_NS)
            for swap in each.swaps[1:]
        ]
        for at, latency, count in each.arrivals:
            within = any(begin <= at <= end for begin, end in windows)
            where = start if at < held_until else around if within else outside
            where.append((latency, count))
    swaps = [swap.model for each in seen for swap in each.swaps]
    times = [at for each in seen for at, _, _ in each.arrivals]
    records_out = sum(sum(each.counts.values()) for each in seen)
    return Outcome(
        records_in,
        records_out,
        lost=records_in - records_out,
        reordered=sum(each.disorder for each in seen),
        versions=tuple(tuple(swap.model.version for swap in each.swaps) for each in seen),
        wrong_models=sum(crcs.get(model.version) != model.crc for model in swaps),
        throughput=records_out / max(1e-9, (max(times) - min(times)) / 1e9) if times else 0.0,
        load_ms=max(((model.ended_ns - model.began_ns) / 1e6 for model in swaps), default=0.0),
        overall=Spread.of(start + around + outside),
        at_start=Spread.of(start),
        around_swaps=Spread.of(around),
        outside=Spread.of(outside),
    )


def report(case: HotSwap, outcome: Outcome) -> str:
    """The outcome for a terminal."""
    rows = [
        (name, f"{each.records:,}", *(duration(us) for us in (each.p50, each.p99, each.max)))
        for name, each in (
            ("overall", outcome.overall),
            ("held at the start", outcome.at_start),
            ("around swaps", outcome.around_swaps),
            ("outside of them", outcome.outside),
        )
    ]
    applied = "; ".join(" ".join(map(str, each)) for each in outcome.versions)
    return (
        f"{outcome.records_in:,} records in, {outcome.records_out:,} out at "
        f"{rate(outcome.throughput)}/s: {outcome.lost} lost, {outcome.reordered} reordered\n"
        f"models of {case.model_bytes / 1e6:g} MB via {case.via}, applied by task: {applied}; "
        f"{outcome.wrong_models} wrong, loaded in at most {duration(outcome.load_ms * 1e3)}\n"
        + table(("latency", "records", "p50", "p99", "max"), rows)
    )


def _paced(case: HotSwap) -> Callable[[TaskContext], Iterator[list[Record]]]:
    count, ticks = case.records_of_a_tick, case.ticks

    def records(context: TaskContext) -> Iterator[list[Record]]:
        index, number = context.index, 0
        start = time.monotonic_ns()
        for tick in range(ticks):
            due = start + int(tick * TICK_SECONDS * 1e9)
            while (left := due - time.monotonic_ns()) > 0:
                time.sleep(left / 1e9)
            yield [(index, n, due) for n in range(number, number + count)]
            number += count

    return records


def _models(case: HotSwap) -> Callable[[], Iterator[Any]]:
    def models() -> Iterator[Any]:
        pause = case.seconds / (case.swaps + 1)
        start = time.monotonic()
        for version in range(1, case.swaps + 2):
            model = case.model(version)
            while (left := start + (version - 1) * pause - time.monotonic()) > 0:
                time.sleep(min(left, 0.05))
                yield []  # at an empty batch a task notices that it was cancelled
            yield (version, model)

    return models


def _load(work_ms: float) -> Callable[[Any], Loaded]:
    def load(model: Any) -> Loaded:
        began = time.monotonic_ns()
        version, data = model if isinstance(model, tuple) else (model.version, model.buffer)
        crc = zlib.crc32(data)
        while time.monotonic_ns() < began + work_ms * 1e6:
            pass
        return Loaded(version, crc, began, time.monotonic_ns())

    return load


def _answer(model: Loaded, batch: list[Record]) -> list[tuple[int, int, int, Loaded]]:
    return [(index, number, due, model) for index, number, due in batch]


class Watch(SinkOperator[Any]):
    """Checks every record of its task."""

    properties = Properties(driver=True)

    def open(self, _context: TaskContext) -> SinkWriter:
        """Begin without a measurement."""
        return _Watcher()


class _Watcher(SinkWriter):
    def __init__(self) -> None:
        self._seen = Seen({}, 0, [], [])
        self._next: dict[int, int] = {}
        self._disorder = 0
        self._model: Loaded | None = None

    def write(self, records: list[Any]) -> None:
        now = time.monotonic_ns()
        following, arrivals, last_due, count = self._next, self._seen.arrivals, 0, 0
        for index, number, due, model in records:
            if number < following.get(index, 0):
                self._disorder += 1
            following[index] = number + 1
            if model is not self._model:
                self._model = model
                self._seen.swaps.append(Swap(model, now))
            if due != last_due:
                if count:
                    arrivals.append((now, now - last_due, count))
                last_due, count = due, 0
            count += 1
            self._seen.counts[index] = self._seen.counts.get(index, 0) + 1
        if count:
            arrivals.append((now, now - last_due, count))

    def prepare(self, _epoch: int) -> Seen:
        return dataclasses.replace(self._seen, disorder=self._disorder)


TICK_SECONDS = 0.001
"""So often each source emits."""
AROUND_SECONDS = 0.05
"""On either side of a swap: 100 ms, and the time of loading."""
_AROUND_NS = int(AROUND_SECONDS * 1e9)
