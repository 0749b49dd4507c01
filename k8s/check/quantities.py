"""Amounts that parse. Schemas take any text, and KubeRay silently skips what it cannot read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import clusters, pods
from k8s.quantity import parse


def quantities(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Every amount of memory, CPU, storage and Ray resources parses and is not negative."""
    for where, path, amount in _amounts(documents):
        try:
            negative = parse(amount) < 0
        except ValueError as error:
            yield Finding("quantities", where, f"{path}: {error}")
            continue
        if negative:
            yield Finding("quantities", where, f"{path}: {amount!r} is negative")


def _amounts(documents: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, object]]:
    for where, template in pods(documents):
        for container in template["spec"]["containers"]:
            for kind, resources in (container.get("resources") or {}).items():
                if isinstance(resources, Mapping):
                    for resource, amount in resources.items():
                        yield where, f"resources.{kind}.{resource}", amount
        for volume in template["spec"].get("volumes", []):
            if "sizeLimit" in (volume.get("emptyDir") or {}):
                yield where, f"volume {volume['name']}", volume["emptyDir"]["sizeLimit"]
    for cluster in clusters(documents):
        for group in cluster.groups:
            for resource, amount in (group.spec.get("resources") or {}).items():
                yield group.where, f"resources.{resource}", amount
            for parameter in ("num-cpus", "memory", "object-store-memory"):
                if parameter in group.parameters:
                    yield group.where, parameter, group.parameters[parameter]
