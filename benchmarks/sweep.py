"""A sweep: cases that run in turn, cell by cell, each cell's rows kept as soon as it is finished.

Invariant: within a cell the cases alternate, run by run, so that a disturbance of the machine
affects all of them. A run that fails is a failure of its row; the sweep goes on.
"""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import engine
from benchmarks.measurement import Case, Measurement, Run, row
from benchmarks.progress import Runs
from benchmarks.schema.result import Result
from engine.units import rate

Measure = Callable[[Case, Run], Measurement]


@dataclass(frozen=True)
class Settings:
    """The settings of every case of a sweep."""

    seconds: float
    warmup: float
    repeats: int
    seed: int


@dataclass(frozen=True)
class Cell:
    """Cases that alternate, and their loads, one after the other."""

    cases: tuple[Case, ...]
    loads: tuple[str, ...]
    """`closed`, and shares of each case's own closed throughput; closed is always measured."""

    def steps(self) -> tuple[str, ...]:
        """The loads in the order in which they are measured."""
        return ("closed", *(load for load in self.loads if load != "closed"))

    def under(self, load: str) -> list[Case]:
        """Its cases under that load."""
        return [dataclasses.replace(case, load=load) for case in self.cases]


def sweep(cells: Sequence[Cell], settings: Settings, result: Result, measure: Measure) -> None:
    """Measure missing rows. On KeyboardInterrupt the finished cells are kept."""
    lacking = missing(cells, result)
    kept = len(every_case(cells)) - sum(len(cell.cases) for cell, _ in lacking)
    if kept:
        result.tell_found(kept)
    runs = sum(len(cell.cases) for cell, _ in lacking) * settings.repeats
    try:
        with Runs(runs) as progress:
            for cell, load in lacking:
                result.add(_alternate(cell.under(load), settings, result, measure, progress))
    except BaseException:
        result.tell_kept()
        raise


def missing(cells: Sequence[Cell], result: Result) -> list[tuple[Cell, str]]:
    """The cells and loads that have a case without a row, or with a failure."""
    return [
        (cell, load)
        for cell in cells
        for load in cell.steps()
        if not all(result.has(case) for case in cell.under(load))
    ]


def every_case(cells: Sequence[Cell]) -> list[Case]:
    """All cases of a sweep of these cells."""
    return [case for cell in cells for load in cell.steps() for case in cell.under(load)]


def _alternate(
    cases: Sequence[Case],
    settings: Settings,
    result: Result,
    measure: Measure,
    progress: Runs,
) -> list[dict[str, Any]]:
    """Run the cases in turn, `repeats` times."""
    rates = [offered(case, result) for case in cases]
    runs: list[list[Measurement]] = [[] for _ in cases]
    failures: list[list[str]] = [[] for _ in cases]
    for _ in range(settings.repeats):
        for at, case in enumerate(cases):
            words_per_second = rates[at]
            if case.load != "closed" and words_per_second is None:
                failures[at].append("the closed load failed, so there is no rate to offer")
                progress.ran(case, failures[at][-1])
                continue
            progress.runs(case)
            run = Run(settings.seconds, settings.warmup, words_per_second, settings.seed)
            try:
                measured = measure(case, run)
            except FAILURES as error:
                failures[at].append(str(error) or type(error).__name__)
                progress.ran(case, f"failed: {failures[at][-1]}")
            else:
                runs[at].append(measured)
                progress.ran(case, f"{rate(measured.throughput)} {case.unit}")
    return [row(case, runs[at], failures[at], rates[at]) for at, case in enumerate(cases)]


def offered(case: Case, result: Result) -> float | None:
    """Words per second to offer: the load's share of the closed median of the same case."""
    if case.load == "closed":
        return None
    closed = result.find(dataclasses.replace(case, load="closed"))
    if closed is None or closed["throughput"] is None:
        return None
    median: float = closed["throughput"]["median"]
    return median * float(case.load)


FAILURES = (engine.EngineError, RuntimeError, OSError, subprocess.SubprocessError)
"""Errors of a run that do not end the sweep."""
