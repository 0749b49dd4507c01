"""The shape of a Ray cluster: its name, its groups, and how many pods they have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from k8s.check.finding import Mistake
from k8s.check.subject import NODE, Subject, node_of
from k8s.manifests import matches
from k8s.quantity import parse


def names(subject: Subject) -> Iterator[Mistake]:
    """KubeRay takes the names: it makes longer ones of them, for services and pods."""
    for cluster in subject.clusters:
        longest, name = _LONGEST[cluster.document["kind"]], cluster.document["metadata"]["name"]
        if len(name) > longest or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
            problem = f"its name has {len(name)} characters, expected {longest} of a-z, 0-9, -"
            yield cluster.owner, problem, "`oka k8s render --name` gives another"
        for group, count in Counter(group.name for group in cluster.groups).items():
            if count > 1:
                yield cluster.owner, f"{count} groups are called {group!r}"


def ray_options(subject: Subject) -> Iterator[Mistake]:
    """`ray start` knows every one of `rayStartParams`, and Ray resources are numbers."""
    from ray.scripts.scripts import start

    known = {option.removeprefix("--") for each in start.params for option in each.opts}
    for group in (group for cluster in subject.clusters for group in cluster.groups):
        for option in sorted(group.parameters.keys() - known | group.parameters.keys() & _KUBERAYS):
            problem = (
                f"rayStartParams has {option!r}, which `ray start` does not take, or KubeRay sets"
            )
            yield group.where, problem, "amounts of Ray's are `resources` of the group"
        resources = group.spec.get("resources") or {}
        twice = sorted(group.parameters.keys() & _OF_RESOURCES)
        if twice and resources:
            yield group.where, f"has `resources` and {twice}: KubeRay takes one or the other"
        for resource, amount in resources.items():
            if not _is_amount(amount):
                yield group.where, f"{resource} is {amount!r}: KubeRay skips what is no number"


def fixed_size(subject: Subject) -> Iterator[Mistake]:
    """Groups neither grow nor shrink: tasks are placed once, when the job is submitted."""
    for group in (group for cluster in subject.clusters for group in cluster.groups[1:]):
        sizes = [group.spec.get(key) for key in ("minReplicas", "replicas", "maxReplicas")]
        if len(set(sizes)) > 1 or group.replicas < 0:
            problem = f"minReplicas, replicas, maxReplicas are {sizes}, expected one number"
            yield group.where, problem


def one_per_node(subject: Subject) -> Iterator[Mistake]:
    """Ray pods keep apart by hostname, unless all of them share one node."""
    for pod in subject.pods:
        affinity = (pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        apart = [
            matches(term.get("labelSelector"), pod.labels)
            for term in terms
            if term["topologyKey"] == "kubernetes.io/hostname"
        ]
        if pod.group and node_of(pod.owner) is None and not any(apart):
            problem = "has no anti-affinity by kubernetes.io/hostname to Ray pods of its labels"
            hint = f"two on a node share its network; the annotation {NODE} names one node for all"
            yield pod.where, problem, hint


def _is_amount(amount: object) -> bool:
    try:
        return parse(amount) >= 0
    except ValueError:
        return False


_LONGEST = {"RayCluster": 50, "RayJob": 47}
_KUBERAYS = frozenset(("head", "block", "labels", "redis-password", "resources"))
_OF_RESOURCES = frozenset(("num-cpus", "num-gpus", "memory"))
