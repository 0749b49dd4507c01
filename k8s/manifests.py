"""Manifests as data: documents, the Ray clusters in them, and the pods of those."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from engine.errors import ConfigError
from engine.placement import Node
from k8s.quantity import parse

Document = dict[str, Any]

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Group:
    """Ray pods that are alike: the head, or one group of workers."""

    owner: str
    name: str
    replicas: int
    spec: Mapping[str, Any]

    @property
    def where(self) -> str:
        """What messages call it."""
        return f"{self.owner} group {self.name}"

    @property
    def parameters(self) -> Mapping[str, str]:
        """Options of `ray start`."""
        return self.spec.get("rayStartParams") or {}

    @property
    def pod(self) -> Mapping[str, Any]:
        """The specification of its pods."""
        pod: Mapping[str, Any] = self.spec["template"]["spec"]
        return pod

    @property
    def container(self) -> Mapping[str, Any]:
        """The container that Ray runs in: the first one, as for KubeRay."""
        container: Mapping[str, Any] = self.pod["containers"][0]
        return container

    @property
    def ray_resources(self) -> dict[str, float]:
        """What Ray would say that a pod of it has, in Oka's names: `{"cpus": 4, …}`.

        KubeRay skips a resource that is no quantity, and so does this.
        """
        parameters = self.parameters
        limits = self.container.get("resources", {}).get("limits", {})
        found: dict[str, Any] = {"CPU": parameters.get("num-cpus", limits.get("cpu", 0))}
        if "resources" in parameters:
            found |= json.loads(parameters["resources"].strip("'\"` ").replace('\\"', '"'))
        found |= self.spec.get("resources") or {}
        resources = {}
        for name, amount in found.items():
            try:
                resources["cpus" if name.lower() == "cpu" else name] = float(parse(amount))
            except ValueError:
                continue
        return resources


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster: one of its own, or that of a RayJob."""

    owner: str
    document: Document
    spec: Mapping[str, Any]

    @property
    def groups(self) -> list[Group]:
        """The head, then the workers."""
        head = Group(self.owner, "head", 1, self.spec["headGroupSpec"])
        return [
            head,
            *(
                Group(self.owner, group["groupName"], group.get("replicas", 0), group)
                for group in self.spec.get("workerGroupSpecs", [])
            ),
        ]

    def nodes(self) -> list[Node]:
        """Its pods as the nodes that Oka would place tasks on."""
        return [
            Node(f"{group.name}-{number}", "", group.ray_resources)
            for group in self.groups
            for number in range(group.replicas)
        ]


def clusters(documents: Sequence[Document]) -> list[Cluster]:
    """All Ray clusters of the documents."""
    found = []
    for document in documents:
        spec = document.get("spec", {})
        if document["kind"] == "RayCluster":
            found.append(Cluster(name(document), document, spec))
        elif document["kind"] == "RayJob" and spec.get("rayClusterSpec"):
            found.append(Cluster(name(document), document, spec["rayClusterSpec"]))
    return found


def pods(documents: Sequence[Document]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every pod template: what messages call it, and `{"metadata": …, "spec": …}`."""
    for cluster in clusters(documents):
        for group in cluster.groups:
            yield group.where, group.spec["template"]
    for document in of_kind(documents, "RayJob"):
        if "submitterPodTemplate" in document["spec"]:
            yield f"{name(document)} submitter", document["spec"]["submitterPodTemplate"]


def of_kind(documents: Sequence[Document], kind: str) -> list[Document]:
    """The documents of a kind."""
    return [document for document in documents if document["kind"] == kind]


def name(document: Document) -> str:
    """`Kind/name`, as kubectl prints it."""
    return f"{document['kind']}/{document['metadata']['name']}"


def component(document: Document) -> str | None:
    """Which job the document belongs to, or "cluster"; None if all share it."""
    label: str | None = document["metadata"].get("labels", {}).get("app.kubernetes.io/component")
    return label


def load(text: str) -> list[Document]:
    """The documents of a YAML stream."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def dump(documents: Sequence[Document]) -> str:
    """The documents as a YAML stream."""
    return yaml.dump_all(documents, Dumper=_WithoutAliases, sort_keys=False, width=100)


def build(overlay: str | Path) -> list[Document]:
    """What kustomize makes of an overlay: a folder, or the name of one in `k8s/overlays`.

    Raises ConfigError if the folder is not there, kustomize is not, or refuses it.
    """
    folder = Path(overlay)
    if not (folder / "kustomization.yaml").is_file():
        folder = FOLDER / "overlays" / overlay
    if not (folder / "kustomization.yaml").is_file():
        known = sorted(path.name for path in (FOLDER / "overlays").iterdir())
        raise ConfigError(
            f"overlay is {str(overlay)!r}, expected a folder with a kustomization.yaml",
            f"the overlays here are {', '.join(known)}",
        )
    result = subprocess.run(
        [*kustomize(), str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    if result.returncode:
        raise ConfigError(f"kustomize refuses {folder}: {result.stderr.strip()}")
    return load(result.stdout)


def kustomize() -> list[str]:
    """The command that builds an overlay; raises ConfigError if there is none."""
    own = FOLDER.parent / ".k8s" / "bin" / "kustomize"
    if kubectl := shutil.which("kubectl"):
        return [kubectl, "kustomize"]
    if found := shutil.which("kustomize") or (str(own) if own.exists() else None):
        return [found, "build"]
    raise ConfigError(
        "neither kubectl nor kustomize is installed",
        "install kubectl, which applies the manifests, too; or `make k8s-tools` in the repository",
    )


class _WithoutAliases(yaml.CSafeDumper):
    """Writes everything out: people read this, and patch it."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as PyYAML calls it
        """No aliases."""
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_WithoutAliases.add_representer(str, _text)
