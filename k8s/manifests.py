"""Manifests as data: documents, the Ray clusters in them, and the pods of those."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from engine.errors import ConfigError
from engine.placement.nodes import Node
from k8s.quantity import parse
from k8s.tools import kustomize

Document = dict[str, Any]

FOLDER = Path(__file__).parent
_SERVING = ("Deployment", "StatefulSet")
_PASSING = frozenset({"emptyDir", "configMap", "secret", "downwardAPI", "ephemeral"})
"""Kinds of volumes that go with their pod."""
NODE = "oka.dev/node"
"""Annotation of a RayCluster or RayJob whose pods share one node: what that node has."""
COMPONENT = "app.kubernetes.io/component"
"""The label that says which job an object belongs to."""


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
        return spec(self.spec["template"])

    @property
    def container(self) -> Mapping[str, Any]:
        """The container that Ray runs in: the first one, as for KubeRay."""
        return next(iter(self.pod.get("containers", ())), {})

    @property
    def ray_resources(self) -> dict[str, float]:
        """What Ray would say that a pod of it has, in Oka's names: `{"cpus": 4, …}`.

        KubeRay skips a resource that is no quantity, and so does this.
        """
        parameters = self.parameters
        limits = self.container.get("resources", {}).get("limits", {})
        found: dict[str, Any] = {"CPU": parameters.get("num-cpus", limits.get("cpu", 0))}
        found |= self.spec.get("resources") or {}
        resources = {}
        for name, amount in found.items():
            try:
                resources[_OKAS.get(name.lower(), name)] = float(parse(amount))
            except ValueError:
                continue
        return resources

    def keeps(self, path: str) -> bool:
        """Whether files there outlive the pods: their volume is not removed with them."""
        volumes = {each["name"]: each.keys() for each in self.pod.get("volumes", ())}
        return any(
            not _PASSING & volumes.get(mount["name"], _PASSING)
            and not mount.get("readOnly")
            and PurePosixPath(path).is_relative_to(mount["mountPath"])
            for mount in self.container.get("volumeMounts", ())
        )


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster: a RayCluster, or the cluster of a RayJob."""

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
        """Its pods as the nodes on which Oka would place tasks."""
        return [
            Node(f"{group.name}-{number}", "", group.ray_resources)
            for group in self.groups
            for number in range(group.replicas)
        ]


@dataclass(frozen=True)
class Pod:
    """Equal pods of one template: those of a group of KubeRay, or others."""

    owner: Document
    where: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]
    group: Group | None = None
    """None without Ray: for a submitter, or a Deployment."""

    @property
    def replicas(self) -> int:
        """The number of pods; 0 for a submitter, which is temporary."""
        if self.group is not None:
            return self.group.replicas
        return int(spec(self.owner).get("replicas", 1)) if self.owner["kind"] in _SERVING else 0

    @property
    def submits(self) -> bool:
        """Whether it only submits a job to Ray."""
        return self.group is None and self.owner["kind"] == "RayJob"

    @property
    def containers(self) -> list[Mapping[str, Any]]:
        """The containers in which Oka runs; others, such as a proxy, are the user's."""
        found = list(self.spec["containers"])
        if self.owner["kind"] not in _SERVING:
            return found[:1]
        return [each for each in found if _runs_oka(each)] or found[:1]

    @property
    def account(self) -> str:
        """Namespace and name of its service account."""
        return f"{namespace(self.owner)}/{self.spec.get('serviceAccountName', 'default')}"

    @property
    def ports(self) -> dict[str, int]:
        """The ports of its containers by name, or by number if they have none."""
        found = [port for each in self.spec["containers"] for port in each.get("ports", ())]
        return {
            each.get("name", str(each["containerPort"])): each["containerPort"] for each in found
        }

    @property
    def document(self) -> Document:
        """One pod, as the API server would get it, with the selector that all pods share."""
        name = re.sub(r"[^a-z0-9]+", "-", self.where.lower())
        metadata = {"name": name, "namespace": namespace(self.owner), "labels": dict(self.labels)}
        if (node := node_of(self.owner)) is not None:
            metadata["annotations"] = {NODE: node}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": _without_floats(self.spec),
        }


def clusters(documents: Sequence[Document]) -> list[Cluster]:
    """All Ray clusters of the documents."""
    found = []
    for document in documents:
        if document["kind"] == "RayCluster":
            found.append(Cluster(name(document), document, spec(document)))
        elif document["kind"] == "RayJob" and spec(document).get("rayClusterSpec"):
            found.append(Cluster(name(document), document, spec(document)["rayClusterSpec"]))
    return found


def pods(documents: Sequence[Document]) -> Iterator[Pod]:
    """The pods of every pod template, with the labels that KubeRay adds."""
    for cluster in clusters(documents):
        for group in cluster.groups:
            added = {
                "ray.io/is-ray-node": "yes",
                "ray.io/node-type": "head" if group.name == "head" else "worker",
                "ray.io/group": group.name,
            }
            labels = {**added, **_labels(group.spec["template"])}
            yield Pod(cluster.document, group.where, labels, group.pod, group)
    for document in of_kind(documents, "RayJob"):
        if template := spec(document).get("submitterPodTemplate"):
            where = f"{name(document)} submitter"
            yield Pod(document, where, _labels(template), spec(template))
    for document in (each for kind in _SERVING for each in of_kind(documents, kind)):
        template = spec(document)["template"]
        found = _labels(template)
        runs = any(map(_runs_oka, spec(template).get("containers", ())))
        if runs or found.get("app.kubernetes.io/name") == "oka":
            yield Pod(document, name(document), found, spec(template))


def node_of(document: Document) -> str | None:
    """What the node has that all pods of a RayCluster or RayJob share; None if they do not."""
    found: str | None = document["metadata"].get("annotations", {}).get(NODE)
    return found


def walk(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in a document with its key; items of a list have the list's key."""
    for inner, each in value.items() if isinstance(value, dict) else ():
        yield from walk(each, inner)
    for each in value if isinstance(value, list) else ():
        yield from walk(each, key)
    if not isinstance(value, list):
        yield key, value


def words(container: Mapping[str, Any]) -> list[str]:
    """The command of a container; [] for that of its image."""
    return [str(each) for key in ("command", "args") for each in container.get(key) or ()]


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects the labels; None selects nothing, an empty one all."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(each["operator"], labels.get(each["key"]), each.get("values") or ())
        for each in selector.get("matchExpressions") or ()
    )


def of_kind(documents: Sequence[Document], *kinds: str) -> list[Document]:
    """The documents of a kind, or of several."""
    return [document for document in documents if document["kind"] in kinds]


def spec(document: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of a document or template; {} for one that has none."""
    found: dict[str, Any] = document.get("spec", {})
    return found


def name(document: Document) -> str:
    """`Kind/name`, as kubectl prints it; `?` for a missing part."""
    metadata = document.get("metadata")
    found = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
    return f"{document.get('kind', '?')}/{found}"


def namespace(document: Document) -> str:
    """The namespace of the document."""
    found: str = document["metadata"].get("namespace", "default")
    return found


def component(document: Document) -> str | None:
    """The job of the document, or "cluster"; None if all share it."""
    return _labels(document).get(COMPONENT)


def load(text: str) -> list[Document]:
    """The documents of a YAML stream. Raises ConfigError if it is none."""
    try:
        return [_set(document) for document in yaml.load_all(text, yaml.CSafeLoader) if document]
    except yaml.YAMLError as error:
        raise ConfigError(f"the manifests are no YAML: {error}") from error


def dump(documents: Sequence[Document]) -> str:
    """The documents as a YAML stream."""
    return yaml.dump_all(documents, Dumper=_WithoutAliases, sort_keys=False, width=100)


def build(overlay: str | Path) -> list[Document]:
    """The documents that kustomize builds from an overlay: a folder, or a name in `k8s/overlays`.

    Raises ConfigError if the folder or kustomize is missing, or kustomize refuses it.
    """
    return load(built(overlay_folder(overlay)))


def built(folder: Path) -> str:
    """The same of a folder, as text."""
    result = subprocess.run(
        [*kustomize(), str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    if result.returncode:
        raise ConfigError(f"kustomize refuses {folder}: {result.stderr.strip()}")
    return result.stdout


def overlay_folder(overlay: str | Path) -> Path:
    """The folder of an overlay. Raises ConfigError if it does not exist."""
    for folder in (Path(overlay), FOLDER / "overlays" / overlay):
        if (folder / "kustomization.yaml").is_file():
            return folder
    raise ConfigError(
        f"overlay is {str(overlay)!r}, expected a folder with a kustomization.yaml",
        f"the overlays here are {', '.join(path.name for path in overlays(FOLDER))}; "
        "`oka k8s check` takes files, too",
    )


def overlays(folder: Path) -> list[Path]:
    """All overlays of a folder like `k8s`."""
    return sorted(path.parent for path in (folder / "overlays").glob("*/kustomization.yaml"))


def _set(value: Any) -> Any:
    """A copy without fields that are null: Kubernetes takes them as not set."""
    if isinstance(value, dict):
        return {key: _set(each) for key, each in value.items() if each is not None}
    return [_set(each) for each in value] if isinstance(value, list) else value


def _without_floats(value: Any) -> Any:
    """A copy with amounts such as 0.5 as texts, as the API server stores them."""
    if isinstance(value, dict):
        return {key: _without_floats(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_floats(each) for each in value]
    return str(value) if isinstance(value, float) else value


def _runs_oka(container: Mapping[str, Any]) -> bool:
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2]
    return image.partition(":")[0] == "oka" or words(container)[:1] == ["oka"]


def _holds(operator: str, value: str | None, values: Sequence[str]) -> bool:
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    return (value in values) == (operator == "In")


def _labels(document: Mapping[str, Any]) -> Mapping[str, str]:
    return (document.get("metadata") or {}).get("labels") or {}


_OKAS = {"cpu": "cpus", "gpu": "gpus"}
"""Oka's names of Ray's own resources."""


class _WithoutAliases(yaml.CSafeDumper):
    """A dumper without aliases, since users read and patch the output."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as PyYAML calls it
        """No aliases."""
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_WithoutAliases.add_representer(str, _text)
