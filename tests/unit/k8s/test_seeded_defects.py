"""Mistakes that are made in manifests, and what finds each; changes that are no mistakes.

An error surely breaks Oka, or is refused; all else is a note. k8s/checks.md has these tables: it is
compared here, so that it cannot go out of date.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import ConfigError
from k8s.check.finding import RELATIONS, Finding
from k8s.check.programs import dockerfile
from k8s.check.report import check, check_folder, lints
from k8s.manifests import FOLDER, Document, build
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


def subject_of(defect: Defect, folder: Path) -> Subject | list[Finding]:
    """The overlay with the defect, or what is found where there is none."""
    copy = copied(folder, defect)
    try:
        subject = Subject.of_overlay(copy / "overlays" / defect.overlay)
    except ConfigError as error:
        return [Finding("kustomization.yaml", error.message, "", "kustomize")]
    return dockerfile(folder / "Dockerfile") if defect.file == IMAGE else subject


@pytest.fixture(scope="module")
def overlays() -> dict[str, list[Document]]:
    """The documents of each overlay."""
    return {each: build(each) for each in {tried.overlay for tried in MISTAKES + CHANGES}}


@pytest.fixture(scope="module")
def findings(
    request: pytest.FixtureRequest,
    overlays: dict[str, list[Document]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[Finding]]:
    """What is found in each mistake and change that runs. Tools look at all in one run."""
    cells = [each.callspec for each in request.session.items if hasattr(each, "callspec")]
    values = [each for cell in cells for each in cell.params.values()]
    run = {each.what for each in values if isinstance(each, (Defect, Tried))}
    defects = [each for each in DEFECTS if each.what in run]
    folders = [tmp_path_factory.mktemp("seeded") for _ in defects]  # which is for one thread
    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(subject_of, defects, folders))
    tried = [each for each in MISTAKES + CHANGES if each.what in run]
    subjects = {each.what: each.subject(overlays[each.overlay]) for each in tried}
    found = {}
    for defect, subject in zip(defects, made, strict=True):
        if isinstance(subject, list):
            found[defect.what] = subject
        else:
            subjects[defect.what] = subject
    return found | dict(zip(subjects, check(list(subjects.values())), strict=True))


@pytest.mark.table(6)
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


@pytest.mark.table(6)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.what)
def test_a_change_that_is_none_is_not_refused(
    change: Tried, findings: dict[str, list[Finding]]
) -> None:
    errors = [str(each) for each in findings[change.what] if not each.is_note]
    assert errors == []
    if change.says == NOTHING:
        assert list(map(str, findings[change.what])) == []


@pytest.fixture(scope="module")
def linted(
    overlays: dict[str, list[Document]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Defect | Tried], list[Finding]]:
    """What our own lints find in a mistake: no schemas, which take longest."""

    known: dict[str, list[Finding]] = {}

    def found(mistake: Defect | Tried) -> list[Finding]:
        if mistake.what not in known:
            if isinstance(mistake, Tried):
                subject = mistake.subject(overlays[mistake.overlay])
            else:
                subject = subject_of(mistake, tmp_path_factory.mktemp("linted"))
            known[mistake.what] = subject if isinstance(subject, list) else [*lints(subject)]
        return known[mistake.what]

    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", RELATIONS)
def test_a_relation_is_said_to_be_broken(
    row: str, linted: Callable[[Defect | Tried], list[Finding]]
) -> None:
    check, said = RELATIONS[row]
    words = re.compile(re.sub(r"\\{.*?\\}", ".*", re.escape(said["told"])))
    mistakes = sorted(MISTAKES + DEFECTS, key=lambda mistake: mistake.by != check)
    assert any(
        each.check == check and words.fullmatch(each.problem)
        for mistake in mistakes
        for each in linted(mistake)
    )


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
