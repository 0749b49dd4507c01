"""Machines: what a node has for pods, its labels and its taints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from k8s.quantity import parse

Amounts: TypeAlias = Mapping[str, float]
"""CPUs, bytes of memory and of disk, by what Kubernetes calls them."""


@dataclass(frozen=True)
class Machine:
    """A node: its name, what it has for pods, its labels and taints."""

    name: str
    room: Amounts
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """Whether a pod with the toleration may be on a node with the taint."""
    exists = toleration.get("operator") == "Exists"
    return (
        toleration.get("key", taint["key"] if exists else None) == taint["key"]
        and toleration.get("effect", taint["effect"]) in ("", taint["effect"])
        and (exists or toleration.get("value", "") == taint.get("value", ""))
    )


def told(amounts: Amounts) -> str:
    """As people read it: `7 CPUs, 8Gi of memory, 10Gi of disk`."""
    if not amounts:
        return "what is not known"
    memory, disk = (f"{amounts[key] / GIB:.4g}Gi" for key in RESOURCES[1:])
    return f"{amounts['cpu']:g} CPUs, {memory} of memory, {disk} of disk"


def room_of(instance_type: str, disk: int) -> Amounts:
    """What pods of one node have; nothing is said of families that are not regular.

    `large` has 2 vCPUs, `Nxlarge` has 4 N; c, m and r have 2, 4 and 8 GiB for each of them. The
    kubelet, the system and what EKS runs on every node have 0.3 CPUs, 5 % of the memory and 1 GiB,
    a tenth of the disk and 4 GiB, images among it.
    """
    found = re.fullmatch(r"([cmr])\d[a-z]*\.(?:(large)|(\d*)xlarge)", instance_type)
    if found is None:
        return {}
    family, large, times = found.groups()
    cpus = 2 if large else 4 * int(times or 1)
    memory = (0.95 * cpus * {"c": 2, "m": 4, "r": 8}[family] - 1) * GIB
    return dict(zip(RESOURCES, (cpus - 0.3, memory, (0.9 * disk - 4) * GIB), strict=True))


def shared_machine(text: str) -> Machine:
    """The node that all share, less the operator, DNS and Kubernetes itself."""
    given = dict(part.strip().split("=", 1) for part in text.split(","))
    amounts = {key: float(parse(given.pop(key, None))) for key in RESOURCES}
    if given:
        raise ValueError(f"{sorted(given)} are not known, expected {', '.join(RESOURCES)}")
    return Machine("the node", {key: amounts[key] - SYSTEM[key] for key in amounts}, {})


MOST_NODES = 5000
"""What Kubernetes is made for."""
GIB = 1024**3
RESOURCES = ("cpu", "memory", "ephemeral-storage")
SYSTEM: Amounts = {"cpu": 1.0, "memory": 1.5 * GIB, "ephemeral-storage": 1.0 * GIB}
"""What the operator (100m, 512Mi), DNS (100m, 170Mi) and the control plane of one node ask for."""
