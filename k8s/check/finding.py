"""What a check has to say."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from k8s.manifests import FOLDER


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


def say(row: str, where: str, is_note: bool = False, **told: object) -> Finding:
    """That what a row of `schemas/relations.yaml` relates does not agree there.

    It is a note in any case where something that is not here may mend it.
    """
    check, said = RELATIONS[row]
    level = "note" if is_note or said["is"] == "note" else ""
    hint = said.get("hint", "").format(**told)
    return Finding(where, said["told"].format(**told), hint, check, level)


_CHECKS = yaml.safe_load((FOLDER / "schemas" / "relations.yaml").read_text(encoding="utf-8"))
RELATIONS: dict[str, tuple[str, dict[str, str]]] = {
    row: (check, said) for check, rows in _CHECKS.items() for row, said in rows.items()
}
"""The rows of the table, each with the check that it belongs to."""
