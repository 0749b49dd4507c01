"""Nodes of EKS that are large enough for the pods that select them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import clusters
from k8s.quantity import bytes_text, parse


def nodes_hold_pods(
    documents: Sequence[dict[str, Any]], eks: Mapping[str, Any]
) -> Iterator[Finding]:
    """Every group of pods selects a node group of `eks`, an eksctl ClusterConfig, that holds one.

    What a node has left for pods is estimated: all of it but 0.3 CPUs, 5 % of the memory and 1 GiB,
    which are the kubelet's, the system's and those of the pods that EKS puts on every node.
    """
    for cluster in clusters(documents):
        for group in cluster.groups:
            wanted = group.pod.get("nodeSelector") or {}
            found = [each for each in eks["managedNodeGroups"] if _selected(each, wanted)]
            if not found:
                yield Finding("nodes", group.where, f"no node group has the labels {wanted}")
            for each in found:
                size = _size(each["instanceType"])
                if size is None:
                    continue
                limits = (group.container.get("resources") or {}).get("limits") or {}
                try:
                    cpus, memory = float(parse(limits["cpu"])), int(parse(limits["memory"]))
                except (KeyError, ValueError):
                    continue  # `reserved` and `quantities` say so
                if cpus > size[0] or memory > size[1]:
                    yield Finding(
                        "nodes",
                        group.where,
                        f"asks for {cpus:g} CPUs and {bytes_text(memory)}, and a node of "
                        f"{each['name']!r} ({each['instanceType']}) has about {size[0]:g} and "
                        f"{size[1] / _GIB:.1f}Gi for pods",
                        "they would stay Pending",
                    )


def _selected(node_group: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    labels = node_group.get("labels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def _size(instance_type: str) -> tuple[float, float] | None:
    """CPUs and bytes that pods of one node have; None for families that are not regular.

    `large` has 2 vCPUs, `Nxlarge` has 4 N; c, m and r have 2, 4 and 8 GiB for each of them.
    """
    found = re.fullmatch(r"([cmr])\d[a-z]*\.(?:(large)|(\d*)xlarge)", instance_type)
    if found is None:
        return None
    family, large, times = found.groups()
    cpus = 2 if large else 4 * int(times or 1)
    return cpus - 0.3, (0.95 * cpus * {"c": 2, "m": 4, "r": 8}[family] - 1) * _GIB


_GIB = 1024**3
