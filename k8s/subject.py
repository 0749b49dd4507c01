"""What is checked: documents that are applied together, and what they refer to elsewhere."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from engine.config import JobConfig
from engine.errors import ConfigError, EngineError
from engine.job import Plan
from k8s.jobs import Job, jobs
from k8s.manifests import FOLDER, Cluster, Document, Pod, built, clusters, load, of_kind, pods


@dataclass(frozen=True)
class Subject:
    """An overlay, or a file of documents.

    `folder` is like `k8s`: it has `eks/cluster.yaml`, and the Dockerfile beside it. The nodes of an
    overlay are those that `eks/cluster.yaml` makes; for a file they may be as many as it allows.
    """

    name: str
    text: str
    folder: Path = FOLDER
    scaled: bool = False

    @staticmethod
    def of_file(path: str) -> Subject:
        """Documents that were rendered, `-` for those on stdin; raises ConfigError."""
        try:
            with click.open_file(path, encoding="utf-8") as file:
                return Subject(path, file.read(), scaled=True)
        except (OSError, UnicodeError, AttributeError) as error:
            said = error if sys.stdin else "stdin is closed"
            raise ConfigError(f"{path} cannot be read, expected manifests: {said}") from error

    @staticmethod
    def of_overlay(overlay: Path) -> Subject:
        """What kustomize makes of a folder; raises ConfigError if it refuses."""
        above = overlay.resolve().parent.parent
        folder = above if (above / "eks" / "cluster.yaml").is_file() else FOLDER
        return Subject(overlay.name, built(overlay), folder)

    @cached_property
    def documents(self) -> list[Document]:
        """All of them."""
        return load(self.text)

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The Ray clusters, those of jobs included."""
        return clusters(self.documents)

    @cached_property
    def pods(self) -> list[Pod]:
        """What KubeRay would make."""
        return list(pods(self.documents))

    @cached_property
    def on_eks(self) -> bool:
        """Whether Ray pods have a node each, of those that eksctl makes."""
        return not all(node_of(cluster.document) for cluster in self.clusters)

    @cached_property
    def plans(self) -> list[tuple[Job, Plan | EngineError]]:
        """Jobs that run Oka, each with its plan, or with why it has none."""
        return [(job, _plan(job)) for job in jobs(self.documents)]

    @cached_property
    def configs(self) -> list[tuple[Job, JobConfig]]:
        """Jobs with a cluster and settings that can be read; their pipeline may be elsewhere."""
        own = [id(cluster.document) for cluster in self.clusters]
        found = [(job, _config(job)) for job in jobs(self.documents) if id(job.document) in own]
        return [(job, config) for job, config in found if config is not None]

    @property
    def pod_security(self) -> str:
        """The standard that the namespace enforces; nothing if none is here."""
        label = "pod-security.kubernetes.io/enforce"
        found = [
            each["metadata"].get("labels", {}) for each in of_kind(self.documents, "Namespace")
        ]
        return next((each[label] for each in found if label in each), "")

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The groups of nodes that eksctl makes."""
        return [*self.eks.get("managedNodeGroups", []), *self.eks.get("nodeGroups", [])]

    @cached_property
    def eks(self) -> Document:
        """The ClusterConfig of eksctl."""
        (found,) = load(self.eks_text)
        return found

    @cached_property
    def eks_text(self) -> str:
        """The same, as it is written."""
        return (self.folder / "eks" / "cluster.yaml").read_text(encoding="utf-8")

    @cached_property
    def image(self) -> dict[str, str]:
        """Instructions of the Dockerfile's last stage, such as WORKDIR; {} without a Dockerfile."""
        path = self.folder.parent / "Dockerfile"
        if not path.is_file():
            return {}
        stage = path.read_text(encoding="utf-8").rpartition("\nFROM ")[2]
        return dict(re.findall(r"^([A-Z]+) +(.+)$", stage, re.MULTILINE))


def node_of(document: Document) -> str | None:
    """What the node has that all pods of a RayCluster or RayJob share; None if they do not."""
    found: str | None = document["metadata"].get("annotations", {}).get(NODE)
    return found


def _plan(job: Job) -> Plan | EngineError:
    try:
        return job.plan()
    except EngineError as error:
        return error


def _config(job: Job) -> JobConfig | None:
    try:
        return job.config()
    except EngineError:  # of which `tasks` tells
        return None


NODE = "oka.dev/node"
"""Annotation of a RayCluster or RayJob whose pods share one node: what that node has."""
