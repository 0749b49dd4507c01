"""Ray's and Oka's pods: their images and memory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import Any

from k8s.check.finding import Finding, say
from k8s.quantity import bytes_text, parse
from k8s.render import shared_memory, slots
from k8s.size import HEAD_BYTES, RAY_BYTES, TASK_BYTES
from k8s.subject import Subject


def image(subject: Subject) -> Iterator[Finding]:
    """Containers have the folder and user of the Dockerfile, and the pinned Ray."""
    pinned = metadata.version("ray")
    user, _, group = subject.image.get("USER", "").partition(":")
    said = {"workingDir": subject.image.get("WORKDIR"), "runAsUser": user, "runAsGroup": group}
    for cluster in subject.clusters:
        if (version := cluster.spec.get("rayVersion")) != pinned:
            yield say("ray-of-cluster", cluster.owner, version=version, pinned=pinned)
    for pod in subject.pods:
        for container in pod.containers:
            contexts = [each.get("securityContext") or {} for each in (pod.spec, container)]
            fields: dict[str, Any] = {**contexts[0], **contexts[1], **container}
            for key, wanted in said.items():
                if wanted and str(fields.get(key, wanted)) != wanted:
                    yield say("not-of-image", pod.where, key=key, found=fields[key], wanted=wanted)
            tag = container.get("image", "").partition("@")[0].rpartition("/")[2].partition(":")[2]
            if tag and not tag.endswith(f"-ray{pinned}"):
                yield say("ray-of-image", pod.where, tag=tag, pinned=pinned)


def memory(subject: Subject) -> Iterator[Finding]:
    """Ray, the tasks of all slots, plasma and files in memory fit the limit."""
    for group in (group for cluster in subject.clusters for group in cluster.groups):
        limit = int(parse(group.container.get("resources", {}).get("limits", {}).get("memory", 0)))
        shared, tasks = shared_memory(group), slots(group)
        needed = shared + (HEAD_BYTES if group.name == "head" else RAY_BYTES + tasks * TASK_BYTES)
        if needed > limit > 0:
            told = {"needed": bytes_text(needed), "slots": tasks, "limit": bytes_text(limit)}
            yield say("slots", group.where, shared < limit, **told)
