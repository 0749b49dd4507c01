"""Options of `oka k8s render` besides the job's settings, and their changes of pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.arguments import split_assignments
from engine.errors import ConfigError
from k8s.manifests import Document, Pod, name, of_kind, pods


@dataclass(frozen=True)
class Options:
    """Options of the command line; the defaults leave the overlay as it is."""

    endless: bool = False
    deadline: int | None = None
    retries: int | None = None
    spare: int = 0
    replicas: int | None = None
    max_replicas: int | None = None
    host: str | None = None
    image: str | None = None
    namespace: str | None = None
    env: Sequence[str] = ()
    env_from: Sequence[str] = ()
    gpu: int = 0
    priority: str | None = None
    spot: bool = False
    tolerations: Sequence[str] = ()


def dress(documents: Sequence[Document], options: Options) -> None:
    """Set image, variables, class and tolerations of all pods with Oka, and the namespace of all.

    Raises ConfigError for values that Kubernetes or Oka would refuse.
    """
    variables = split_assignments(options.env, "--env")
    for variable in variables:
        _check_variable(variable)
    tolerations = [_toleration(text) for text in options.tolerations]
    for pod in pods(documents):
        spec: Any = pod.spec
        if options.priority is not None:
            spec["priorityClassName"] = options.priority
        if tolerations:
            spec["tolerations"] = [*spec.get("tolerations", ()), *tolerations]
        for container in spec["containers"][:1]:  # the one that Oka runs in
            if options.image is not None:
                container["image"] = _image(options.image, container["image"])
            if not pod.submits:
                _set_variables(container, variables, options.env_from)
    if options.namespace is not None:
        _set_namespace(documents, options.namespace)


def prefer_spot(pod: Pod) -> None:
    """Prefer spot nodes for the pod, and tolerate their taints."""
    spec: Any = pod.spec
    affinity = dict(spec.get("affinity") or {})
    preferred = [
        {"weight": 100, "preference": {"matchExpressions": [_in(label, values)]}}
        for label, values in _SPOT_LABELS.items()
    ]
    affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    spec["affinity"] = affinity
    taints = [_equals(label, value) for label, value in _SPOT_TAINTS.items()]
    spec["tolerations"] = [*spec.get("tolerations", ()), *taints]


def give_gpus(pod: Any, container: Any, gpus: int) -> None:
    """So many GPUs for the container, on a node that only accepts pods with GPUs."""
    for kind in ("requests", "limits"):
        container["resources"][kind][_GPU] = str(gpus)
    taint = {"key": _GPU, "operator": "Exists", "effect": "NoSchedule"}
    pod["tolerations"] = [*pod.get("tolerations", ()), taint]


def _in(label: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": label, "operator": "In", "values": list(values)}


def _equals(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}


def _check_variable(variable: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise ConfigError(
            f"--env names {variable!r}, expected letters, digits and '_'", "--env NAME=VALUE"
        )
    if variable in _RESERVED:
        raise ConfigError(
            f"--env names {variable}, expected one that the manifests do not set",
            _RESERVED[variable],
        )


def _set_variables(container: Any, variables: dict[str, str], secrets: Sequence[str]) -> None:
    kept = [each for each in container.get("env", ()) if each["name"] not in variables]
    container["env"] = kept + [{"name": key, "value": each} for key, each in variables.items()]
    if secrets:
        added = [{"secretRef": {"name": _object_name(each, "--env-from")}} for each in secrets]
        container["envFrom"] = [*container.get("envFrom", ()), *added]


def _image(wanted: str, before: str) -> str:
    """The image; without a tag, with the tag that it had."""
    if not wanted or any(each.isspace() for each in wanted):
        raise ConfigError(f"--image is {wanted!r}, expected such as registry/oka:TAG")
    last = wanted.rpartition("/")[2]
    if ":" in last or "@" in last:
        return wanted
    return f"{wanted}:{before.rpartition('/')[2].partition(':')[2]}"


def _toleration(text: str) -> dict[str, Any]:
    """`KEY[=VALUE][:EFFECT]`, as `kubectl taint` writes a taint."""
    label = r"(?:[a-z0-9.-]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*"
    found = re.fullmatch(rf"({label})(?:=([-A-Za-z0-9_.]*))?(?::(\w+))?", text)
    if found is None or found[3] not in (None, *_EFFECTS):
        raise ConfigError(
            f"--toleration is {text!r}, expected KEY[=VALUE][:EFFECT]",
            f"as `kubectl taint` has it: team=a:NoSchedule; effects are {', '.join(_EFFECTS)}",
        )
    key, value, effect = found.groups()
    taint = {"key": key, "operator": "Exists"} if value is None else _equals(key, value)
    taint.pop("effect", None)
    return {**taint, "effect": effect} if effect else taint


def _set_namespace(documents: Sequence[Document], namespace: str) -> None:
    _object_name(namespace, "--namespace")
    for document in documents:
        if document["kind"] == "Namespace":
            document["metadata"]["name"] = namespace
        elif "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = namespace


def _object_name(text: str, option: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", text):
        raise ConfigError(f"{option} is {text!r}, expected lower case letters, digits and '-'")
    return text


def one(documents: Sequence[Document], kind: str, option: str, hint: str) -> Document:
    """The document of the kind that an option changes. Raises ConfigError if there is none."""
    found = of_kind(documents, kind)
    if not found:
        there = ", ".join(sorted({name(each) for each in documents}))
        raise ConfigError(
            f"{option} needs a document of kind {kind}, expected an overlay with one: {there}", hint
        )
    return found[0]


def asked(options: Options, names: Sequence[str]) -> Iterator[str]:
    """The given options, as on the command line."""
    for each in names:
        if getattr(options, each) != getattr(Options, each):
            yield f"--{each.replace('_', '-')}"


_GPU = "nvidia.com/gpu"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_RESERVED = {
    "RAY_AUTH_MODE": "KubeRay sets it by the cluster's authOptions",
    "RAY_AUTH_TOKEN": "it is in the Secret oka-ray-token, which KubeRay hands to all pods",
    "RAY_ADDRESS": "KubeRay sets it: a job runs on its own cluster",
}
_SPOT_LABELS = {
    "eks.amazonaws.com/capacityType": ("SPOT",),
    "karpenter.sh/capacity-type": ("spot",),
    "cloud.google.com/gke-spot": ("true",),
    "kubernetes.azure.com/scalesetpriority": ("spot",),
}
_SPOT_TAINTS = {
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Taints of clouds on such nodes."""
