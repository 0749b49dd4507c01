"""Ray's nodes: those that live, and of these the ones that are preempted, or drained by somebody.

Ray starts nothing there any more, and takes such a node away once nothing is at work on it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import ray
from ray._private.state import state

from engine.driver.launcher import DrainingNode
from engine.driver.ray.address import by_client
from engine.driver.ray.connection import check_cluster, title
from engine.errors import DriverLost


def living_nodes() -> tuple[list[Mapping[str, Any]], list[DrainingNode]]:
    """The living nodes, and those of them that are about to go, the first to go first.

    Ray's client is not told which ones are about to go: there are none by it. Raises DriverLost
    once that of this process is gone, or the cluster. It asks the GCS three times, which takes some
    two milliseconds.
    """
    check_cluster(_PATIENCE_SECONDS)
    nodes: list[Mapping[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    alive = [node for node in nodes if node["Alive"]]
    if by_client():
        return alive, []
    names = {node["NodeID"]: title(node, alive) for node in nodes}
    own = ray.get_runtime_context().get_node_id()
    if all(node["NodeID"] != own for node in alive):
        raise DriverLost(
            f"the Ray node of {names.get(own, 'this host')} is gone, and the job's driver is "
            "there: Ray ends its workers",
            "start the job again where a Ray node lives; with checkpoints, `--resume latest` "
            "(resume='latest') goes on from the last",
        )
    ends: dict[str, int] = state.get_draining_nodes()
    ahead = time.monotonic() - time.time()
    found = [
        # In ms since 1970; 0 stands for none.
        DrainingNode(each, names[each], end / 1e3 + ahead if end else None, each == own)
        for each in (node["NodeID"] for node in alive)
        if (end := ends.get(each)) is not None
    ]
    return alive, sorted(found, key=lambda node: (node.until is None, node.until, node.id))


_PATIENCE_SECONDS = 2.0
