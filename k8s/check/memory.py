"""Memory and disk of a pod: what is reserved, and that what it holds fits in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import Group, clusters, pods
from k8s.quantity import bytes_text, parse
from k8s.render import shared_memory, slots
from k8s.size import HEAD_BYTES, RAY_BYTES, TASK_BYTES


def reserved(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Requests equal limits, ephemeral storage included: nothing is lent out and taken back."""
    for where, template in pods(documents):
        for container in template["spec"]["containers"]:
            resources = container.get("resources") or {}
            requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
            for resource in ("cpu", "memory", "ephemeral-storage"):
                if resource not in limits:
                    yield Finding("reserved", where, f"has no limit of {resource}")
                elif requests.get(resource) != limits[resource]:
                    yield Finding(
                        "reserved",
                        where,
                        f"requests {requests.get(resource)!r} of {resource}, expected its limit "
                        f"{limits[resource]!r}",
                        "a pod that asks for less than it uses is the first to be killed",
                    )


def object_store(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """`object-store-memory` is set, lies in /dev/shm, and both together fit the pod's memory."""
    for group in _groups(documents):
        plasma, shared, limit = _plasma(group), shared_memory(group), _memory(group)
        if plasma is None:
            yield Finding(
                "object-store",
                group.where,
                "object-store-memory is not set",
                "Ray would take a share of the node's memory, not of the pod's",
            )
            continue
        if shared == 0:
            yield Finding("object-store", group.where, "has no /dev/shm in memory with a sizeLimit")
        elif plasma > shared:
            yield Finding(
                "object-store",
                group.where,
                f"object-store-memory is {bytes_text(plasma)}, expected at most the "
                f"{bytes_text(shared)} of /dev/shm, where it lies",
            )
        if limit is not None and plasma + shared > limit:
            yield Finding(
                "object-store",
                group.where,
                f"its shared memory ({bytes_text(shared)}) and object-store-memory "
                f"({bytes_text(plasma)}) are more than the pod's memory, {bytes_text(limit)}",
            )


def memory_sum(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Ray, the tasks of all slots and files in memory fit the limit."""
    for group in _groups(documents):
        limit = _memory(group)
        if limit is None:
            continue
        processes = HEAD_BYTES if group.name == "head" else RAY_BYTES + slots(group) * TASK_BYTES
        needed = processes + shared_memory(group)
        if needed > limit:
            yield Finding(
                "memory-sum",
                group.where,
                f"needs {bytes_text(needed)} (Ray, {slots(group)} tasks, /dev/shm), has a limit of "
                f"{bytes_text(limit)}",
                "raise the memory or have fewer slots; `oka k8s render` computes both",
            )


def disk_sum(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Volumes on disk fit the pod's ephemeral storage."""
    for where, template in pods(documents):
        limits = template["spec"]["containers"][0].get("resources", {}).get("limits", {})
        limit = _parsed(limits.get("ephemeral-storage"))
        sizes = [
            (volume["name"], _parsed(volume["emptyDir"].get("sizeLimit")))
            for volume in template["spec"].get("volumes", [])
            if "emptyDir" in volume and volume["emptyDir"].get("medium") != "Memory"
        ]
        for volume, size in sizes:
            if size is None:
                yield Finding("disk-sum", where, f"volume {volume} has no sizeLimit")
        total = sum(size or 0 for _, size in sizes)
        if limit is not None and total > limit:
            yield Finding(
                "disk-sum",
                where,
                f"its volumes have {bytes_text(total)}, expected at most its ephemeral-storage, "
                f"{bytes_text(limit)}",
            )


def _groups(documents: Sequence[dict[str, Any]]) -> list[Group]:
    return [group for cluster in clusters(documents) for group in cluster.groups]


def _memory(group: Group) -> int | None:
    limits: Mapping[str, Any] = group.container.get("resources", {}).get("limits", {})
    return _parsed(limits.get("memory"))


def _plasma(group: Group) -> int | None:
    return _parsed(group.parameters.get("object-store-memory"))


def _parsed(amount: object) -> int | None:
    """None, too, for what does not parse: `quantities` says so."""
    try:
        return None if amount is None else int(parse(amount))
    except ValueError:
        return None
