"""Nodes of eksctl's file, or the one of an overlay like `dev`, and the pods that must fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from k8s.check.finding import Finding, say
from k8s.manifests import Document, Pod, matches, name, namespace, node_of, spec
from k8s.quantity import parse
from k8s.subject import Subject


class Machine(NamedTuple):
    """A node: its name, its CPUs, memory and disk for pods, its labels and taints."""

    name: str
    room: Mapping[str, float]
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()


def nodes(subject: Subject) -> Iterator[Finding]:
    """The pods of each job, its submitter included, and of each cluster fit on the nodes.

     Jobs run one after the other. A node's room for pods is estimated. Nothing is known here of
    nodes that pods ask for and that are not in eksctl's file.
    """
    labels = {key for each in subject.node_groups for key in each.get("labels", {})}
    for cluster in subject.clusters:
        shared = node_of(cluster.document)
        try:
            machines = _machines(subject) if shared is None else [_shared(shared)]
        except ValueError as error:
            yield say("no-size", cluster.owner, text=shared, error=error)
            continue
        pod = _without_room(pods_of(subject, cluster.document), machines, shared is None)
        if pod is not None:
            able = [each for each in machines if _may(pod, each)]
            kinds = {f"{each.name} with {_told(each.room)} for pods": None for each in able}
            asked = {each["key"] for term in _terms(pod) for each in term}
            known = shared is not None or (asked and asked <= labels | _EVERY_NODE)
            told = {"asked": _told(demand(pod)), "nodes": ", ".join([f"{len(able)} nodes", *kinds])}
            hint = "it would stay Pending" if known else "eks/cluster.yaml does not tell of others"
            yield say("no-node", pod.where, not known, hint=hint, **told)


def quotas(subject: Subject) -> Iterator[Finding]:
    """Pods fit what ResourceQuota and LimitRange of their namespace allow."""
    owners = {id(pod.owner): pod.owner for pod in subject.pods}
    for document in subject.of_kind("ResourceQuota", "LimitRange"):
        said = spec(document)
        hard = {} if said.keys() & {"scopes", "scopeSelector"} else said.get("hard", {})
        for owner in (each for each in owners.values() if namespace(each) == namespace(document)):
            pods = [{"pods": 1.0, **demand(pod)} for pod in pods_of(subject, owner)]
            for key, amount in hard.items():
                what = key.removeprefix("requests.").removeprefix("limits.")
                if (asked := sum(each.get(what, 0.0) for each in pods)) > float(parse(amount)):
                    told = {"asked": asked, "what": what, "key": key, "amount": amount}
                    yield say("above-quota", name(owner), **told)
            for limits in said.get("limits", ()):
                for key, amount in limits.get("max", {}).items():
                    if any(each.get(key, 0.0) > float(parse(amount)) for each in pods):
                        yield say("above-limits", name(owner), key=key, amount=amount)


def pods_of(subject: Subject, owner: Document) -> list[Pod]:
    """All pods of a document with all replicas, the largest first, a submitter last."""
    pods = [pod for pod in subject.pods if pod.owner is owner]
    pods = [pod for pod in pods for _ in range(1 if pod.submits else pod.replicas)]
    return sorted(pods, key=lambda pod: (pod.group is None, -demand(pod)["memory"]))


def demand(pod: Pod) -> dict[str, float]:
    """The requests of one of the pods."""
    total = dict.fromkeys(_RESOURCES, 0.0)
    for container in pod.spec["containers"]:
        for key, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[key] = total.get(key, 0.0) + float(parse(amount))
    return total


def _without_room(pods: list[Pod], machines: list[Machine], apart: bool) -> Pod | None:
    """The first pod that fits nowhere with those before it; `apart`: Ray pods share no node."""
    left = [dict(machine.room) for machine in machines]
    taken: set[int] = set()
    for pod in pods:
        needed, alone = demand(pod), apart and pod.group is not None
        for n, room in enumerate(left):
            fits = all(needed.get(key, 0.0) <= amount for key, amount in room.items())
            if fits and _may(pod, machines[n]) and not (alone and n in taken):
                left[n] = {key: amount - needed.get(key, 0.0) for key, amount in room.items()}
                taken |= {n} if alone else set()
                break
        else:
            return pod
    return None


def _may(pod: Pod, machine: Machine) -> bool:
    """Whether labels and taints allow it there. Labels that every node has match anything."""
    unknown = _EVERY_NODE - machine.labels.keys()
    tolerations = pod.spec.get("tolerations", ())
    return any(
        matches({"matchExpressions": [e for e in term if e["key"] not in unknown]}, machine.labels)
        for term in _terms(pod)
    ) and all(
        any(_tolerates(each, taint) for each in tolerations)
        for taint in machine.taints
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def _terms(pod: Pod) -> list[list[dict[str, Any]]]:
    """The labels that it requires of nodes; one term is enough."""
    selector = pod.spec.get("nodeSelector", {}).items()
    asked = [{"key": key, "operator": "In", "values": [value]} for key, value in selector]
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms", [{}])
    return [[*asked, *each.get("matchExpressions", ())] for each in terms]


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    exists = toleration.get("operator") == "Exists"
    return (
        toleration.get("key", taint["key"] if exists else None) == taint["key"]
        and toleration.get("effect", taint["effect"]) in ("", taint["effect"])
        and (exists or toleration.get("value", "") == taint.get("value", ""))
    )


def _machines(subject: Subject) -> list[Machine]:
    """The nodes of EKS; for a job's manifests, as many as `eksctl scale` can make."""
    found = []
    for group in subject.node_groups:
        kinds = list(filter(None, (group.get("instanceType"), *group.get("instanceTypes", ()))))
        rooms = [_room_of(kind, group.get("volumeSize", 80)) for kind in kinds]
        room = {key: min(each[key] for each in rooms) for key in _RESOURCES if all(rooms) and rooms}
        zones = group.get("availabilityZones", ())
        labels = {_ZONE: zones[0]} if len(zones) == 1 else {}
        labels |= group.get("labels", {})
        called = f"{group.get('name')} ({', '.join(kinds)})"
        count = group.get("maxSize" if subject.scaled else "desiredCapacity", 0)
        found += [Machine(called, room, labels, group.get("taints", ()))] * min(count, _MOST_NODES)
    return found


def _room_of(instance_type: str, disk: int) -> Mapping[str, float]:
    """The room for pods on one node; None for irregular families.

    `large` has 2 vCPUs, `Nxlarge` has 4 N; c, m and r have 2, 4 and 8 GiB for each of them. The
    kubelet, the system and EKS's own pods use 0.3 CPUs, 5 % of the memory and 1 GiB, and a tenth of
    the disk and 4 GiB, images included.
    """
    found = re.fullmatch(r"([cmr])\d[a-z]*\.(?:(large)|(\d*)xlarge)", instance_type)
    if found is None:
        return {}
    family, large, times = found.groups()
    cpus = 2 if large else 4 * int(times or 1)
    memory = (0.95 * cpus * {"c": 2, "m": 4, "r": 8}[family] - 1) * _GIB
    return dict(zip(_RESOURCES, (cpus - 0.3, memory, (0.9 * disk - 4) * _GIB), strict=True))


def _shared(text: str) -> Machine:
    """The node that all share, less the operator, DNS and Kubernetes itself."""
    given = dict(part.strip().split("=", 1) for part in text.split(","))
    amounts = {key: float(parse(given.pop(key, None))) for key in _RESOURCES}
    if given:
        raise ValueError(f"{sorted(given)} are not known, expected {', '.join(_RESOURCES)}")
    return Machine("the node", {key: amounts[key] - _SYSTEM[key] for key in amounts}, {})


def _told(amounts: Mapping[str, float]) -> str:
    """The amounts as text: `7 CPUs, 8Gi of memory, 10Gi of disk`."""
    if not amounts:
        return "what is not known"
    memory, disk = (f"{amounts[key] / _GIB:.4g}Gi" for key in _RESOURCES[1:])
    return f"{amounts['cpu']:g} CPUs, {memory} of memory, {disk} of disk"


_MOST_NODES = 5000  # what Kubernetes is made for
_GIB = 1024**3
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_SYSTEM: Mapping[str, float] = {"cpu": 1.0, "memory": 1.5 * _GIB, "ephemeral-storage": 1.0 * _GIB}
"""The requests of the operator (100m, 512Mi), DNS (100m, 170Mi) and one node's control plane."""
_ZONE = "topology.kubernetes.io/zone"
_EVERY_NODE = {
    "kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname",
    "topology.kubernetes.io/region", _ZONE,
}  # fmt: skip
