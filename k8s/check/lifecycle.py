"""How pods end and how jobs do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import clusters, name, of_kind, pods


def drain(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Pods have at least 60 s to end; workers drain first, in less than that."""
    for cluster in clusters(documents):
        for group in cluster.groups:
            grace = group.pod.get("terminationGracePeriodSeconds", 30)
            if grace < _GRACE_SECONDS:
                yield Finding(
                    "drain",
                    group.where,
                    f"terminationGracePeriodSeconds is {grace}, expected {_GRACE_SECONDS} or more",
                )
            values = {each["name"]: each.get("value") for each in group.container.get("env", [])}
            seconds = int(values.get("DRAIN_SECONDS") or 0)
            if seconds >= grace:
                yield Finding(
                    "drain",
                    group.where,
                    f"DRAIN_SECONDS is {seconds}, expected less than the {grace} s of its end",
                    "the pod would be killed while it drains",
                )
            if group.name != "head" and "preStop" not in (group.container.get("lifecycle") or {}):
                yield Finding("drain", group.where, "has no preStop that drains it")


def job_ends(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """A RayJob is tried again a few times, ends some day, and takes its cluster with it."""
    for job in of_kind(documents, "RayJob"):
        spec = job["spec"]
        for setting in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
            if setting not in spec:
                yield Finding("job-ends", name(job), f"{setting} is not set")
        if not spec.get("shutdownAfterJobFinishes"):
            yield Finding(
                "job-ends",
                name(job),
                "shutdownAfterJobFinishes is not true",
                "its cluster would stay, and cost, for ever",
            )
        if spec.get("submissionMode", "K8sJobMode") == "K8sJobMode" and (
            "submitterPodTemplate" not in spec
        ):
            yield Finding(
                "job-ends",
                name(job),
                "has no submitterPodTemplate",
                "the pod that KubeRay makes by itself breaks the restricted standard",
            )


def references(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Service accounts and ConfigMaps that pods name are there."""
    there = {(each["kind"], each["metadata"]["name"]) for each in documents}
    for where, template in pods(documents):
        pod = template["spec"]
        named = [("ServiceAccount", pod.get("serviceAccountName", "default"))]
        named += [
            ("ConfigMap", volume["configMap"]["name"])
            for volume in pod.get("volumes", [])
            if "configMap" in volume
        ]
        for kind, wanted in named:
            if (kind, wanted) not in there:
                yield Finding("references", where, f"names {kind} {wanted!r}, which is not there")
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield Finding("references", where, f"mounts {mount['name']!r}, no volume of it")


_GRACE_SECONDS = 60
