"""The search for the highest rate that holds: pure; the caller provides the probe."""

from __future__ import annotations

from collections.abc import Callable

Holds = Callable[[float], bool]


def highest_rate(holds: Holds, upper: float, tolerance: float, confirmations: int) -> float | None:
    """The highest rate that holds, known to a share of `tolerance`; None if none does.

    It begins at `upper`, rises while that holds, and then halves the interval between the highest
    rate that held and the lowest that did not, until that is at most `tolerance` of its upper end.
    The found rate must hold in all of `confirmations` further probes. If it does not, the next
    lower rate that held is tried, and below those, rates that are each a fifth lower. No rate below
    a hundredth or above ten times `upper` is tried.
    """
    least = upper * _LEAST_SHARE
    held = _bisect(holds, upper, least, tolerance)
    candidate = held.pop() if held else None
    while candidate is not None and candidate >= least:
        if all(holds(candidate) for _ in range(confirmations)):
            return candidate
        candidate = held.pop() if held else candidate * _STEP_DOWN
    return None


def _bisect(holds: Holds, upper: float, least: float, tolerance: float) -> list[float]:
    """Every rate that held, ascending."""
    held: list[float] = []
    most = upper * _MOST_SHARE
    while upper <= most and holds(upper):
        held.append(upper)
        upper *= _STEP_UP
    lower = held[-1] if held else 0.0
    while upper <= most and upper - lower > tolerance * upper and (lower + upper) / 2 >= least:
        middle = (lower + upper) / 2
        if holds(middle):
            held.append(middle)
            lower = middle
        else:
            upper = middle
    return held


_STEP_UP = 1.25
_STEP_DOWN = 0.8
_LEAST_SHARE = 0.01
_MOST_SHARE = 10.0
