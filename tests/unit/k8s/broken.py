"""Places in the manifests that a test breaks: of the cluster that stays, unless it says another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from k8s.check.finding import Lint

Documents: TypeAlias = list[dict[str, Any]]


def assert_found(
    documents: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    """The lint has nothing to say of the documents, and this message once they are broken."""
    before = list(lint(documents))
    assert not before, before
    break_it(documents)
    found = list(lint(documents))
    assert any(message in str(finding) for finding in found), found


def document(documents: Documents, kind: str, name: str = "oka") -> dict[str, Any]:
    """The document of this kind and name."""
    return next(
        each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )


def cluster(documents: Documents) -> dict[str, Any]:
    """What is said of the cluster that stays."""
    spec: dict[str, Any] = document(documents, "RayCluster")["spec"]
    return spec


def group(documents: Documents, name: str = "operators") -> dict[str, Any]:
    """A group of its workers, or the head."""
    spec = cluster(documents)
    if name == "head":
        head: dict[str, Any] = spec["headGroupSpec"]
        return head
    return next(each for each in spec["workerGroupSpecs"] if each["groupName"] == name)


def pod(documents: Documents, name: str = "operators") -> dict[str, Any]:
    """The pods of a group."""
    spec: dict[str, Any] = group(documents, name)["template"]["spec"]
    return spec


def container(documents: Documents, name: str = "operators") -> dict[str, Any]:
    """The container of a group's pods."""
    found: dict[str, Any] = pod(documents, name)["containers"][0]
    return found


def settings(documents: Documents, old: str, new: str) -> None:
    """Replace a part of the settings of the word count's job."""
    data = document(documents, "ConfigMap", "oka-jobs")["data"]
    assert old in data["word-count.yaml"]
    data["word-count.yaml"] = data["word-count.yaml"].replace(old, new)
