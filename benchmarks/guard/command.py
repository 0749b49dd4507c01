"""The regression guard: `oka bench guard`, or `make bench-check`.

It runs a short fixed set of word counts, each in turn with the pyzmq pair. It compares the ratios
to the pair with the committed baseline, since a slower machine changes ratios little. Instructions
of the Rust core's hot paths do not depend on the machine's load at all, and have a narrower bound.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import click

from benchmarks.guard import baseline as baselines
from benchmarks.guard import instructions
from benchmarks.guard.baseline import UPDATE_HINT, Baseline, Instructions, Ratios
from benchmarks.guard.verdict import (
    INSTRUCTIONS,
    Finding,
    compare_instructions,
    compare_ratios,
    confirmed,
    other_compiler,
)
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.schema.result import Result
from benchmarks.sweep import Cell, Measure, Settings, sweep
from benchmarks.systems import OKA, PAIR, check_installed, measure
from engine.errors import ConfigError, EngineError
from engine.report.tables import table


@click.command("guard")
@click.option(
    "--only",
    type=click.Choice(["ratios", "instructions"]),
    help="Word counts beside the pair, or instructions of the Rust core.  [both]",
)
@click.option("--update", is_flag=True, help="Write a new baseline; use a quiet machine.")
@click.option(
    "--baseline",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Another baseline than the committed one.",
)
def command(only: str | None, update: bool, path: Path | None) -> None:
    """Compare throughput, CPU and instructions with the committed baseline: about three minutes.

    Exit status 1 if one is worse by more than its bound: 25 % for the ratios of throughput and of
    CPU to the pyzmq pair, where a second measurement confirms it; 10 % for instructions.
    """
    path = path or baselines.PATH
    with_ratios, with_instructions = only != "instructions", only != "ratios"
    if with_ratios:
        check_installed(_pair(case) for case in CASES)
    if update:
        baselines.check_updatable(path)
        counts = instructions.measure() if with_instructions else None
        ratios = measure_ratios(CASES, measure) if with_ratios else None
        baselines.update(path, ratios, counts)
        click.echo(f"{path} is new; commit it with the change that explains it")
        return
    before = Baseline.read(path)
    if with_ratios:
        _check_complete(before.ratios, path)
    found: list[Finding] = []
    worse: list[Finding] = []
    if with_instructions:
        compared, note = check_instructions(before.instructions, path)
        found += compared
        worse += [each for each in compared if each.verdict == "worse"]
        if note is not None:
            click.echo(note, err=True)
    if with_ratios:
        compared, regressions = check_ratios(before.ratios, path, measure)
        found += compared
        worse += regressions
    click.echo(report(found))
    _tell(found, worse, path)
    if worse:
        sys.exit(1)


def check_instructions(before: Instructions | None, path: Path) -> tuple[list[Finding], str | None]:
    """A finding for each path, and a note if another compiler made the baseline."""
    if before is None:
        raise ConfigError(f"{path} has no instructions, expected those of each path", UPDATE_HINT)
    now = instructions.measure()
    return compare_instructions(now, before), other_compiler(now, before)


def check_ratios(
    before: Mapping[str, Ratios] | None, path: Path, measure: Measure
) -> tuple[list[Finding], list[Finding]]:
    """All findings, also of second measurements, and the regressions among them.

    A worse ratio is measured a second time, again in turn with the pair, and is a regression if it
    is worse then, too. Raises ConfigError if the baseline lacks a case, EngineError if a run
    failed.
    """
    before = _check_complete(before, path)
    first = compare_ratios(measure_ratios(CASES, measure), before)
    doubtful = {each.case for each in first if each.verdict == "worse"}
    if not doubtful:
        return first, []
    for each in first:
        if each.verdict == "worse":
            click.echo(f"measured once more: {each}", err=True)
    again = [case for case in CASES if name(case) in doubtful]
    second = compare_ratios(measure_ratios(again, measure), before)
    return [*first, *second], confirmed(first, second)


def measure_ratios(cases: Sequence[Case], measure: Measure) -> dict[str, Ratios]:
    """Each case in turn with the pair of its payload and batch; raises EngineError on a failure.

    A ratio is the median over the turns of the run's ratio to the pair's run in the same turn, so
    that a machine that is slower for some turns changes it little.
    """
    cells: dict[tuple[int, int], list[Case]] = {}
    for case in cases:
        cells.setdefault((case.payload_bytes, case.batch_size), [_pair(case)]).append(case)
    runs: dict[Case, list[Measurement]] = {}

    def measure_and_keep(case: Case, run: Run) -> Measurement:
        measured = measure(case, run)
        runs.setdefault(case, []).append(measured)
        return measured

    result = Result("guard", {}, None)
    every = [Cell(tuple(members), ("closed",)) for members in cells.values()]
    sweep(every, SETTINGS, result, measure_and_keep)
    for row in result.rows:
        if row["failures"]:
            raise EngineError(
                f"{row['system']} {row['api']}, {row['payload_bytes']} B, batch "
                f"{row['batch_size']} failed, so there is no ratio: {row['failures'][0]}"
            )
    return {
        name(case): _ratios(runs[case], runs[cells[case.payload_bytes, case.batch_size][0]])
        for case in cases
    }


def name(case: Case) -> str:
    """The name of the case in the baseline."""
    return f"{case.api}, {case.payload_bytes} B, batch {case.batch_size}"


def report(found: Sequence[Finding]) -> str:
    """A line for each figure; a figure that was measured twice has two."""
    lines = [
        (
            each.case,
            each.quantity.name,
            f"{each.measured:.4g}",
            f"{each.baseline:.4g}",
            f"{each.measured / each.baseline - 1:+.1%}",
            each.verdict,
        )
        for each in found
    ]
    return table(_COLUMNS, lines)


def _check_complete(before: Mapping[str, Ratios] | None, path: Path) -> Mapping[str, Ratios]:
    """Raise ConfigError if a case is missing, before minutes are spent."""
    if before is None:
        raise ConfigError(f"{path} has no ratios, expected those of the guard's cases", UPDATE_HINT)
    compare_ratios({name(case): Ratios(1.0, 1.0) for case in CASES}, before)
    return before


def _pair(case: Case) -> Case:
    """The pair that the case alternates with."""
    return Case(*PAIR, "processes", "tcp", case.payload_bytes, case.batch_size, 1)


def _ratios(ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> Ratios:
    turns = list(zip(ours, theirs, strict=True))
    return Ratios(
        throughput=median(our.throughput / their.throughput for our, their in turns),
        cpu=median(
            our.cpu_seconds_per_million / their.cpu_seconds_per_million for our, their in turns
        ),
    )


def _tell(found: Sequence[Finding], worse: Sequence[Finding], path: Path) -> None:
    """Regressions with hints, and improvements that make the baseline out of date."""
    better = [each for each in found if each.verdict == "better"]
    for each in better:
        click.echo(f"better: {each}")
    if better:
        click.echo(f"\nhint: {UPDATE_HINT}, so that it guards what was gained")
    for each in worse:
        click.echo(f"worse: {each}")
    if not worse:
        click.echo(f"nothing is worse than in {path}")
        return
    if any(each.quantity is INSTRUCTIONS for each in worse):
        click.echo(
            "\nhint: valgrind --tool=callgrind target/release/oka-instructions PATH 50, then "
            "callgrind_annotate, names the functions"
        )
    click.echo(f"\nhint: if the change is worth it, {UPDATE_HINT}")


def _case(api: str, payload_bytes: int, batch_size: int) -> Case:
    return Case(OKA, api, "local", "shm", payload_bytes, batch_size, 1)


CASES = (
    _case("per_record", 32, 1),
    _case("map_batches", 32, 1),
    _case("native", 32, 1),
    _case("per_record", 32, 1000),
    _case("map_batches", 32, 1000),
    _case("native", 32, 1000),
    _case("columnar", 32, 1000),
    _case("native", 1024, 1000),
)
SETTINGS = Settings(seconds=1.5, warmup=0.5, repeats=5, seed=0)
_COLUMNS = ("case", "quantity", "measured", "baseline", "change", "verdict")
