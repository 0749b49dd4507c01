"""Pods: what they name is there, what they hold fits in, and they end in time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

import click

from k8s.check.finding import Mistake
from k8s.check.subject import Subject
from k8s.manifests import COMPONENT, FOLDER, component, matches, name, namespace
from k8s.quantity import bytes_text, parse
from k8s.render import shared_memory, slots
from k8s.size import HEAD_BYTES, RAY_BYTES, TASK_BYTES


def references(subject: Subject) -> Iterator[Mistake]:
    """What pods name is there: accounts, volumes, their job, and a ConfigMap that no other has."""
    there = {(name(each), namespace(each)) for each in subject.documents}
    users: dict[str, set[str]] = {}
    for pod in subject.pods:
        volumes = {each["name"]: each for each in pod.spec.get("volumes", [])}
        maps = [each["configMap"].get("name") for each in volumes.values() if "configMap" in each]
        for each in maps:
            users.setdefault(f"ConfigMap/{each}", set()).add(name(pod.owner))
        accounts = [f"ServiceAccount/{pod.spec.get('serviceAccountName', 'default')}"]
        for wanted in (*accounts, *(f"ConfigMap/{each}" for each in maps)):
            if (wanted, namespace(pod.owner)) not in there:
                yield pod.where, f"names {wanted}, which is not there"
        if pod.labels.get(COMPONENT) != component(pod.owner):
            yield pod.where, f"its label {COMPONENT} is not that of {name(pod.owner)}"
        for mount in (m for each in pod.spec["containers"] for m in each.get("volumeMounts", [])):
            if mount["name"] not in volumes:
                yield pod.where, f"mounts {mount['name']!r}, no volume of it"
        for each in pod.spec.get("topologySpreadConstraints", []):
            if not matches(each.get("labelSelector"), pod.labels):
                yield pod.where, f"is spread by the labels {each.get('labelSelector')}, of others"
    for wanted, owners in users.items():
        if len(owners) > 1:
            yield wanted, f"is of {' and '.join(sorted(owners))}, expected one"


def image(subject: Subject) -> Iterator[Mistake]:
    """Containers are where and who the Dockerfile says; only /tmp and the home can be written."""
    user, _, group = subject.image.get("USER", "").partition(":")
    said = {"workingDir": subject.image.get("WORKDIR"), "runAsUser": user, "runAsGroup": group}
    for pod in subject.pods:
        empty = {each["name"] for each in pod.spec.get("volumes", []) if "emptyDir" in each}
        for container in pod.spec["containers"]:
            contexts = [each.get("securityContext", {}) for each in (pod.spec, container)]
            found = {**contexts[0], **contexts[1], **container}
            for key, wanted in said.items():
                if wanted and str(found.get(key, wanted)) != wanted:
                    problem = f"{key} is {found[key]}, expected {wanted}, as the Dockerfile says"
                    yield pod.where, problem
            mounts = container.get("volumeMounts", [])
            there = {each["mountPath"] for each in mounts if each["name"] in empty}
            wanted_paths = ["/tmp", _variables(container).get("HOME")]  # noqa: S108 - mount points
            for path in wanted_paths + (["/dev/shm"] if pod.group else []):  # noqa: S108
                if path not in there:
                    yield pod.where, f"has no emptyDir at {path or 'a HOME of its own'}"


def ray_version(subject: Subject) -> Iterator[Mistake]:
    """`rayVersion` is the pinned Ray's, and the tag of every image says the same."""
    pinned = _pinned_ray()
    for cluster in subject.clusters:
        version = cluster.spec.get("rayVersion")
        if version != pinned:
            yield cluster.owner, f"rayVersion is {version!r}, expected {pinned}, as tested"
    for pod in subject.pods:
        for container in pod.spec["containers"]:
            tag = container.get("image", "").partition("@")[0].rpartition(":")[2]
            if not tag.endswith(f"-ray{pinned}"):
                problem = f"image is {container.get('image')!r}, expected a tag with -ray{pinned}"
                yield pod.where, problem, "workers with another Ray than the head do not join"


def drain(subject: Subject) -> Iterator[Mistake]:
    """Workers drain as they end, in less time than they have for that."""
    from k8s.command import drain as command

    for group in (group for cluster in subject.clusters for group in cluster.groups[1:]):
        grace = group.pod.get("terminationGracePeriodSeconds", 30)
        seconds = _variables(group.container).get("DRAIN_SECONDS") or "60"
        hook = group.container.get("lifecycle", {}).get("preStop", {})
        words = hook.get("exec", {}).get("command", [])
        try:
            given = [f"--seconds={seconds}", *words[len(_DRAIN) :]]
            seconds = command.make_context("drain", given).params["seconds"]
            problem = "" if words[: len(_DRAIN)] == _DRAIN else f"expected {' '.join(_DRAIN)}"
            problem = problem or (f"it may take all of {grace} s" if seconds >= grace else "")
        except click.ClickException as error:
            problem = error.format_message()
        if problem:
            problem = f"preStop is {words}, DRAIN_SECONDS {seconds!r}: {problem}"
            yield group.where, problem, "else it is killed before its tasks have ended"


def memory(subject: Subject) -> Iterator[Mistake]:
    """Ray, the tasks of all slots, plasma and files in memory fit the limit."""
    for group in (group for cluster in subject.clusters for group in cluster.groups):
        shared, limit = shared_memory(group), _limit(group.container, "memory")
        plasma = group.parameters.get("object-store-memory", "")
        if not plasma.isdecimal() or int(plasma) > shared:
            problem = (
                f"object-store-memory is {plasma!r}, expected bytes, at most /dev/shm's {shared}"
            )
            yield group.where, problem, "plasma is there: an emptyDir in memory with a sizeLimit"
        processes = HEAD_BYTES if group.name == "head" else RAY_BYTES + slots(group) * TASK_BYTES
        if processes + shared > limit:
            needed = f"{bytes_text(processes + shared)} (Ray, {slots(group)} tasks, /dev/shm)"
            problem = f"needs {needed}, has a limit of {bytes_text(limit)}"
            yield group.where, problem, "more memory or fewer slots; `oka k8s render` computes both"


def disk(subject: Subject) -> Iterator[Mistake]:
    """Volumes on disk have a size, and fit the pod's ephemeral storage."""
    for pod in subject.pods:
        volumes = [each["emptyDir"] for each in pod.spec.get("volumes", []) if "emptyDir" in each]
        sizes = [each.get("sizeLimit") for each in volumes if each.get("medium") != "Memory"]
        total = sum(int(parse(size)) for size in sizes if size is not None)
        limit = sum(_limit(each, "ephemeral-storage") for each in pod.spec["containers"])
        if None in sizes:
            yield pod.where, "a volume on disk has no sizeLimit"
        if total > limit:
            problem = f"volumes have {bytes_text(total)}, expected its ephemeral-storage at most, "
            yield pod.where, problem + bytes_text(limit)


def _variables(container: Mapping[str, Any]) -> dict[str, str | None]:
    return {each["name"]: each.get("value") for each in container.get("env", [])}


def _limit(container: Mapping[str, Any], resource: str) -> int:
    """0 for none, of which kube-score tells."""
    return int(parse(((container.get("resources") or {}).get("limits") or {}).get(resource, 0)))


def _pinned_ray() -> str:
    """Ray's version in constraints.txt, or, in an installed Oka, the one that is installed."""
    constraints = FOLDER.parent / "constraints.txt"
    text = constraints.read_text(encoding="utf-8") if constraints.exists() else ""
    found = re.search(r"^ray==(\S+)$", text, re.MULTILINE)
    return found.group(1) if found else metadata.version("ray")


_DRAIN = ["oka", "k8s", "drain"]
