"""Disruption budgets that protect a running job and do not block for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import clusters, name, of_kind


def budgets(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Budgets keep a number of pods, at most as many as they select; each RayJob has one."""
    found = of_kind(documents, "PodDisruptionBudget")
    for budget in found:
        spec = budget["spec"]
        available = spec.get("minAvailable")
        if (
            "maxUnavailable" in spec
            or isinstance(available, bool)
            or not isinstance(available, int)
        ):
            key = "maxUnavailable" if "maxUnavailable" in spec else "minAvailable"
            yield Finding(
                "budgets",
                name(budget),
                f"{key} is {spec.get(key)!r}, expected minAvailable as a number of pods",
                "for anything else Kubernetes asks the pods' controller how many there should be, "
                "which a RayCluster does not tell, and then allows no eviction at all",
            )
            continue
        pods = _pods(documents, spec["selector"].get("matchLabels") or {})
        if not 1 <= available <= pods:
            yield Finding(
                "budgets",
                name(budget),
                f"minAvailable is {available}, expected 1 to {pods}, the pods that it selects",
            )
    for job in of_kind(documents, "RayJob"):
        cluster = next(c for c in clusters(documents) if c.document is job)
        pods = sum(group.replicas for group in cluster.groups)
        labels = cluster.groups[0].spec["template"]["metadata"]["labels"]
        of_job = [
            budget["spec"].get("minAvailable")
            for budget in found
            if _selected(labels, budget["spec"]["selector"].get("matchLabels") or {})
        ]
        if pods not in of_job:
            yield Finding(
                "budgets",
                name(job),
                f"no budget keeps all {pods} of its pods, expected one with that minAvailable",
                "a pod that is evicted ends the job",
            )


def _pods(documents: Sequence[dict[str, Any]], wanted: Mapping[str, str]) -> int:
    return sum(
        group.replicas
        for cluster in clusters(documents)
        for group in cluster.groups
        if _selected(
            group.spec["template"].get("metadata", {}).get("labels", {}), wanted, group.name
        )
    )


def _selected(labels: Mapping[str, str], wanted: Mapping[str, str], group: str = "head") -> bool:
    added = {
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "head" if group == "head" else "worker",
    }
    return bool(wanted) and all({**labels, **added}.get(key) == wanted[key] for key in wanted)
