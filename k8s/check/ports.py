"""Ports: those that are configured are those that the network policy names, and the other way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engine.config import ports
from engine.errors import EngineError
from k8s.check.finding import Finding
from k8s.jobs import jobs
from k8s.manifests import Group, clusters, name, of_kind


def policy_ports(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """What Ray pods may say to each other is what is configured: Ray's ports and the jobs'."""
    configured = _configured(documents)
    union = {port for _, needed in configured for port in needed}
    for policy in of_kind(documents, "NetworkPolicy"):
        for direction, peer in (("ingress", "from"), ("egress", "to")):
            for rule in policy["spec"].get(direction) or []:
                if not _among_ray_pods(policy, rule, peer):
                    continue
                named = _named(rule)
                where = f"{name(policy)} {direction}"
                for what, needed in sorted(configured, key=str):
                    if not any(set(needed) <= set(each) for each in named):
                        yield Finding(
                            "policy-ports",
                            where,
                            f"does not name {_text(needed)} ({what})",
                            "tasks would wait for their peers until the job fails",
                        )
                for each in named:
                    if not any(set(each) & set(needed) for _, needed in configured):
                        yield Finding(
                            "policy-ports", where, f"names {_text(each)}, which nothing listens on"
                        )
                    elif not set(each) <= union:
                        yield Finding(
                            "policy-ports",
                            where,
                            f"names {_text(each)}, which is more than is configured",
                        )


def one_range(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Every job has a port_range, and it shares no port with Ray."""
    ray = {
        port
        for cluster in clusters(documents)
        for _, each in _ray_ports(cluster.groups)
        for port in each
    }
    for job in jobs(documents):
        try:
            port_range = job.plan().config.port_range
        except EngineError:
            continue  # `tasks` says so
        where = name(job.document)
        if port_range is None:
            yield Finding("port-range", where, "has no port_range in its settings")
        elif not ray.isdisjoint(ports(port_range)):
            yield Finding("port-range", where, f"port_range {port_range} has ports of Ray's")


def isolation(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Ray pods are under a policy for both directions, and no rule of any lets in everybody."""
    policies = of_kind(documents, "NetworkPolicy")
    covered = {
        direction
        for policy in policies
        for direction in policy["spec"].get("policyTypes", [])
        if _selects_ray(policy["spec"]["podSelector"])
    }
    for direction in ("Ingress", "Egress"):
        if direction not in covered:
            yield Finding("isolation", "NetworkPolicy", f"none of Ray pods is for {direction}")
    for policy in policies:
        for direction, peer in (("ingress", "from"), ("egress", "to")):
            for rule in policy["spec"].get(direction) or []:
                blocks = [each.get("ipBlock", {}).get("cidr") for each in rule.get(peer) or []]
                if not rule.get(peer) or "0.0.0.0/0" in blocks or "::/0" in blocks:
                    yield Finding("isolation", f"{name(policy)} {direction}", "is for everybody")
                if not rule.get("ports"):
                    yield Finding("isolation", f"{name(policy)} {direction}", "is for all ports")


def fixed_ports(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Ray's ports are set: those that it picks by itself no policy can name."""
    for cluster in clusters(documents):
        for group in cluster.groups:
            for parameter in (*_SINGLE, *_BOUNDS):
                if parameter not in group.parameters:
                    yield Finding("fixed-ports", group.where, f"{parameter} is not set")


def _configured(documents: Sequence[dict[str, Any]]) -> set[tuple[str, range]]:
    """What listens where, of all clusters and jobs."""
    found = {each for cluster in clusters(documents) for each in _ray_ports(cluster.groups)}
    for job in jobs(documents):
        try:
            port_range = job.plan().config.port_range
        except EngineError:
            continue
        if port_range is not None:
            found.add((f"port_range of {name(job.document)}", ports(port_range)))
    return found


def _ray_ports(groups: Sequence[Group]) -> set[tuple[str, range]]:
    """What Ray listens on. Those that no one has set it picks at random: they are not there."""
    found = {("GCS", range(6379, 6380)), ("dashboard", range(8265, 8266))}
    for group in groups:
        for key in _SINGLE:
            if key in group.parameters:
                port = int(group.parameters[key])
                found.add((key, range(port, port + 1)))
        first, last = (group.parameters.get(key) for key in _BOUNDS)
        if first and last:
            found.add(("Ray workers", range(int(first), int(last) + 1)))
    return found


def _among_ray_pods(policy: dict[str, Any], rule: Any, peer: str) -> bool:
    selectors = [each.get("podSelector") for each in rule.get(peer) or [] if len(each) == 1]
    return _selects_ray(policy["spec"]["podSelector"]) and any(
        _selects_ray(selector) for selector in selectors if selector
    )


def _selects_ray(selector: Any) -> bool:
    return bool((selector.get("matchLabels") or {}).get("ray.io/is-ray-node") == "yes")


def _named(rule: Any) -> list[range]:
    return [
        range(each["port"], each.get("endPort", each["port"]) + 1)
        for each in rule.get("ports") or []
        if isinstance(each.get("port"), int)
    ]


def _text(found: range) -> str:
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


_SINGLE = (
    "node-manager-port",
    "object-manager-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "dashboard-agent-listen-port",
    "metrics-export-port",
)
_BOUNDS = ("min-worker-port", "max-worker-port")
