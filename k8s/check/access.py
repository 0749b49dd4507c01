"""Who gets in: Ray's token, and no service that is open to the outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import clusters, name, of_kind, pods


def token(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Every cluster asks for the token of a Secret, and nobody sets by hand what KubeRay sets."""
    for cluster in clusters(documents):
        options = cluster.spec.get("authOptions") or {}
        if options.get("mode") != "token":
            yield Finding(
                "token",
                cluster.owner,
                f"authOptions.mode is {options.get('mode')!r}, expected 'token'",
                "without it whoever reaches the dashboard runs code in the cluster",
            )
        elif not options.get("secretName"):
            yield Finding(
                "token",
                cluster.owner,
                "authOptions has no secretName, expected the Secret with auth_token",
                "else each cluster makes a token of its own, which nobody outside of it knows",
            )
    for where, template in pods(documents):
        for container in template["spec"]["containers"]:
            for variable in container.get("env", []):
                if variable["name"] in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
                    yield Finding(
                        "token",
                        where,
                        f"{variable['name']} is set by hand, expected authOptions alone",
                        "KubeRay does not overwrite it, so that pods can come to differ",
                    )


def closed_services(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """No service is reachable from outside of the cluster."""
    types = [
        (cluster.owner, cluster.spec["headGroupSpec"].get("serviceType"))
        for cluster in clusters(documents)
    ]
    types += [(name(each), each["spec"].get("type")) for each in of_kind(documents, "Service")]
    for where, kind in types:
        if kind not in (None, "ClusterIP"):
            yield Finding(
                "closed-services",
                where,
                f"the service is of type {kind!r}, expected ClusterIP",
                "kubectl port-forward reaches the dashboard from your machine",
            )


def usage_statistics(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Ray does not report its usage."""
    for where, template in pods(documents):
        for container in template["spec"]["containers"]:
            values = {each["name"]: each.get("value") for each in container.get("env", [])}
            if values.get("RAY_USAGE_STATS_ENABLED") != "0":
                yield Finding(
                    "usage-statistics",
                    where,
                    f"RAY_USAGE_STATS_ENABLED is {values.get('RAY_USAGE_STATS_ENABLED')!r}, "
                    "expected '0'",
                )
