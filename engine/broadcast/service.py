"""Models as a service of workers: a store in each task that publishes or receives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.broadcast.current import use
from engine.broadcast.relay import BlobRole, blob_roles, model_tasks
from engine.broadcast.store import ModelStore
from engine.graph.execution import ExecutionGraph
from engine.network import BlobNode
from engine.placement.place import Placement
from engine.service import Peer, Service, Site


@dataclass(frozen=True)
class ModelsPlan:
    """The part of one task; without a role no bytes go from its worker to another, or come."""

    role: BlobRole | None = None

    @property
    def peers(self) -> tuple[int, ...]:
        """Tasks that bytes go to, or come from."""
        if self.role is None:
            return ()
        return (*self.role.chain, *self.role.peers, *(task for _, task in self.role.leaders))

    @property
    def listeners(self) -> int:
        """Nodes of other hosts connect to a port of their own."""
        return 0 if self.role is None else 1

    def bind(self, site: Site) -> Models:
        """Make the store, and the node where bytes are relayed."""
        return Models(self.role, site)


def plan_models(graph: ExecutionGraph, placement: Placement) -> dict[int, ModelsPlan]:
    """The part of each task that publishes models or receives them. Raises GraphError."""
    roles = blob_roles(graph, placement)
    return {task: ModelsPlan(roles.get(task)) for task in model_tasks(graph)}


class Models(Service):
    """The models of one task."""

    def __init__(self, role: BlobRole | None, site: Site) -> None:
        self._role = role
        self._config = config = site.config
        self._local = f"{site.folder}/{site.task}.blob"
        self._node: BlobNode | None = None
        self._names: dict[str, str] = {}
        """The names of other endpoints in messages."""
        if role is not None:
            self._node = site.listen_on(
                lambda tcp: BlobNode(
                    tcp,
                    self._local,
                    encryption=config.encryption,
                    reconnect_timeout_seconds=config.reconnect_timeout_seconds,
                )
            )
        self.store = ModelStore(
            site.task, self._node, config, role, task=site.name, where=site.node
        )

    @property
    def endpoints(self) -> Mapping[str, str]:
        """The endpoints for nodes of other hosts, and for tasks of this one."""
        return {} if self._node is None else {_TCP: self._node.endpoint, _LOCAL: self._local}

    def connect(self, peers: Mapping[int, Peer]) -> None:
        """Tell the node its peers, and wait for those on this host."""
        if self._role is None or self._node is None:
            return
        role, reached = self._role, (*self._role.chain, *self._role.peers)
        tcp = {task: peers[task].endpoints[_TCP] for task in reached}
        self._names = {tcp[task]: peers[task].name for task in reached}
        self._node.connect(
            [tcp[task] for task in role.chain],
            [tcp[task] for task in role.peers],
            [(origin, peers[leader].endpoints[_LOCAL]) for origin, leader in role.leaders],
            role.followers,
            self._config.connect_timeout_seconds,
        )
        self._node.unlink()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Models that are decoded in this thread are of this store."""
        use(self.store)
        try:
            yield
        finally:
            use(None)

    def finish(self) -> None:
        """Wait until what the task published is delivered."""
        self.store.finish()

    def metrics(self) -> Mapping[str, Any]:
        """The counters of the node."""
        if self._node is None:
            return {}
        counted = self._node.statistics()
        return {
            "model_sent_bytes": counted.bytes_sent,
            "model_received_bytes": counted.bytes_received,
            "model_memory_bytes": counted.held_bytes,
            "model_chunks_resent": counted.chunks_resent,
            "model_nodes_bypassed": counted.nodes_bypassed,
            "refused_connections": counted.refused_connections,
        }

    def named(self, message: str) -> str:
        """The message with tasks in the place of their endpoints."""
        for endpoint, name in self._names.items():
            message = message.replace(endpoint, name)
        return message

    def cancel(self) -> None:
        """Make what waits for a model raise Cancelled."""
        self.store.cancel()

    def close(self) -> None:
        """Let go of all models, and of the node."""
        self.store.close()
        if self._node is not None:
            self._node.close()


_TCP, _LOCAL = "blob", "blob-local"
