"""Mistakes that are made in manifests, and what finds each; changes that are no mistakes.

An error surely breaks Oka, or is refused; all else is a note. k8s/checks.md has these tables: it is
compared here, so that it cannot go out of date.
"""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import ConfigError
from k8s.check.finding import RELATIONS, Finding
from k8s.check.programs import dockerfile
from k8s.check.report import check, check_folder
from k8s.manifests import FOLDER, build
from k8s.subject import Subject
from tests.unit.k8s.defects import DEFECTS, IMAGE, Defect
from tests.unit.k8s.tried import CHANGES, MISTAKES, NOTE, NOTHING, Tried

TABLE = FOLDER / "checks.md"


def copied(folder: Path, defect: Defect | None = None) -> Path:
    """A copy of the manifests with the Dockerfile beside, and the defect in it."""
    copy = folder / "k8s"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.py", "schemas", "__pycache__"))
    shutil.copy(FOLDER.parent / "Dockerfile", folder)
    if defect is not None:
        path = copy / defect.file
        text = path.read_text(encoding="utf-8")
        assert defect.old in text, defect.what
        path.write_text(text.replace(defect.old, defect.new, 1), encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Finding]]:
    """What is found in each. Tools look at all in one run."""
    overlays = {each: build(each) for each in {tried.overlay for tried in MISTAKES + CHANGES}}

    def built(defect: Defect, folder: Path) -> Subject | str:
        copy = copied(folder, defect)
        try:
            return Subject.of_overlay(copy / "overlays" / defect.overlay)
        except ConfigError as error:
            return error.message

    folders = [tmp_path_factory.mktemp("seeded") for _ in DEFECTS]  # which is for one thread
    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(built, DEFECTS, folders))
    subjects = {each.what: each.subject(overlays[each.overlay]) for each in MISTAKES + CHANGES}
    found = {}
    for defect, subject in zip(DEFECTS, made, strict=True):
        if isinstance(subject, str):
            found[defect.what] = [Finding("kustomization.yaml", subject, "", "kustomize")]
        elif defect.file == IMAGE:
            said = dockerfile(subject.folder.parent / "Dockerfile")
            found[defect.what] = said
        else:
            subjects[defect.what] = subject
    return found | dict(zip(subjects, check(list(subjects.values())), strict=True))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mistake", DEFECTS + MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_found(mistake: Defect | Tried, findings: dict[str, list[Finding]]) -> None:
    found = [each for each in findings[mistake.what] if each.check == mistake.by]
    if not mistake.by:
        assert findings[mistake.what] == []
        return
    said = [each for each in found if mistake.message in str(each)]
    assert said, list(map(str, findings[mistake.what]))
    assert all(each.is_note for each in said) == (mistake.says == NOTE)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.what)
def test_a_change_that_is_none_is_not_refused(
    change: Tried, findings: dict[str, list[Finding]]
) -> None:
    errors = [str(each) for each in findings[change.what] if not each.is_note]
    assert errors == []
    if change.says == NOTHING:
        assert list(map(str, findings[change.what])) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", RELATIONS)
def test_a_relation_is_said_to_be_broken(row: str, findings: dict[str, list[Finding]]) -> None:
    check, said = RELATIONS[row]
    words = re.compile(re.sub(r"\\{.*?\\}", ".*", re.escape(said["told"])))
    found = [each for those in findings.values() for each in those if each.check == check]
    assert [each for each in found if words.fullmatch(each.problem)]


def test_the_table_of_the_readme_lists_them() -> None:
    rows = [
        f"| {each.what} | {told(each.by)} | {each.says or '-'} |" for each in DEFECTS + MISTAKES
    ]
    rows += ["", CHANGES_HEAD, *(f"- {each.what}" for each in CHANGES)]
    assert TABLE.read_text(encoding="utf-8") == HEAD + "\n".join(rows) + "\n"


def told(by: str) -> str:
    tools = {"": "none: only a cluster knows", "schema": "schema (kubectl-validate)"}
    tools |= {tool: tool for tool in ("kustomize", "hadolint")}
    return tools.get(by, f"`{by}`")


def test_every_overlay_of_a_folder_is_checked(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    for name, file, old, new in (
        ("staging", "settings/word-count.yaml", "parallelism: 12", "parallelism: 40"),
        ("mine", "egress-to-aws.yaml", "192.168.0.0/16\n", "192.168.0.0/160\n"),
    ):
        overlay = copy / "overlays" / name
        shutil.copytree(copy / "overlays" / "eks", overlay)
        text = (overlay / file).read_text(encoding="utf-8")
        assert old in text
        (overlay / file).write_text(text.replace(old, new), encoding="utf-8")
    errors = [each for each in check_folder(copy) if not each.is_note]
    assert {(each.where.split()[0], each.check) for each in errors} == {
        ("staging", "tasks"),
        ("mine", "schema"),
    }


HEAD = """# What the check finds

`oka k8s check` says `error`, and exits with 1, of what surely breaks Oka, or what Kubernetes, KubeRay or eksctl refuses.
Of all else that may be a mistake it says `note`, and exits with 0. Each of these has been tried
(`tests/unit/k8s/test_seeded_defects.py`); `schema` is what `schemas/` says, which has KubeRay's own rules.

| mistake | found by | says |
|---|---|---|
"""
CHANGES_HEAD = """These are no mistakes, and are not refused:
"""
