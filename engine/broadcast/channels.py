"""Oka's own way: bytes go from node to node as chunks, and land once in each one's memory."""

from __future__ import annotations

from collections import deque

from engine.broadcast.backend import Node, Settings
from engine.errors import ModelError
from engine.model import Descriptor, Fetched, Layout, Package
from engine.network import ChannelLost


class Channels:
    """Models over the `BlobNode` of this worker.

    The publisher fills memory that is sent as it fills. It begins a model only when all but the
    last are delivered, so that at most two are on their way.
    """

    def __init__(self, task_id: int, node: Node | None) -> None:
        if node is None:
            raise ModelError(
                "this task has no blob node, expected one that the job planned",
                "models travel from broadcast(via=…) to the operators right behind it",
            )
        self._task_id = task_id
        self._node = node
        self._undelivered: deque[tuple[int, str]] = deque()
        """Number and name."""

    def publish(self, package: Package, number: int, settings: Settings) -> tuple[Layout, bytes]:
        """Write the package into the node's memory; each written chunk is sent at once."""
        self._wait_delivered(all_but=1)
        fill(self._node, package, self._task_id, number, relay=True)
        self._undelivered.append((number, package.name))
        return package.layout, b""

    def expect(self, descriptor: Descriptor) -> None:
        """The bytes come by themselves."""

    def fetch(self, descriptor: Descriptor, timeout: float | None) -> Fetched:
        """The node's own copy."""
        return self._node.get(descriptor.origin, descriptor.number, timeout)

    def discard(self, descriptor: Descriptor) -> bool:
        """Take it from the node, which else keeps it for this task, and let it go."""
        return taken(self._node, descriptor)

    def finish(self) -> None:
        """Wait until every node and every task of this node has the published models."""
        self._wait_delivered(all_but=0)

    def close(self) -> None:
        """The node is the worker's to close."""

    def _wait_delivered(self, all_but: int) -> None:
        while len(self._undelivered) > all_but:
            number, name = self._undelivered[0]
            try:
                self._node.wait_delivered(self._task_id, number, None)
            except ChannelLost as error:
                raise ChannelLost(f"model {name!r}, number {number}, is lost: {error}") from error
            self._undelivered.popleft()


def fill(node: Node, package: Package, origin: int, number: int, *, relay: bool) -> None:
    """Begin a blob at this node and write the package into it; given up whole if that fails."""
    landing = node.create(origin, number, package.layout.size, relay, False)
    try:
        package.write_to(landing)
        landing.finish()
    except BaseException as error:
        landing.abort(f"{type(error).__name__}: {error}")
        raise


def taken(node: Node, descriptor: Descriptor) -> bool:
    """Whether the node gave its copy now, or never will."""
    try:
        node.get(descriptor.origin, descriptor.number, 0.0)
    except TimeoutError:
        return False
    except Exception:  # noqa: BLE001 - lost or closed: there is nothing to take
        return True
    return True
