"""All checks, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.errors import ConfigError
from k8s.check import iam, network, nodes, pods, references, serving, tasks
from k8s.check.finding import Finding, Lint
from k8s.check.programs import dockerfile, eksctl_text, schemas
from k8s.manifests import dump, overlays
from k8s.subject import Subject


def check_folder(folder: Path) -> list[Finding]:
    """What is wrong in a folder like `k8s`: overlays, eksctl's cluster, the Dockerfile beside."""
    image = folder.parent / "Dockerfile"
    found = check([Subject.of_overlay(overlay) for overlay in overlays(folder)])
    said = dockerfile(image) if image.is_file() else []
    return sum(found, [replace(each, check="hadolint") for each in said])


def check(subjects: Sequence[Subject]) -> list[list[Finding]]:
    """What is wrong in each, and in the cluster of eksctl that it is for."""
    found = schemas([f"{each.text}\n---\n{eksctl_text(each.eks_text)}" for each in subjects])
    # Kubernetes sees pods only when KubeRay makes them.
    made = [
        subject.pods if all(each.level for each in said) else ()
        for subject, said in zip(subjects, found, strict=True)
    ]
    of_pods = schemas([dump([pod.document for pod in each]) for each in made])
    return [
        _all(subject, [*of_schema, *of_pod])
        for subject, of_schema, of_pod in zip(subjects, found, of_pods, strict=True)
    ]


def _all(subject: Subject, found: list[Finding]) -> list[Finding]:
    """What schemas have found and the lints find, in the words of this subject, once."""
    is_whole = all(each.level for each in found)
    said = [*found, *_lint(subject, is_whole)]
    enforced = ""
    with suppress(*_UNREADABLE, ConfigError):
        enforced = subject.pod_security
    errors = {"", enforced, *(["baseline"] if enforced == "restricted" else [])}
    return [
        replace(
            each,
            where=f"{subject.name} {each.where}",
            level="" if each.level in errors else "note",
        )
        for each in dict.fromkeys(said)
    ]


def _lint(subject: Subject, is_whole: bool) -> list[Finding]:
    """What the lints say; where schemas refuse something, one may find what it cannot read."""
    found: list[Finding] = []
    try:
        if not subject.documents:
            found = [Finding("as a whole", "has no document, expected manifests", "", "schema")]
        for check, lint in LINTS if subject.documents else ():
            with suppress(*(() if is_whole else _UNREADABLE)):
                found += [replace(each, check=check) for each in lint(subject)]
    except ConfigError:
        if is_whole:
            raise
    return found


_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, IndexError)
LINTS: tuple[tuple[str, Lint], ...] = tuple(
        (lint.__name__.replace("_", "-"), lint)
        for lint in (
            iam.role, network.policies, network.ports, nodes.nodes,
            nodes.quotas, pods.disk, pods.image, pods.memory, pods.pod_security, pods.ray_options,
            references.references,
            references.selectors, serving.metrics, serving.services, serving.serving,
            tasks.budgets, tasks.checkpoints, tasks.tasks,
        )
)  # fmt: skip
