"""Whether hosts of a Ray cluster are within reach: Ray takes a minute to see that one is not."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Mapping
from typing import Any


class Reach:
    """Looks at the raylets' ports. Only the host's kernel answers, however busy the host is."""

    def __init__(self) -> None:
        self.lost: Collection[str] = ()
        """Ids of the nodes that did not answer the last two times."""
        self._silent: Collection[str] = ()

    def look(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Look at these, one after another; each may take a second."""
        silent = {node["NodeID"] for node in nodes if not _answers(node)}
        self.lost = silent.intersection(self._silent)
        self._silent = silent


def _answers(node: Mapping[str, Any]) -> bool:
    try:
        address = node["NodeManagerAddress"], node["NodeManagerPort"]
        socket.create_connection(address, _PATIENCE_SECONDS).close()
    except ConnectionRefusedError:
        return True  # of a raylet that is gone Ray knows at once
    except OSError:
        return False
    return True


_PATIENCE_SECONDS = 1.0
