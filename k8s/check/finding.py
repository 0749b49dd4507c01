"""Findings of checks."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from k8s.manifests import FOLDER


@dataclass(frozen=True)
class Finding:
    """A finding: its place, the problem, a hint, and the check that found it.

     An error surely breaks Oka, or is refused by Kubernetes, KubeRay or eksctl. Everything else is
    a note, such as a problem that may be intended, or that depends on the cluster.
    """

    where: str
    problem: str
    hint: str = ""
    check: str = ""
    level: str = ""
    """`note`, or empty for an error; `baseline` or `restricted`: an error if that is enforced."""

    def __str__(self) -> str:
        kind = "note: " if self.is_note else ""
        text = f"{kind}{self.check}: {self.where}: {self.problem}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    @property
    def is_note(self) -> bool:
        """Whether it is no error."""
        return self.level == "note"


def say(row: str, where: str, is_note: bool = False, **told: object) -> Finding:
    """The finding that a relation of `schemas/relations.yaml` does not hold there.

    It is always a note if a missing document may fix it.
    """
    check, said = RELATIONS[row]
    level = "note" if is_note or said["is"] == "note" else ""
    hint = said.get("hint", "").format(**told)
    return Finding(where, said["told"].format(**told), hint, check, level)


_CHECKS = yaml.safe_load((FOLDER / "schemas" / "relations.yaml").read_text(encoding="utf-8"))
RELATIONS: dict[str, tuple[str, dict[str, str]]] = {
    row: (check, said) for check, rows in _CHECKS.items() for row, said in rows.items()
}
"""The rows of the table, each with its check."""
