"""All lints: what is wrong with manifests that no schema tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from k8s.check import (
    access,
    disruption,
    groups,
    lifecycle,
    memory,
    ports,
    quantities,
    security,
    tasks,
    versions,
)
from k8s.check.finding import Finding, Lint

LINTS: tuple[Lint, ...] = (
    access.closed_services,
    access.token,
    access.usage_statistics,
    disruption.budgets,
    groups.fixed_size,
    groups.idle_head,
    groups.one_per_node,
    groups.ray_options,
    groups.spread,
    groups.unique_groups,
    lifecycle.drain,
    lifecycle.job_ends,
    lifecycle.references,
    memory.disk_sum,
    memory.memory_sum,
    memory.object_store,
    memory.reserved,
    ports.fixed_ports,
    ports.isolation,
    ports.one_range,
    ports.policy_ports,
    quantities.quantities,
    security.no_rights,
    security.read_only_root,
    security.restricted,
    tasks.tasks,
    versions.ray_versions,
)


def lint(documents: Sequence[dict[str, Any]]) -> list[Finding]:
    """What all lints find in the documents of one overlay."""
    return [finding for each in LINTS for finding in each(documents)]
