"""The verdict of the regression guard: which values are worse than the baseline, which better.

Pure: values in, findings out. `Quantity` has the allowed difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.guard.baseline import UPDATE_HINT, Instructions, Ratios
from engine.errors import ConfigError

Verdict = Literal["worse", "as before", "better"]


@dataclass(frozen=True)
class Quantity:
    """A measured quantity, and its allowed difference from the baseline."""

    name: str
    more_is_better: bool
    tolerance: float
    """Share of the baseline beyond which it is worse, or better."""

    def verdict(self, measured: float, baseline: float) -> Verdict:
        """How the value compares with its baseline."""
        change = measured / baseline - 1
        gain = change if self.more_is_better else -change
        if abs(gain) <= self.tolerance + _ROUNDING:
            return "as before"
        return "better" if gain > 0 else "worse"

    def bound(self, baseline: float) -> float:
        """The worst value that still passes."""
        return baseline * (1 - self.tolerance if self.more_is_better else 1 + self.tolerance)


@dataclass(frozen=True)
class Finding:
    """One value and its baseline."""

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
    """Two findings for each case. Raises ConfigError if the baseline lacks one."""
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
    """A finding for each path. Raises ConfigError if the baseline lacks one, or has more."""
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
    """A note if the two were compiled by different compilers."""
    if measured.rustc == baseline.rustc:
        return None
    return (
        f"compiled by rustc {measured.rustc}, the baseline by rustc {baseline.rustc}: "
        "instructions differ between compilers, too"
    )


def confirmed(first: Iterable[Finding], second: Iterable[Finding]) -> list[Finding]:
    """The findings that are worse in both measurements."""
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
"""Lets a value that is just at its bound pass."""
