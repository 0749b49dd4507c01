"""A blob node without a network: all nodes are one dict."""

from __future__ import annotations

from typing import Any

import pytest

from engine.broadcast import ModelStore
from engine.config import JobConfig
from engine.model import MemoryLanding


class Memory(MemoryLanding):
    def __init__(self, node: Node, key: tuple[int, int], size: int) -> None:
        super().__init__(size)
        self._node, self._key = node, key

    def finish(self) -> memoryview:
        self._node.blobs[self._key] = super().finish()
        return self._node.blobs[self._key]

    def abort(self, reason: str) -> None:
        self._node.aborted[self._key] = reason


class Node:
    def __init__(self) -> None:
        self.blobs: dict[tuple[int, int], memoryview] = {}
        self.aborted: dict[tuple[int, int], str] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.cancelled = False

    def create(self, origin: int, number: int, size: int, relay: bool, consume: bool) -> Memory:
        self.calls.append(("create", number, relay, consume))
        return Memory(self, (origin, number), size)

    def get(self, origin: int, number: int, timeout_seconds: float | None = None) -> memoryview:
        """Takes it away: a task gets each blob once."""
        self.calls.append(("get", number))
        if (origin, number) not in self.blobs:
            raise TimeoutError("not here")
        return self.blobs.pop((origin, number))

    def wait_delivered(
        self, origin: int, number: int, timeout_seconds: float | None = None
    ) -> None:
        self.calls.append(("wait_delivered", number))

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def store(node: Node) -> ModelStore:
    return ModelStore(3, node, JobConfig(), task="publish[0]", where="n1")
