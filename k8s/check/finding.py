"""What a check has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from k8s.subject import Subject


@dataclass(frozen=True)
class Finding:
    """What is wrong: where, what it is, what to do, and which check found it.

    An error surely breaks Oka, or is refused by Kubernetes, KubeRay or eksctl. All else is a note,
    such as what is only wrong if it was not meant, or depends on what is in the cluster.
    """

    where: str
    problem: str
    hint: str = ""
    check: str = ""
    level: str = ""
    """`note`, an error if empty; `baseline` or `restricted` is one where that is enforced."""

    def __str__(self) -> str:
        kind = "note: " if self.is_note else ""
        text = f"{kind}{self.check}: {self.where}: {self.problem}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    @property
    def is_note(self) -> bool:
        """Whether it refuses nothing."""
        return self.level == "note"


def note(where: str, problem: str, hint: str = "") -> Finding:
    """What is told, and refuses nothing."""
    return Finding(where, problem, hint, level="note")


def either(is_note: bool, where: str, problem: str, hint: str = "") -> Finding:
    """A note, or an error."""
    return Finding(where, problem, hint, level="note" if is_note else "")


Lint: TypeAlias = Callable[[Subject], Iterable[Finding]]
"""Looks at what is applied together; it may rely on what schemas guarantee."""
