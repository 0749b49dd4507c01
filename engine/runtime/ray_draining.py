"""Nodes of Ray that are about to go: preempted, or drained by somebody.

Ray starts nothing there any more, and takes such a node away once nothing is at work on it.
"""

from __future__ import annotations

import time

import ray
from ray._private.state import state

from engine.errors import DriverLost
from engine.runtime.launcher import DrainingNode
from engine.runtime.ray_address import by_client
from engine.runtime.ray_connection import title


def draining_nodes() -> list[DrainingNode]:
    """Those that live still, the first to go first; none by Ray's client, which is not told.

    Raises DriverLost once that of this process is gone. It asks the GCS twice, which takes about a
    millisecond.
    """
    if by_client():
        return []
    own = ray.get_runtime_context().get_node_id()
    nodes = {node["NodeID"]: node for node in ray.nodes()}  # type: ignore[no-untyped-call]
    alive = {each: title(node, [*nodes.values()]) for each, node in nodes.items() if node["Alive"]}
    if own not in alive:
        there = title(nodes[own], [*nodes.values()]) if own in nodes else "this host"
        raise DriverLost(
            f"the Ray node of {there} is gone, and the job's driver is there: Ray ends its workers",
            "start the job again where a Ray node lives; with checkpoints, `--resume latest` "
            "(resume='latest') goes on from the last",
        )
    ends: dict[str, int] = state.get_draining_nodes()
    ahead = time.monotonic() - time.time()
    found = [
        # In ms since 1970; 0 stands for none.
        DrainingNode(each, alive[each], end / 1e3 + ahead if end else None, each == own)
        for each, end in ends.items()
        if each in alive
    ]
    return sorted(found, key=lambda node: (node.until is None, node.until, node.id))
