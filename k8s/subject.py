"""The subject of a check: documents that are applied together, and files they refer to."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click

from engine.config import JobConfig
from engine.errors import ConfigError, EngineError
from engine.plan import Plan
from k8s import manifests
from k8s.jobs import jobs
from k8s.manifests import FOLDER, Cluster, Document, Pod, built, load, walk

T = TypeVar("T")


@dataclass(frozen=True)
class Subject:
    """An overlay, or a file of documents.

    `folder` is like `k8s`: it has `eks/cluster.yaml`, and the Dockerfile beside it. An overlay has
    the nodes that `eks/cluster.yaml` makes; a file may use as many as it allows.
    """

    name: str
    text: str
    folder: Path = FOLDER
    scaled: bool = False

    @staticmethod
    def of_file(path: str) -> Subject:
        """Rendered documents, `-` for those on stdin. Raises ConfigError if they cannot be read."""
        try:
            with click.open_file(path, encoding="utf-8") as file:
                return Subject(path, file.read(), scaled=True)
        except (OSError, UnicodeError, AttributeError) as error:
            said = error if sys.stdin else "stdin is closed"
            raise ConfigError(f"{path} cannot be read, expected manifests: {said}") from error

    @staticmethod
    def of_overlay(overlay: Path) -> Subject:
        """The documents that kustomize builds from a folder. Raises ConfigError if it refuses."""
        above = overlay.resolve().parent.parent
        folder = above if (above / "eks" / "cluster.yaml").is_file() else FOLDER
        return Subject(overlay.name, built(overlay), folder)

    @cached_property
    def documents(self) -> list[Document]:
        """All documents."""
        return load(self.text)

    def of_kind(self, *kinds: str) -> list[Document]:
        """The documents of a kind, or of several."""
        return manifests.of_kind(self.documents, *kinds)

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The Ray clusters, those of jobs included."""
        return manifests.clusters(self.documents)

    @cached_property
    def pods(self) -> list[Pod]:
        """The pods that KubeRay would make, and those that serve."""
        return list(manifests.pods(self.documents))

    @cached_property
    def plans(self) -> dict[int, Plan | EngineError]:
        """The plan of each RayJob that runs Oka, by its id, or the reason why there is none."""
        return {id(job.document): _tried(job.plan) for job in jobs(self.documents)}

    @cached_property
    def settled(self) -> list[tuple[Cluster, JobConfig]]:
        """Jobs with a cluster and settings that can be read; their pipeline may be elsewhere."""
        configs = {id(job.document): _tried(job.config) for job in jobs(self.documents)}
        found = [(each, configs.get(id(each.document))) for each in self.clusters]
        return [(each, config) for each, config in found if isinstance(config, JobConfig)]

    @property
    def pod_security(self) -> str:
        """The standard that the namespace enforces; empty if it is not among the documents."""
        label = "pod-security.kubernetes.io/enforce"
        return next((str(each) for key, each in walk(self.documents) if key == label), "")

    @property
    def node_groups(self) -> list[dict[str, Any]]:
        """The groups of nodes that eksctl makes."""
        return [*self.eks.get("managedNodeGroups", []), *self.eks.get("nodeGroups", [])]

    @cached_property
    def eks(self) -> Document:
        """The ClusterConfig of eksctl."""
        return load(self.eks_text)[0]

    @cached_property
    def eks_text(self) -> str:
        """Its text."""
        return (self.folder / "eks" / "cluster.yaml").read_text(encoding="utf-8")

    @cached_property
    def image(self) -> dict[str, str]:
        """Instructions of the Dockerfile's last stage, such as WORKDIR; {} without a Dockerfile."""
        path = self.folder.parent / "Dockerfile"
        if not path.is_file():
            return {}
        stage = path.read_text(encoding="utf-8").rpartition("\nFROM ")[2]
        return dict(re.findall(r"^([A-Z]+) +(.+)$", stage, re.MULTILINE))


def _tried(read: Callable[[], T]) -> T | EngineError:
    try:
        return read()
    except EngineError as error:
        return error
