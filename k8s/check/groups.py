"""The shape of a Ray cluster: its groups, how many pods they have, and where those go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import Cluster, clusters

SHARED_NODE = "oka.dev/shared-node"
"""Annotation of a RayCluster or RayJob whose pods may share a node, as in the overlay `dev`."""


def unique_groups(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """No two groups have one name: KubeRay would take the pods of one for those of the other."""
    for cluster in clusters(documents):
        counts = Counter(group.name for group in cluster.groups)
        for group, count in counts.items():
            if count > 1:
                yield Finding(
                    "unique-groups", cluster.owner, f"{count} groups are called {group!r}"
                )


def ray_options(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """`ray start` knows every one of `rayStartParams`, which schemas take any of."""
    for cluster in clusters(documents):
        for group in cluster.groups:
            for parameter in group.parameters:
                if parameter not in RAY_OPTIONS:
                    yield Finding(
                        "ray-options",
                        group.where,
                        f"rayStartParams has {parameter!r}, which `ray start` does not know",
                        "the pod would end as soon as it starts",
                    )
            if group.parameters.keys() & _OF_RESOURCES and group.spec.get("resources"):
                yield Finding(
                    "ray-options",
                    group.where,
                    "has both `resources` and "
                    f"{sorted(group.parameters.keys() & _OF_RESOURCES)} in rayStartParams",
                    "KubeRay takes one or the other",
                )


def fixed_size(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """No autoscaling: tasks are placed once, when the job is submitted."""
    for cluster in clusters(documents):
        if cluster.spec.get("enableInTreeAutoscaling"):
            yield Finding(
                "fixed-size",
                cluster.owner,
                "enableInTreeAutoscaling is true, expected false",
                "tasks stay where they were placed: a new pod is empty, one that goes ends the job",
            )
        for group in cluster.groups[1:]:
            sizes = [group.spec.get(key) for key in ("minReplicas", "replicas", "maxReplicas")]
            if len(set(sizes)) > 1:
                yield Finding(
                    "fixed-size",
                    group.where,
                    f"minReplicas, replicas and maxReplicas are {sizes}, expected one number",
                )


def idle_head(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """The head takes no tasks: it is what everything else depends on."""
    for cluster in clusters(documents):
        cpus = cluster.groups[0].ray_resources.get("cpus")
        if cpus != 0:
            yield Finding(
                "idle-head", cluster.owner, f"the head has {cpus:g} CPUs for tasks, expected 0",
                'set num-cpus: "0" in rayStartParams of the head',
            )  # fmt: skip


def one_per_node(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Ray pods keep apart by hostname, and workers may have no node in common with the head."""
    for cluster in clusters(documents):
        if _may_share(cluster):
            continue
        for group in cluster.groups:
            labels = group.spec["template"].get("metadata", {}).get("labels", {})
            if not any(_keeps_apart(term, labels) for term in _terms(group.pod)):
                yield Finding(
                    "one-per-node",
                    group.where,
                    "has no anti-affinity by kubernetes.io/hostname to Ray pods of its labels",
                    f"two pods on a node share its network; the annotation {SHARED_NODE} allows it",
                )


def spread(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Pods say how to be spread over zones."""
    for cluster in clusters(documents):
        for group in cluster.groups:
            keys = [
                constraint.get("topologyKey")
                for constraint in group.pod.get("topologySpreadConstraints", [])
            ]
            if "topology.kubernetes.io/zone" not in keys and not _may_share(cluster):
                yield Finding("spread", group.where, "has no topologySpreadConstraint by zone")


def _may_share(cluster: Cluster) -> bool:
    annotations = cluster.document["metadata"].get("annotations") or {}
    return bool(annotations.get(SHARED_NODE) == "true")


def _terms(pod: Any) -> list[Any]:
    affinity = (pod.get("affinity") or {}).get("podAntiAffinity") or {}
    terms: list[Any] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return terms


def _keeps_apart(term: Any, labels: Any) -> bool:
    """Whether the term is by host and selects pods like the one that has it."""
    wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
    own = {**labels, "ray.io/is-ray-node": "yes"}  # what KubeRay adds
    return (
        term.get("topologyKey") == "kubernetes.io/hostname"
        and bool(wanted)
        and all(own.get(key) == value for key, value in wanted.items())
    )


# Of Ray 2.60, without those that KubeRay sets itself.
RAY_OPTIONS = frozenset(
    """
    address autoscaling-config cgroup-path dashboard-agent-grpc-port dashboard-agent-listen-port
    dashboard-host dashboard-port disable-usage-stats enable-resource-isolation include-dashboard
    include-log-monitor log-color log-style max-worker-port memory metrics-export-port
    min-worker-port no-redirect-output node-ip-address node-manager-port num-cpus num-gpus
    object-manager-port object-spilling-directory object-store-memory plasma-directory port
    ray-client-server-port resources runtime-env-agent-port system-reserved-cpu
    system-reserved-memory temp-dir worker-port-list
    """.split()  # noqa: SIM905 - to be read
)
_OF_RESOURCES = frozenset(("num-cpus", "num-gpus", "memory", "resources"))
