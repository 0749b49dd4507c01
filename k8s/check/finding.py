"""What a check has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from k8s.check.subject import Subject


@dataclass(frozen=True)
class Finding:
    """A mistake: which check found it, where, what it is, and what to do."""

    check: str
    where: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.check}: {self.where}: {self.problem}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


Mistake: TypeAlias = tuple[str, str] | tuple[str, str, str]
"""A finding of a lint: where, what it is, and what to do."""
Lint: TypeAlias = Callable[[Subject], Iterable[Mistake]]
"""Looks at what is applied together; it may rely on what schemas guarantee."""
