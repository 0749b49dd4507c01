"""Which nodes are out of reach: those whose host does not answer, twice in a row."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from engine.driver.ray import reach as ray_reach
from engine.driver.ray.reach import Reach


@pytest.fixture
def swallowing(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A port whose queue of connections is full: the next gets no answer."""
    monkeypatch.setattr(ray_reach, "_PATIENCE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = []
        for _ in range(3):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(server.getsockname())
            waiting.append(connection)
        yield server
        for connection in waiting:
            connection.close()


def node(name: str, port: int) -> dict[str, Any]:
    return {"NodeID": name, "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port}


def test_only_a_host_that_answers_nothing_is_out_of_reach(swallowing: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as answering:
        silent = node("silent", swallowing.getsockname()[1])
        others = [node("alive", answering.getsockname()[1]), node("no raylet", closed)]
        reach = Reach()
        reach.look([silent, *others])
        assert not reach.lost
        reach.look([silent, *others])
        assert reach.lost == {"silent"}
        reach.look(others)
        assert not reach.lost
        reach.look([silent])
        assert not reach.lost
