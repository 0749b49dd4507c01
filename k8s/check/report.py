"""All checks, and what they say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from k8s.check import expected, groups, network, nodes, pods, serving, tasks
from k8s.check.finding import Finding, Lint
from k8s.check.programs import dockerfile, eksctl_text, schemas, score
from k8s.check.subject import Subject
from k8s.manifests import dump, overlays


def check_folder(folder: Path) -> list[Finding]:
    """What is wrong in a folder like `k8s`: overlays, eksctl's cluster, the Dockerfile beside."""
    image = folder.parent / "Dockerfile"
    found = check([Subject.of_overlay(overlay) for overlay in overlays(folder)])
    return sum(found, dockerfile(image) if image.is_file() else [])


def check(subjects: Sequence[Subject]) -> list[list[Finding]]:
    """What is wrong in each, and in the cluster of eksctl that it is for.

    Each layer looks only at what the one before lets through, and relies on it.
    """
    found = schemas([f"{each.text}\n---\n{eksctl_text(each.eks_text)}" for each in subjects])
    # Kubernetes sees pods only when KubeRay makes them.
    made = [() if each else subjects[n].pods for n, each in enumerate(found)]
    of_pods = schemas([dump([pod.document for pod in each]) for each in made])
    found = [a or b for a, b in zip(found, of_pods, strict=True)]
    found = [each or _lint(subject) for each, subject in zip(found, subjects, strict=True)]
    return [
        [replace(each, where=f"{subject.name} {each.where}") for each in of_subject]
        for of_subject, subject in zip(found, subjects, strict=True)
    ]


def tell(findings: Sequence[Finding], checked: Sequence[str]) -> None:
    """Print the findings and exit with 1, or say that there are none."""
    for finding in findings:
        click.echo(str(finding), err=True)
    if findings:
        mistakes = "1 mistake" if len(findings) == 1 else f"{len(findings)} mistakes"
        click.echo(f"{mistakes} in {', '.join(checked)}", err=True)
        sys.exit(1)
    click.echo(f"no mistakes in {', '.join(checked)}")


def _lint(subject: Subject) -> list[Finding]:
    if not subject.documents:
        return [Finding("schema", "as a whole", "has no document, expected manifests")]
    mistakes = ((check, said) for check, each in LINTS for said in each(subject))
    return [*score(subject), *(Finding(check, *said) for check, said in mistakes)]


LINTS: tuple[tuple[str, Lint], ...] = (
    *expected.lints().items(),
    *(
        (lint.__name__.replace("_", "-"), lint)
        for lint in (
            groups.fixed_size, groups.names, groups.one_per_node, groups.ray_options,
            network.monitors, network.policies, network.ports, nodes.eks, nodes.nodes,
            pods.disk, pods.drain, pods.image, pods.memory, pods.ray_version,
            pods.references, serving.services, serving.serving, tasks.budgets, tasks.tasks,
        )
    ),
)  # fmt: skip
