"""Values that must be what they are, as tables: a path of fields, and what is expected there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from k8s.check.finding import Lint, Mistake
from k8s.check.subject import Subject
from k8s.manifests import name, spec

Expected: TypeAlias = tuple[str, Callable[[Any], bool]]
"""What a message calls it, and whether a value is it; None is a field that is not set."""
Rows: TypeAlias = Mapping[str, Expected]
"""What is expected, by the path of a field."""


def one_of(*values: object) -> Expected:
    """One of the values, of the same type."""
    told = " or ".join("not set" if value is None else repr(value) for value in values)
    return told, lambda found: any(found == each and type(found) is type(each) for each in values)


def at_least(least: int) -> Expected:
    """A number of at least that."""
    return f"{least} or more", lambda found: isinstance(found, int) and found >= least


def within(*allowed: str) -> Expected:
    """A list of nothing but what is allowed."""
    return f"none but {', '.join(allowed)}", lambda found: set(found or ()) <= set(allowed)


def lints() -> dict[str, Lint]:
    """A lint for each table."""
    return {check: partial(_differing, tables) for check, tables in _TABLES.items()}


def _differing(tables: Mapping[str, Rows], subject: Subject) -> Iterator[Mistake]:
    for kind, where, found in _objects(subject):
        for path, (told, ok) in tables.get(kind, {}).items():
            value: Any = found
            for key in path.split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            if not ok(value):
                said = "not set" if value is None else repr(value)
                yield where, f"{path} is {said}, expected {told}", _HINTS.get(path, "")


def _objects(subject: Subject) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """All that tables are for: the kind, what messages call it, and its fields."""
    if subject.on_eks:
        addons = {each.get("name"): each for each in subject.eks.get("addons", [])}
        yield "eks", "eks/cluster.yaml", {**subject.eks, "addons": addons}
    for document in subject.documents:
        labels = {k.split("/")[-1]: v for k, v in document["metadata"].get("labels", {}).items()}
        yield document["kind"], name(document), {**document, **spec(document), "labels": labels}
    for cluster in subject.clusters:
        yield "cluster", cluster.owner, cluster.spec
        yield from (("group", group.where, group.spec) for group in cluster.groups[1:])
    for pod in subject.pods:
        volumes = [key for each in pod.spec.get("volumes", []) for key in each if key != "name"]
        yield "pod", pod.where, {**pod.spec, "volumes": volumes}
        for container in [*pod.spec["containers"], *pod.spec.get("initContainers", [])]:
            contexts = [each.get("securityContext") or {} for each in (pod.spec, container)]
            found = {
                **container,
                "env": {each["name"]: each.get("value") for each in container.get("env", [])},
                "ports": [key for port in container.get("ports", []) for key in port],
                "securityContext": {**contexts[0], **contexts[1]},
            }
            where = f"{pod.where} container {container['name']}"
            yield "container", where, found


_TABLES: dict[str, dict[str, Rows]] = {
    "eks": {
        "eks": {
            "metadata.version": one_of("1.36"),
            "addons.vpc-cni.configurationValues": (
                "enableNetworkPolicy",
                lambda found: bool(re.search(r'enableNetworkPolicy"?: *"?true', str(found))),
            ),
            "iam.withOIDC": one_of(True),
        }
    },
    "drain": {
        "cluster": {"headGroupSpec.template.spec.terminationGracePeriodSeconds": at_least(60)},
        "group": {"template.spec.terminationGracePeriodSeconds": at_least(60)},
    },
    "job-ends": {
        "RayJob": {
            "suspend": one_of(None, False),
            "backoffLimit": at_least(0),
            "activeDeadlineSeconds": (
                "not set, or 1 or more",
                lambda found: found is None or at_least(1)[1](found),
            ),
            "ttlSecondsAfterFinished": at_least(0),
            "shutdownAfterJobFinishes": one_of(True),
        }
    },
    "submitter": {
        "RayJob": {
            "submissionMode": one_of(None, "K8sJobMode"),
            "submitterConfig.backoffLimit": at_least(0),
            "submitterPodTemplate.spec.restartPolicy": one_of("Never", "OnFailure"),
            "clusterSelector": one_of(None),
        }
    },
    "closed-services": {
        "Service": {"type": one_of(None, "ClusterIP")},
        "cluster": {"headGroupSpec.serviceType": one_of(None, "ClusterIP")},
    },
    "token": {
        "cluster": {
            "authOptions.mode": one_of("token"),
            "authOptions.secretName": ("the Secret with auth_token", bool),
        },
        "container": {"env.RAY_AUTH_MODE": one_of(None), "env.RAY_AUTH_TOKEN": one_of(None)},
    },
    "fixed-size": {
        "cluster": {
            "enableInTreeAutoscaling": one_of(None, False),
            "suspend": one_of(None, False),
            "headGroupSpec.rayStartParams.num-cpus": one_of("0"),
        },
        "group": {"suspend": one_of(None, False), "numOfHosts": one_of(None, 1)},
    },
    # With what kube-score has, the restricted standard of Kubernetes.
    "restricted": {
        "pod": {
            **{key: one_of(None, False) for key in ("hostNetwork", "hostPID", "hostIPC")},
            "automountServiceAccountToken": one_of(False),
            "volumes": within(
                "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
                "persistentVolumeClaim", "projected", "secret",
            ),
        },
        "container": {
            "securityContext.allowPrivilegeEscalation": one_of(False),
            "securityContext.runAsNonRoot": one_of(True),
            "securityContext.capabilities.drop": one_of(["ALL"]),
            "securityContext.capabilities.add": within("NET_BIND_SERVICE"),
            "securityContext.seccompProfile.type": one_of("RuntimeDefault"),
            "securityContext.procMount": one_of(None, "Default"),
            "ports": within("name", "containerPort", "protocol"),
            "imagePullPolicy": one_of(None, "IfNotPresent", "Always", "Never"),
        },
    },
    "pod-security": {"Namespace": {"labels.enforce": one_of("restricted")}},
    "usage-statistics": {"container": {"env.RAY_USAGE_STATS_ENABLED": one_of("0")}},
    "references": {"ConfigMap": {"immutable": one_of(True)}},
}  # fmt: skip
_HINTS = {
    "metadata.version": "that of the schemas in k8s/schemas",
    "addons.vpc-cni.configurationValues": "network policies would be stored, not enforced",
    "iam.withOIDC": "pods would have no role, and S3 would refuse them",
    "authOptions.mode": "without it whoever reaches the dashboard runs code in the cluster",
    "authOptions.secretName": "else each cluster makes a token of its own, which nobody knows",
    "env.RAY_AUTH_MODE": "KubeRay does not overwrite it, so that pods can come to differ",
    "headGroupSpec.serviceType": "kubectl port-forward reaches the dashboard from your machine",
    "enableInTreeAutoscaling": "tasks are placed once: a new pod stays empty",
    "shutdownAfterJobFinishes": "its cluster would stay, and cost, for ever",
    "submitterPodTemplate.spec.restartPolicy": "KubeRay's own pod would break the standard",
    "immutable": "a job keeps the settings that it began with; another content is another name",
}
