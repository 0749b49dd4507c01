"""Pods that the restricted standard of Kubernetes takes, and a root that no one can write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import pods


def restricted(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Nothing of a pod breaks the standard `restricted`."""
    for where, template in pods(documents):
        pod = template["spec"]
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(key):
                yield Finding("restricted", where, f"{key} is true")
        for volume in pod.get("volumes", []):
            kinds = set(volume) - {"name"}
            if not kinds <= _VOLUMES:
                yield Finding("restricted", where, f"volume {volume['name']} is {kinds}")
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            context = {
                **(pod.get("securityContext") or {}),
                **(container.get("securityContext") or {}),
            }
            for problem in _problems(context):
                yield Finding("restricted", f"{where} container {container['name']}", problem)


def read_only_root(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """The root cannot be written; /tmp and the home can, and vanish with the pod."""
    for where, template in pods(documents):
        pod = template["spec"]
        empty = {volume["name"] for volume in pod.get("volumes", []) if "emptyDir" in volume}
        for container in pod["containers"]:
            if not (container.get("securityContext") or {}).get("readOnlyRootFilesystem"):
                yield Finding("read-only-root", where, "readOnlyRootFilesystem is not true")
            home = next(
                (each.get("value") for each in container.get("env", []) if each["name"] == "HOME"),
                None,
            )
            writable = {
                mount["mountPath"]
                for mount in container.get("volumeMounts", [])
                if mount["name"] in empty
            }
            for path in ("/tmp", home):  # noqa: S108 - a mount point
                if path not in writable:
                    yield Finding(
                        "read-only-root",
                        where,
                        f"has no emptyDir at {path or 'a HOME of its own'}",
                        "Ray, and what it starts, writes there",
                    )


def no_rights(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Pods have a service account of their own and no token for the API of Kubernetes."""
    for where, template in pods(documents):
        if template["spec"].get("serviceAccountName") in (None, "default"):
            yield Finding("no-rights", where, "has no service account of its own")
        if template["spec"].get("automountServiceAccountToken") is not False:
            yield Finding("no-rights", where, "automountServiceAccountToken is not false")


def _problems(context: Mapping[str, Any]) -> Iterator[str]:
    if context.get("privileged"):
        yield "privileged is true"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if context.get("runAsNonRoot") is not True:
        yield "runAsNonRoot is not true"
    if context.get("runAsUser") == 0:
        yield "runAsUser is 0, which is root"
    capabilities = context.get("capabilities") or {}
    if capabilities.get("drop") != ["ALL"]:
        yield f"capabilities.drop is {capabilities.get('drop')}, expected ['ALL']"
    if set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}:
        yield f"capabilities.add is {capabilities['add']}, expected none"
    profile = (context.get("seccompProfile") or {}).get("type")
    if profile not in ("RuntimeDefault", "Localhost"):
        yield f"seccompProfile is {profile}, expected RuntimeDefault"


_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip
