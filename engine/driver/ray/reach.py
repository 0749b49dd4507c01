"""A check that a Ray cluster's hosts can be reached: Ray needs a minute to notice a lost one."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Mapping
from typing import Any


class Reach:
    """Connects to the raylets' ports. The host's kernel answers, however busy the host is."""

    def __init__(self) -> None:
        self.lost: Collection[str] = ()
        """Ids of the nodes that did not answer the last two times."""
        self._silent: Collection[str] = ()

    def look(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Connect to these, one after another; each may take a second."""
        silent = {node["NodeID"] for node in nodes if not _answers(node)}
        self.lost = silent.intersection(self._silent)
        self._silent = silent


def _answers(node: Mapping[str, Any]) -> bool:
    try:
        address = node["NodeManagerAddress"], node["NodeManagerPort"]
        socket.create_connection(address, _PATIENCE_SECONDS).close()
    except ConnectionRefusedError:
        return True  # Ray notices at once that a raylet is gone
    except OSError:
        return False
    return True


_PATIENCE_SECONDS = 1.0
