"""Places in the manifests that a test breaks: of the cluster that stays, unless it says another."""

from __future__ import annotations

from typing import Any, TypeAlias

Documents: TypeAlias = list[dict[str, Any]]


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
