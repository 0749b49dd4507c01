"""All checks and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.errors import ConfigError
from k8s.check import iam, network, nodes, pods, references, serving, tasks
from k8s.check.finding import Finding
from k8s.check.programs import dockerfile, eksctl_text, schemas
from k8s.manifests import dump, overlays
from k8s.subject import Subject


def check_folder(folder: Path) -> list[Finding]:
    """The findings in a folder like `k8s`: overlays, eksctl's cluster, the Dockerfile beside it."""
    image = folder.parent / "Dockerfile"
    found = check([Subject.of_overlay(overlay) for overlay in overlays(folder)])
    return sum(found, dockerfile(image) if image.is_file() else [])


def check(subjects: Sequence[Subject]) -> list[list[Finding]]:
    """The findings in each subject, and in its eksctl cluster."""
    found = schemas([f"{each.text}\n---\n{eksctl_text(each.eks_text)}" for each in subjects])
    pairs = list(zip(subjects, found, strict=True))
    # Kubernetes gets pods only when KubeRay makes them.
    made = [subject.pods if _is_whole(said) else () for subject, said in pairs]
    of_pods = schemas([dump([pod.document for pod in each]) for each in made])
    return [_all(*pair, said) for pair, said in zip(pairs, of_pods, strict=True)]


def lints(subject: Subject, unreadable: Sequence[type[Exception]] = ()) -> Iterator[Finding]:
    """What Oka's own rules find. One of them ends without a word where it raises `unreadable`."""
    for lint in LINTS:
        with suppress(*unreadable):
            yield from lint(subject)


def _is_whole(found: Sequence[Finding]) -> bool:
    """Whether schemas find no error."""
    return all(each.level for each in found)


def _all(subject: Subject, found: list[Finding], of_pods: list[Finding]) -> list[Finding]:
    """The findings of schemas and lints, by the names of this subject, without duplicates."""
    found = [*found, *of_pods]
    found += lints(subject, () if _is_whole(found) else _UNREADABLE)
    enforced = ""
    with suppress(ConfigError):
        enforced = subject.pod_security
    errors = {"", enforced, *(["baseline"] if enforced == "restricted" else [])}
    return [
        replace(each, where=f"{subject.name} {each.where}", level=level)
        for each in dict.fromkeys(found)
        for level in ["" if each.level in errors else "note"]
    ]


def _is_empty(subject: Subject) -> Iterator[Finding]:
    if not subject.documents:
        yield Finding("as a whole", "has no document, expected manifests", "", "schema")


_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, IndexError, ConfigError)
"""Errors of a lint that cannot read a document that schemas refuse."""
LINTS: tuple[Callable[[Subject], Iterable[Finding]], ...] = (
    _is_empty, iam.role, network.policies, network.ports, nodes.nodes, nodes.quotas,
    pods.image, pods.memory, references.references, references.selectors,
    serving.metrics, serving.serving, tasks.budgets, tasks.checkpoints, tasks.tasks,
)  # fmt: skip
