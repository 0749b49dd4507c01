"""Ray's living nodes, and those of them that are preempted or drained.

Ray starts nothing there any more, and takes such a node away once nothing is at work on it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import ray

from engine.driver.launcher import DrainingNode
from engine.driver.ray.address import by_client
from engine.driver.ray.connection import head, title
from engine.errors import DriverLost


def living_nodes(patience: float = 2.0) -> tuple[list[Mapping[str, Any]], list[DrainingNode]]:
    """The living nodes, and those of them that will go, the first to go first.

    With Ray's client no node is known to go: the client is not told. Raises DriverLost once the
    node of this process is gone, and Ray's RpcError where the GCS does not answer. It asks the GCS
    twice, which takes about 1.5 ms. `ray.nodes()` would end the process if the head began anew
    meanwhile.
    """
    if by_client():
        found = ray.nodes()  # type: ignore[no-untyped-call]
        return [node for node in found if node["Alive"]], []
    gcs = head()
    nodes = [_node(each) for each in gcs.get_all_node_info(timeout=patience).values()]
    alive = [node for node in nodes if node["Alive"]]
    names = {node["NodeID"]: title(node, alive) for node in nodes}
    own = ray.get_runtime_context().get_node_id()
    if all(node["NodeID"] != own for node in alive):
        raise DriverLost(
            f"the Ray node of {names.get(own, 'this host')} is gone, and the job's driver is "
            "there: Ray ends its workers",
            "start the job again where a Ray node lives; with checkpoints, `--resume latest` "
            "(resume='latest') goes on from the last",
        )
    ends: dict[str, int] = gcs.get_draining_nodes(timeout=patience)
    ahead = time.monotonic() - time.time()
    goes = [
        # In ms since 1970; 0 stands for none.
        DrainingNode(each, names[each], end / 1e3 + ahead if end else None, each == own)
        for each in (node["NodeID"] for node in alive)
        if (end := ends.get(each)) is not None
    ]
    return alive, sorted(goes, key=lambda node: (node.until is None, node.until, node.id))


def _node(told: Any) -> Mapping[str, Any]:
    """A node as `ray.nodes()` has it."""
    return {
        "NodeID": told.node_id.hex(),
        "NodeManagerAddress": told.node_manager_address,
        "NodeManagerPort": told.node_manager_port,
        "NodeName": told.node_name,
        "Alive": told.state == _ALIVE,
        "Resources": dict(told.resources_total),
    }


_ALIVE = 0
"""Of a GcsNodeInfo."""
