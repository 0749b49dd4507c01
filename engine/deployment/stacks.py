"""Where the threads of a task were, each time that somebody looked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stacks:
    """How often a task was seen in which functions.

    In each of `stacks` the functions stand between semicolons, the outermost first, as programs
    that draw flame graphs take them: `name (file:line)`, with the line where the function begins.
    """

    seconds: float
    """For how long it was looked at."""
    samples: int
    """How often a thread was seen, of a hundred times a second: the sum of all counts."""
    stacks: tuple[tuple[str, int], ...]
    """The most frequent ones first."""
