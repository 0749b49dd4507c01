"""Nodes, those of eksctl's file or the one of an overlay like `dev`, and pods that must fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from k8s.check.finding import Mistake
from k8s.check.subject import NODE, Subject, node_of
from k8s.manifests import Cluster, Pod, namespace
from k8s.quantity import parse

Amounts: TypeAlias = Mapping[str, float]
"""CPUs, bytes of memory and of disk, by what Kubernetes calls them."""


@dataclass(frozen=True)
class Machine:
    """A node: its name, what it has for pods, and its labels."""

    name: str
    room: Amounts
    labels: Mapping[str, str]


def nodes(subject: Subject) -> Iterator[Mistake]:
    """The pods of each job, its submitter included, and of each cluster fit on the nodes there are.

    Jobs run one after the other. What a node has left for pods is estimated.
    """
    for cluster in subject.clusters:
        shared = node_of(cluster.document)
        try:
            machines = _machines(subject) if shared is None else [_one(shared)]
        except ValueError as error:
            yield cluster.owner, f"{NODE} is {shared!r}: {error}"
            continue
        pod = _without_room(pods_of(subject, cluster), machines, shared is None)
        if pod is not None:
            able = {each.name: each for each in machines if _may(pod, each)}
            there = [f"{sum(_may(pod, each) for each in machines)} nodes"]
            there += [f"{each.name} with {told(each.room)} for pods" for each in able.values()]
            problem = f"found no node for one that asks for {told(demand(pod))}; there are "
            yield pod.where, problem + ", ".join(there), "it would stay Pending"


def _without_room(pods: list[Pod], machines: list[Machine], apart: bool) -> Pod | None:
    """The first pod that fits nowhere beside those before it; `apart`: Ray pods share no node."""
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
    return bool(pod.spec.get("nodeSelector", {}).items() <= machine.labels.items())


def demand(pod: Pod) -> dict[str, float]:
    """What one of the pods requests."""
    total = dict.fromkeys(_RESOURCES, 0.0)
    for container in pod.spec["containers"]:
        for key, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[key] = total.get(key, 0.0) + float(parse(amount))
    return total


def pods_of(subject: Subject, cluster: Cluster) -> list[Pod]:
    """All pods of a cluster, as often as they are there, the largest first, its submitter last."""
    pods = [
        pod
        for pod in subject.pods
        if pod.owner is cluster.document
        for _ in range(pod.group.replicas if pod.group else 1)
    ]
    return sorted(pods, key=lambda pod: (pod.group is None, -demand(pod)["memory"]))


def told(amounts: Amounts) -> str:
    """As people read it: `7 CPUs, 8Gi of memory, 10Gi of disk`."""
    if not amounts:
        return "what is not known"
    memory, disk = (f"{amounts[key] / _GIB:.4g}Gi" for key in _RESOURCES[1:])
    return f"{amounts['cpu']:g} CPUs, {memory} of memory, {disk} of disk"


def eks(subject: Subject) -> Iterator[Mistake]:
    """The cluster of EKS fits the overlay: nodes are in one zone, accounts are the pods' own."""
    if not subject.on_eks:
        return
    config, where = subject.eks, "eks/cluster.yaml"
    groups = config.get("managedNodeGroups", [])
    region, zones = config["metadata"].get("region"), set(config.get("availabilityZones", []))
    used = {zone for each in groups for zone in each.get("availabilityZones") or zones}
    if len(used) != 1 or not used <= zones or {zone[:-1] for zone in zones} != {region}:
        problem = f"nodes are in {sorted(used)}, expected one of {sorted(zones)}, of {region}"
        yield where, problem, "between zones traffic is slower and costs, and disks stay in theirs"
    types = [each.get("instanceType", "") for each in groups]
    if not all(_INSTANCE_TYPE.fullmatch(each) for each in types):
        yield where, f"instance types are {types}, expected such as c7i.2xlarge"
    accounts = [
        each.get("metadata", {}) for each in config.get("iam", {}).get("serviceAccounts", [])
    ]
    made = {f"{each.get('namespace')}/{each.get('name')}" for each in accounts}
    named = {f"{namespace(pod.owner)}/{pod.spec.get('serviceAccountName')}" for pod in subject.pods}
    if made != named:
        problem = f"makes service accounts {sorted(made)}, expected those of pods, {sorted(named)}"
        yield where, problem, "a pod without a role is refused by S3"
    buckets = set(re.findall(r"arn:aws:s3:::([\w.-]+)", subject.eks_text))
    if len(buckets) > 1:
        yield where, f"its role is for {sorted(buckets)}, expected one bucket"


def _machines(subject: Subject) -> list[Machine]:
    """The nodes of EKS; for manifests of a job as many as `eksctl scale` can make."""
    found = []
    for group in subject.eks.get("managedNodeGroups", []):
        kind, disk = group.get("instanceType", ""), group.get("volumeSize", 80)
        count = group.get("maxSize" if subject.scaled else "desiredCapacity", 0)
        machine = Machine(
            f"{group.get('name')} ({kind})", _room(kind, disk), group.get("labels", {})
        )
        found += [machine] * min(count, MOST_NODES)
    return found


def _room(instance_type: str, disk: int) -> Amounts:
    """What pods of one node have; nothing is said of families that are not regular.

    `large` has 2 vCPUs, `Nxlarge` has 4 N; c, m and r have 2, 4 and 8 GiB for each of them. The
    kubelet, the system and what EKS runs on every node have 0.3 CPUs, 5 % of the memory and 1 GiB,
    a tenth of the disk and 4 GiB, images among it.
    """
    found = re.fullmatch(r"([cmr])\d[a-z]*\.(?:(large)|(\d*)xlarge)", instance_type)
    if found is None:
        return {}
    family, large, times = found.groups()
    cpus = 2 if large else 4 * int(times or 1)
    memory = (0.95 * cpus * {"c": 2, "m": 4, "r": 8}[family] - 1) * _GIB
    return dict(zip(_RESOURCES, (cpus - 0.3, memory, (0.9 * disk - 4) * _GIB), strict=True))


def _one(text: str) -> Machine:
    """The node that all share, less the operator, DNS and Kubernetes itself."""
    given = dict(part.strip().split("=", 1) for part in text.split(","))
    amounts = {key: float(parse(given.pop(key, None))) for key in _RESOURCES}
    if given:
        raise ValueError(f"{sorted(given)} are not known, expected {', '.join(_RESOURCES)}")
    return Machine("the node", {key: amounts[key] - SYSTEM[key] for key in amounts}, {})


_INSTANCE_TYPE = re.compile(r"[a-z][-a-z0-9]+\.(\d*x?large|metal\S*|medium)")
MOST_NODES = 5000
"""What Kubernetes is made for."""
_GIB = 1024**3
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
SYSTEM: Amounts = {"cpu": 1.0, "memory": 1.5 * _GIB, "ephemeral-storage": 1.0 * _GIB}
"""What the operator (100m, 512Mi), DNS (100m, 170Mi) and the control plane of one node ask for."""
