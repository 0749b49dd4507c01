"""What a check has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Finding:
    """A mistake: which check found it, where, what it is, and what to do."""

    check: str
    where: str
    problem: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.check}: {self.where}: {self.problem}"
        return text if self.hint is None else f"{text}\n  hint: {self.hint}"


Lint: TypeAlias = Callable[[Sequence[dict[str, Any]]], Iterable[Finding]]
"""Looks at all documents of an overlay."""
