"""What the regression guard makes of its figures: which are worse than the baseline, which better.

Pure: figures in, findings out. `Quantity` says by how much each may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.baseline import UPDATE_HINT, Instructions, Ratios
from engine.errors import ConfigError

Verdict = Literal["worse", "as before", "better"]


@dataclass(frozen=True)
class Quantity:
    """Something that is measured, and how far it may be from its baseline."""

    name: str
    more_is_better: bool
    tolerance: float
    """Share of the baseline beyond which it is worse, or better."""

    def verdict(self, measured: float, baseline: float) -> Verdict:
        """How the figure compares with its baseline."""
        change = measured / baseline - 1
        gain = change if self.more_is_better else -change
        if abs(gain) <= self.tolerance + _ROUNDING:
            return "as before"
        return "better" if gain > 0 else "worse"

    def bound(self, baseline: float) -> float:
        """The worst figure that still passes."""
        return baseline * (1 - self.tolerance if self.more_is_better else 1 + self.tolerance)


@dataclass(frozen=True)
class Finding:
    """One figure beside its baseline."""

    case: str
    quantity: Quantity
    measured: float
    baseline: float

    @property
    def verdict(self) -> Verdict:
        """Worse, better, or neither."""
        return self.quantity.verdict(self.measured, self.baseline)

    def __str__(self) -> str:
        change = (
            f"{self.case}: {self.quantity.name} is {self.measured:.4g}, "
            f"{self.measured / self.baseline - 1:+.0%} against {self.baseline:.4g} in the baseline"
        )
        if self.verdict == "better":
            return change
        limit = "at least" if self.quantity.more_is_better else "at most"
        return f"{change}; expected {limit} {self.quantity.bound(self.baseline):.4g}"


def compare_ratios(measured: Mapping[str, Ratios], baseline: Mapping[str, Ratios]) -> list[Finding]:
    """Two findings for each case; raises ConfigError where the baseline lacks one."""
    _check_known("case", measured, baseline)
    return [
        finding
        for case, now in measured.items()
        for finding in (
            Finding(case, THROUGHPUT, now.throughput, baseline[case].throughput),
            Finding(case, CPU, now.cpu, baseline[case].cpu),
        )
    ]


def compare_instructions(measured: Instructions, baseline: Instructions) -> list[Finding]:
    """A finding for each path; raises ConfigError where the baseline lacks one, or has more."""
    _check_known("path", measured.paths, baseline.paths)
    gone = [path for path in baseline.paths if path not in measured.paths]
    if gone:
        raise ConfigError(
            f"the baseline has the path {', '.join(gone)}, which is not measured any more",
            UPDATE_HINT,
        )
    return [
        Finding(path, INSTRUCTIONS, count, baseline.paths[path])
        for path, count in measured.paths.items()
    ]


def other_compiler(measured: Instructions, baseline: Instructions) -> str | None:
    """What to bear in mind where the two were compiled by different compilers."""
    if measured.rustc == baseline.rustc:
        return None
    return (
        f"compiled by rustc {measured.rustc}, the baseline by rustc {baseline.rustc}: "
        "instructions differ between compilers, too"
    )


def confirmed(first: Iterable[Finding], second: Iterable[Finding]) -> list[Finding]:
    """The findings of the second measurement that are worse, as they were in the first."""
    worse = {(each.case, each.quantity.name) for each in first if each.verdict == "worse"}
    return [
        each
        for each in second
        if each.verdict == "worse" and (each.case, each.quantity.name) in worse
    ]


def _check_known(kind: str, measured: Iterable[str], baseline: Mapping[str, object]) -> None:
    missing = [name for name in measured if name not in baseline]
    if missing:
        raise ConfigError(f"the baseline has no {kind} {', '.join(missing)}", UPDATE_HINT)


THROUGHPUT = Quantity("throughput / pair", more_is_better=True, tolerance=0.25)
CPU = Quantity("CPU / pair", more_is_better=False, tolerance=0.25)
INSTRUCTIONS = Quantity("instructions per record", more_is_better=False, tolerance=0.10)
_ROUNDING = 1e-9
"""So that a figure that is just at its bound passes."""
