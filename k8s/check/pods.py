"""Ray's and Oka's pods: options of Ray, images, and what they hold fits in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from engine.errors import did_you_mean
from k8s.check.finding import Finding, either, note
from k8s.manifests import FOLDER, matches
from k8s.quantity import bytes_text, parse
from k8s.render import shared_memory, slots
from k8s.size import HEAD_BYTES, RAY_BYTES, TASK_BYTES
from k8s.subject import Subject, node_of


def ray_options(subject: Subject) -> Iterator[Finding]:
    """`ray start` knows every one of `rayStartParams`; Ray pods share no node, or all share one."""
    from ray.scripts.scripts import start

    known = {option.removeprefix("--") for each in start.params for option in each.opts}
    for group in (group for cluster in subject.clusters for group in cluster.groups):
        for option in sorted(group.parameters.keys() - known):
            problem = f"rayStartParams has {option!r}, which `ray start` does not take"
            yield Finding(group.where, problem, did_you_mean(option, known))
    for pod in subject.pods:
        affinity = (pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}
        apart = any(
            term["topologyKey"] == "kubernetes.io/hostname"
            and matches(term.get("labelSelector"), pod.labels)
            for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        )
        if pod.group and node_of(pod.owner) is None and not apart:
            problem = "has no anti-affinity by kubernetes.io/hostname to Ray pods of its labels"
            yield note(pod.where, problem, "two on a node share its network and its disk")


def image(subject: Subject) -> Iterator[Finding]:
    """Containers are where and who the Dockerfile says, with the pinned Ray."""
    constraints = FOLDER.parent / "constraints.txt"  # which an installed Oka does not have
    text = constraints.read_text(encoding="utf-8") if constraints.exists() else ""
    found = re.search(r"^ray==(\S+)$", text, re.MULTILINE)
    pinned = found.group(1) if found else metadata.version("ray")
    user, _, group = subject.image.get("USER", "").partition(":")
    said = {"workingDir": subject.image.get("WORKDIR"), "runAsUser": user, "runAsGroup": group}
    for cluster in subject.clusters:
        if (version := cluster.spec.get("rayVersion")) != pinned:
            yield note(cluster.owner, f"rayVersion is {version!r}, and {pinned} is tested")
    for pod in subject.pods:
        for container in pod.containers:
            contexts = [each.get("securityContext") or {} for each in (pod.spec, container)]
            fields: dict[str, Any] = {**contexts[0], **contexts[1], **container}
            for key, wanted in said.items():
                if wanted and str(fields.get(key, wanted)) != wanted:
                    problem = f"{key} is {fields[key]}, and {wanted} in the Dockerfile"
                    yield note(pod.where, problem, "an image of your own may differ")
            tag = container.get("image", "").partition("@")[0].rpartition("/")[2].partition(":")[2]
            if tag and not tag.endswith(f"-ray{pinned}"):
                problem = f"image has the tag {tag}, which does not end in -ray{pinned}"
                yield note(pod.where, problem, "workers with another Ray than the head do not join")


def pod_security(subject: Subject) -> Iterator[Finding]:
    """A namespace enforces a standard that there is, and the one that the pods keep."""
    if subject.pod_security not in ("", "restricted"):
        is_note = subject.pod_security in ("privileged", "baseline")
        problem = f"enforces {subject.pod_security!r}, expected 'restricted'"
        yield either(is_note, "Namespace", problem, "the pods of base/ keep that")


def memory(subject: Subject) -> Iterator[Finding]:
    """Ray, the tasks of all slots, plasma and files in memory fit the limit."""
    for pod in subject.pods:
        limits = [_limit(each, "memory") for each in pod.containers]
        if any(0 < limit < _LEAST_BYTES for limit in limits):
            problem = f"has a memory limit of {bytes_text(min(limits))}: Python does not start"
            yield Finding(pod.where, problem)
        for given in (each.get("resources") or {} for each in pod.containers):
            ends = [given.get(key) or {} for key in ("requests", "limits")]
            if any(ends[0].get(key) != ends[1].get(key, "") for key in ("cpu", "memory")):
                problem = f"requests {ends[0]}, with limits {ends[1]}"
                yield note(pod.where, problem, "what lies between others may take")
    for group in (group for cluster in subject.clusters for group in cluster.groups):
        shared, limit = shared_memory(group), _limit(group.container, "memory")
        plasma = str(group.parameters.get("object-store-memory", ""))
        if not plasma.isdecimal() or int(plasma) > shared:
            problem = f"object-store-memory is {plasma!r}, expected at most /dev/shm's {shared}"
            hint = "plasma is there: an emptyDir in memory with a sizeLimit"
            yield note(group.where, problem, hint)
        processes = HEAD_BYTES if group.name == "head" else RAY_BYTES + slots(group) * TASK_BYTES
        if processes + shared > limit > 0:
            needed = f"{bytes_text(processes + shared)} (Ray, {slots(group)} tasks, /dev/shm)"
            problem = f"needs {needed}, has a limit of {bytes_text(limit)}"
            hint = "more memory or fewer slots; `oka k8s render` computes both"
            yield either(shared < limit, group.where, problem, hint)


def disk(subject: Subject) -> Iterator[Finding]:
    """Volumes on disk have a size, and fit the pod's ephemeral storage."""
    for pod in subject.pods:
        volumes = [each["emptyDir"] for each in pod.spec.get("volumes", []) if "emptyDir" in each]
        sizes = [each.get("sizeLimit") for each in volumes if each.get("medium") != "Memory"]
        total = sum(int(parse(size or 0)) for size in sizes)
        limit = sum(_limit(each, "ephemeral-storage") for each in pod.spec["containers"])
        if None in sizes or total > limit > 0:
            problem = f"volumes have {bytes_text(total)}, or no sizeLimit, and the pod has "
            yield note(pod.where, f"{problem}{bytes_text(limit)} of ephemeral-storage")


def _limit(container: Mapping[str, Any], resource: str) -> int:
    return int(parse(((container.get("resources") or {}).get("limits") or {}).get(resource, 0)))


_LEAST_BYTES = 64 * 1024**2
