"""Nodes, those of eksctl's file or the one of an overlay like `dev`, and pods that must fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from k8s.check.finding import Finding, either
from k8s.machines import MOST_NODES, RESOURCES, Machine, room_of, shared_machine, told, tolerates
from k8s.manifests import Cluster, Pod, namespace, spec
from k8s.quantity import parse
from k8s.subject import NODE, Subject, node_of


def nodes(subject: Subject) -> Iterator[Finding]:
    """The pods of each job, its submitter included, and of each cluster fit on the nodes there are.

    Jobs run one after the other. What a node has left for pods is estimated. Where pods ask for
    nodes that eksctl's file does not tell of, nobody knows here.
    """
    labels = {key for each in subject.groups for key in each.get("labels", {})}
    for cluster in subject.clusters:
        shared = node_of(cluster.document)
        try:
            machines = _machines(subject) if shared is None else [shared_machine(shared)]
        except ValueError as error:
            yield Finding(cluster.owner, f"{NODE} is {shared!r}: {error}")
            continue
        pod = _without_room(pods_of(subject, cluster), machines, shared is None)
        if pod is not None:
            able = {each.name: each for each in machines if _may(pod, each)}
            there = [f"{sum(_may(pod, each) for each in machines)} nodes"]
            there += [f"{each.name} with {told(each.room)} for pods" for each in able.values()]
            problem = f"found no node for one that asks for {told(demand(pod))}; there are "
            problem += ", ".join(there)
            asked = pod.spec.get("nodeSelector", {}).keys()
            known = shared is not None or (asked and asked <= labels | _EVERY_NODE)
            hint = "it would stay Pending" if known else "eks/cluster.yaml does not tell of others"
            yield either(not known, pod.where, problem, hint)


def quotas(subject: Subject) -> Iterator[Finding]:
    """A job's pods fit what ResourceQuota and LimitRange of their namespace allow."""
    for document in subject.documents:
        hard = spec(document).get("hard", {}) if document["kind"] == "ResourceQuota" else {}
        most = [each.get("max", {}) for each in spec(document).get("limits", ())]
        for cluster in subject.clusters:
            pods = pods_of(subject, cluster)
            if namespace(cluster.document) != namespace(document):
                continue
            total = {"pods": float(len(pods))}
            for key in RESOURCES:
                total[key] = sum(demand(pod)[key] for pod in pods)
            for key, amount in hard.items():
                plain = key.removeprefix("requests.").removeprefix("limits.")
                if total.get(plain, 0.0) > float(parse(amount)):
                    problem = f"asks for {total[plain]:g} {plain}, its quota is {key} {amount}"
                    yield Finding(cluster.owner, problem, "pods above it are refused")
            for limits in most if document["kind"] == "LimitRange" else ():
                for key, amount in limits.items():
                    if any(demand(pod).get(key, 0.0) > float(parse(amount)) for pod in pods):
                        problem = f"has a pod with more {key} than the LimitRange's {amount}"
                        yield Finding(cluster.owner, problem, "Kubernetes refuses it")


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
    asked = {k: v for k, v in pod.spec.get("nodeSelector", {}).items() if k not in _EVERY_NODE}
    return asked.items() <= machine.labels.items() and all(
        any(tolerates(each, taint) for each in pod.spec.get("tolerations", ()))
        for taint in machine.taints
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def demand(pod: Pod) -> dict[str, float]:
    """What one of the pods requests."""
    total = dict.fromkeys(RESOURCES, 0.0)
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


def _kinds(group: Mapping[str, Any]) -> list[str]:
    return [each for each in [group.get("instanceType"), *group.get("instanceTypes", ())] if each]


def _machines(subject: Subject) -> list[Machine]:
    """The nodes of EKS; for manifests of a job as many as `eksctl scale` can make."""
    found = []
    for group in subject.groups:
        rooms = [room_of(kind, group.get("volumeSize", 80)) for kind in _kinds(group)]
        room = {key: min(each[key] for each in rooms) for key in RESOURCES if all(rooms) and rooms}
        count = group.get("maxSize" if subject.scaled else "desiredCapacity", 0)
        told_kinds = f"{group.get('name')} ({', '.join(_kinds(group))})"
        labels, taints = group.get("labels", {}), group.get("taints", ())
        found += [Machine(told_kinds, room, labels, taints)] * min(count, MOST_NODES)
    return found


_EVERY_NODE = {
    "kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
}  # fmt: skip
