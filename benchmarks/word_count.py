"""The word-count benchmark: `oka bench word-count`.

Oka's word count over 100 random words, in each of its APIs, alternating in the same run with the
pyzmq pair. Counted at the sink; a run whose counts differ from what the source emitted failed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, cast

import click

import engine
from benchmarks.measurement import Case, Measurement, Run, row
from benchmarks.peers.registry import PYZMQ_PAIR
from engine.metrics import commit, machine, versions
from engine.tables import duration, rate, table
from pipelines.word_count import Api, random_word_count

PAIR = PYZMQ_PAIR.system
APIS = ("per_record", "map_batches", "native", "columnar")


class Numbers(click.ParamType[tuple[int, ...]]):
    """A list of whole numbers of at least 1, such as `1,10,100`."""

    name = "n,n,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Parse the list."""
        try:
            numbers = tuple(int(number) for number in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers such as 1,10,100", param, ctx)
        if min(numbers) < 1:
            self.fail(f"{min(numbers)} is below 1", param, ctx)
        return numbers


class Choices(click.ParamType[tuple[str, ...]]):
    """A list of names out of a few."""

    name = "name,…"

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Parse the list."""
        chosen = tuple(str(value).split(","))
        for name in chosen:
            if name not in self._names:
                self.fail(f"{name!r} is none of {', '.join(self._names)}", param, ctx)
        return chosen


class Loads(click.ParamType[tuple[str, ...]]):
    """`closed`, or shares of the closed throughput between 0 and 1, such as `closed,0.5`."""

    name = "load,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Parse the list."""
        loads = tuple(str(value).split(","))
        for load in loads:
            try:
                fits = load == "closed" or 0 < float(load) < 1
            except ValueError:
                fits = False
            if not fits:
                self.fail(f"{load!r} is neither closed nor a share between 0 and 1", param, ctx)
        return loads


@click.command("word-count")
@click.option(
    "--payload", type=Numbers(), default="32,256,1024", show_default=True, help="Bytes in a word."
)
@click.option(
    "--batch",
    type=Numbers(),
    default="1,10,100,1000",
    show_default=True,
    help="Most words in a batch.",
)
@click.option(
    "--parallelism",
    type=Numbers(),
    default="1",
    show_default=True,
    help="Source tasks, and as many sink tasks.",
)
@click.option(
    "--api",
    type=Choices(APIS),
    default="per_record,map_batches,native",
    show_default=True,
    help="How the count is written.",
)
@click.option("--runtime", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option(
    "--transport",
    type=click.Choice(["shm", "ipc", "tcp", "auto"]),
    default="shm",
    show_default=True,
)
@click.option("--insecure", is_flag=True, help="Do not encrypt tcp channels.")
@click.option(
    "--load",
    type=Loads(),
    default="closed",
    show_default=True,
    help="closed: as fast as possible; 0.5: words offered at half of the closed throughput.",
)
@click.option(
    "--seconds", default=5.0, show_default=True, help="Length of a run, without its warm-up."
)
@click.option(
    "--warmup", default=1.0, show_default=True, help="Seconds left out at the start of a run."
)
@click.option(
    "--repeats",
    default=5,
    show_default=True,
    help="Runs of each case, alternating between the systems.",
)
@click.option(
    "--peers/--no-peers",
    default=True,
    show_default=True,
    help="Alternate with the pyzmq pair (at parallelism 1).",
)
@click.option("--seed", default=0, show_default=True, help="Of the random words.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write rows in the schema oka.bench/1 here.",
)
def command(
    payload: tuple[int, ...],
    batch: tuple[int, ...],
    parallelism: tuple[int, ...],
    api: tuple[str, ...],
    runtime: str,
    transport: str,
    insecure: bool,
    load: tuple[str, ...],
    seconds: float,
    warmup: float,
    repeats: int,
    peers: bool,
    seed: int,
    json_file: Path | None,
) -> None:
    """Word count over 100 random words: throughput, latency and CPU, beside a pyzmq pair."""
    if seconds <= 0 or warmup < 0 or repeats < 1:
        raise click.UsageError(
            "--seconds must be above 0, --warmup not below, --repeats at least 1"
        )
    if json_file is not None:
        _check_writable(json_file)
    sweep = _Sweep(seconds, warmup, repeats, seed)
    for tasks in parallelism:
        for payload_bytes in payload:
            for batch_size in batch:
                cases = [
                    Case(
                        "oka",
                        name,
                        runtime,
                        transport,
                        payload_bytes,
                        batch_size,
                        tasks,
                        "closed",
                        encryption=transport in ("tcp", "auto") and not insecure,
                    )
                    for name in api
                ]
                if peers and tasks == 1:
                    cases.insert(
                        0,
                        Case(
                            PAIR,
                            "lists",
                            "processes",
                            "tcp",
                            payload_bytes,
                            batch_size,
                            1,
                            "closed",
                        ),
                    )
                sweep.cells.append((cases, load))
    try:
        sweep.run()
    finally:
        if json_file is not None:
            _write(json_file, sweep.rows)
    click.echo(report(sweep.rows))
    if any(found["failures"] for found in sweep.rows):
        raise click.ClickException("some runs failed, see the rows' failures")


class _Sweep:
    """Runs every cell; within a cell the systems alternate, run by run."""

    def __init__(self, seconds: float, warmup: float, repeats: int, seed: int) -> None:
        self.cells: list[tuple[list[Case], tuple[str, ...]]] = []
        self.rows: list[dict[str, Any]] = []
        self._seconds = seconds
        self._warmup = warmup
        self._repeats = repeats
        self._seed = seed
        self._done = 0

    def run(self) -> None:
        for cases, loads in self.cells:
            closed = self._alternate(cases, None)
            if "closed" in loads:
                self.rows += closed
            for load in loads:
                if load == "closed":
                    continue
                open_cases = [Case(**{**case.__dict__, "load": load}) for case in cases]
                offered = [
                    found["throughput"]["median"] * float(load) if found["throughput"] else None
                    for found in closed
                ]
                self.rows += self._alternate(open_cases, offered)

    def _alternate(
        self, cases: list[Case], offered: list[float | None] | None
    ) -> list[dict[str, Any]]:
        """Run the cases in turn, `repeats` times; at the offered rates where there are some."""
        runs: list[list[Measurement]] = [[] for _ in cases]
        failures: list[list[str]] = [[] for _ in cases]
        for _ in range(self._repeats):
            for at, case in enumerate(cases):
                words_per_second = offered[at] if offered else None
                if offered and words_per_second is None:
                    failures[at].append("the closed load failed, so there is no rate to offer")
                    continue
                try:
                    runs[at].append(self._measure(case, words_per_second))
                    self._tell(case, f"{rate(runs[at][-1].throughput)} words/s")
                except (engine.EngineError, RuntimeError) as error:
                    failures[at].append(str(error))
                    self._tell(case, f"failed: {error}")
        return [row(*each) for each in zip(cases, runs, failures, strict=True)]

    def _measure(self, case: Case, words_per_second: float | None) -> Measurement:
        if case.system == PAIR:
            run = Run(self._seconds, self._warmup, words_per_second, self._seed)
            return PYZMQ_PAIR.measure(case, run)
        length = self._seconds + self._warmup
        return _measure_oka(case, length, self._warmup, words_per_second, self._seed)

    def _tell(self, case: Case, outcome: str) -> None:
        self._done += 1
        total = sum(
            len(cases) * (1 + len([load for load in loads if load != "closed"]))
            for cases, loads in self.cells
        )
        line = (
            f"[{self._done}/{total * self._repeats}] {case.system} {case.api} "
            f"{case.payload_bytes} B, batch {case.batch_size}, parallelism {case.parallelism}, "
            f"load {case.load}: {outcome}"
        )
        print(line, file=sys.stderr, flush=True)


def _measure_oka(
    case: Case, seconds: float, warmup: float, words_per_second: float | None, seed: int
) -> Measurement:
    pipeline = random_word_count(
        seconds, case.payload_bytes, rate=words_per_second, seed=seed, api=cast(Api, case.api)
    )
    result = engine.execute(
        pipeline,
        name=f"word count {case.api}",
        runtime=case.runtime,
        parallelism=case.parallelism,
        batch_size=case.batch_size,
        transport=case.transport,
        encryption=case.encryption,
        warmup_seconds=warmup,
        progress="none",
    )
    counted = sum(result.output.values())
    if counted != result.statistics.source_records:
        raise RuntimeError(
            f"the source emitted {result.statistics.source_records} words, "
            f"the sink counted {counted}"
        )
    return Measurement(
        throughput=result.statistics.input_throughput,
        cpu_seconds_per_million=result.statistics.cpu_seconds / counted * 1e6,
        histogram=result.statistics.histogram if result.latency.count else b"",
        records=counted,
    )


def report(rows: list[dict[str, Any]]) -> str:
    """The rows as a table, each with its ratio to the pair of the same payload, batch and load."""
    pairs = {_cell(found): found for found in rows if found["system"] == PAIR}
    lines = []
    for found in rows:
        pair = pairs.get(_cell(found))
        throughput, cpu, latency = (
            found["throughput"],
            found["cpu_seconds_per_million"],
            found["latency_us"],
        )
        if throughput is None:
            lines.append(
                (found["system"], found["api"], *_place(found), "failed", "", "", "", "", "")
            )
            continue
        ratio = (
            throughput["median"] / pair["throughput"]["median"]
            if pair and pair["throughput"]
            else None
        )
        lines.append(
            (
                found["system"],
                found["api"],
                *_place(found),
                rate(throughput["median"]),
                f"{rate(throughput['min'])}-{rate(throughput['max'])}",
                f"{ratio:.2f}" if ratio else "",
                f"{cpu['median']:.3f}",
                duration(latency["p50"]) if latency else "",
                duration(latency["p99"]) if latency else "",
            )
        )
    columns = (
        "system",
        "api",
        "bytes",
        "batch",
        "p",
        "load",
        "words/s",
        "min-max",
        "x pair",
        "cpu s/M",
        "p50",
        "p99",
    )
    return table(columns, lines)


def _cell(found: dict[str, Any]) -> tuple[Any, ...]:
    return found["payload_bytes"], found["batch_size"], found["load"]


def _place(found: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(found[k]) for k in ("payload_bytes", "batch_size", "parallelism", "load"))


def _check_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--json {path} cannot be written: {error.strerror}") from error
    if not os.access(path.parent, os.W_OK):
        raise click.UsageError(f"--json {path} cannot be written: no permission for its folder")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    result = {
        "schema": "oka.bench/1",
        "benchmark": "word_count",
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "rows": rows,
    }
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(result, indent=2) + "\n")
    temporary.replace(path)
