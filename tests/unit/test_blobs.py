"""Large values between nodes of one process, and between processes of which one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.network import (
    BlobNode,
    Cancelled,
    ChannelLost,
    NetworkError,
    ResourceError,
)

Open = Callable[..., BlobNode]
LIMIT = 20.0


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Makes nodes, whose local sockets are gone in the end."""
    nodes: list[BlobNode] = []

    def open_node(**settings: Any) -> BlobNode:
        settings = {
            "chunk_bytes": 65_536,
            "reconnect_timeout_seconds": 3.0,
            "bypass_seconds": 1.0,
        } | settings
        nodes.append(BlobNode("tcp://127.0.0.1:0", f"{tmp_path}/{len(nodes)}", **settings))
        return nodes[-1]

    yield open_node
    for node in nodes:
        node.close()
    assert list(tmp_path.iterdir()) == []


def chained(opened: Open, length: int, **settings: Any) -> list[BlobNode]:
    """An origin and a chain of nodes behind it."""
    nodes = [opened(**settings) for _ in range(length + 1)]
    endpoints = [node.endpoint for node in nodes]
    for node in nodes:
        node.connect(endpoints[1:] if node is nodes[0] else [], endpoints, [], 0, LIMIT)
    return nodes


def publish(node: BlobNode, number: int, data: Any, *, consume: bool = False) -> None:
    landing = node.create(0, number, memoryview(data).nbytes, True, consume)
    landing.write(data)
    landing.finish()


@pytest.mark.parametrize("encryption", [False, True])
def test_every_node_of_a_chain_gets_the_bytes(opened: Open, encryption: bool) -> None:
    nodes = chained(opened, 3, encryption=encryption)
    model = np.random.default_rng(1).random((100, 1000))
    publish(nodes[0], 0, model, consume=True)
    for node in nodes:
        blob = node.get(0, 0, LIMIT)
        assert len(blob) == model.nbytes
        assert blob.landed_ns > 0
        view = memoryview(blob)
        assert view.readonly
        assert view.contiguous
        with pytest.raises(TypeError, match="read-only"):
            view[0] = 1
        array = np.frombuffer(view)
        del blob, view  # the array keeps the bytes
        np.testing.assert_array_equal(array.reshape(model.shape), model)
    nodes[0].wait_delivered(0, 0, LIMIT)
    assert nodes[1].statistics().bytes_received == nodes[1].statistics().bytes_sent == model.nbytes
    del array
    assert nodes[0].statistics().held_bytes == 0


def test_blobs_are_filled_from_pieces_files_and_views(opened: Open, tmp_path: Path) -> None:
    origin, node = chained(opened, 1)
    file = tmp_path / "model.bin"
    file.write_bytes(bytes(range(256)) * 1000)
    landing = origin.create(0, 0, 256_005, True, False)
    landing.write(b"ab")
    landing.write(b"")
    landing.write(bytearray(b"c"))
    landing.write_file(str(file))
    landing.write_file(str(file), 98, 2)
    file.unlink()
    landing.finish()
    assert bytes(memoryview(node.get(0, 0, LIMIT))) == b"abc" + bytes(range(256)) * 1000 + b"bc"

    landing = origin.create(0, 1, 200_000, True, False)
    view = landing.view()
    view[100_000:] = b"y" * 100_000
    view[:100_000] = b"x" * 100_000
    landing.advance(200_000)
    landing.finish()
    view[:] = b"z" * 200_000
    assert bytes(memoryview(node.get(0, 1, LIMIT))) == b"x" * 100_000 + b"y" * 100_000
    publish(origin, 2, b"")
    assert bytes(memoryview(node.get(0, 2, LIMIT))) == b""
    assert origin.create(0, 3, 0, False, False).view().nbytes == 0


def test_followers_map_the_copy_of_their_leader(opened: Open, tmp_path: Path) -> None:
    leader, *followers = [opened() for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        joined = [
            pool.submit(follower.connect, [], [], [(0, f"{tmp_path}/0")], 0, LIMIT)
            for follower in followers
        ]
        leader.connect([], [], [], 2, LIMIT)
        for future in joined:
            future.result(LIMIT)
    leader.unlink()
    publish(leader, 0, b"model")
    blobs = [follower.get(0, 0, LIMIT) for follower in followers]
    leader.wait_delivered(0, 0, LIMIT)
    leader.close()
    assert [bytes(memoryview(blob)) for blob in blobs] == [b"model"] * 2
    with pytest.raises(ChannelLost, match="leader"):
        followers[0].get(0, 1, LIMIT)


def test_what_goes_wrong_is_said(opened: Open, tmp_path: Path) -> None:
    origin, node = chained(opened, 1)
    with pytest.raises(ResourceError, match="hint: "):
        origin.create(0, 0, 1 << 50, True, False)
    landing = origin.create(0, 0, 4, True, False)
    with pytest.raises(ValueError, match="begun before"):
        origin.create(0, 0, 4, True, False)
    with pytest.raises(ValueError, match="only 0 of 4"):
        landing.finish()
    with pytest.raises(ValueError, match="5 bytes for a blob of 4"):
        landing.write(b"12345")
    with pytest.raises(BufferError, match="contiguous"):
        landing.write(memoryview(b"12345678")[::2])
    with pytest.raises(OSError, match="nowhere"):
        landing.write_file(f"{tmp_path}/nowhere")
    with pytest.raises(RuntimeError, match="view"):
        landing.advance(1)
    with pytest.raises(TimeoutError):
        node.get(0, 0, 0.01)
    landing.abort("no more")
    with pytest.raises(ChannelLost, match="no more"):
        node.get(0, 0, LIMIT)
    with pytest.raises(ChannelLost, match="no more"):
        origin.wait_delivered(0, 0, LIMIT)
    with pytest.raises(RuntimeError, match="connected already"):
        node.connect([], [], [], 0, LIMIT)
    with pytest.raises(ValueError, match="hint: "):
        opened().connect(["ipc:///a"], [], [], 0, LIMIT)
    with pytest.raises(ValueError, match="chunk_bytes"):
        opened(chunk_bytes=1)
    with pytest.raises(NetworkError, match="0 of 1 followers"):
        opened().connect([], [], [], 1, 0.01)


def test_cancelling_wakes_who_waits(opened: Open) -> None:
    _, node = chained(opened, 1, reconnect_timeout_seconds=LIMIT)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(node.get, 0, 0)
        threading.Timer(0.05, node.cancel).start()
        with pytest.raises(Cancelled):
            waiting.result(LIMIT)


CHILD = """
import sys
from engine.network import BlobNode

node = BlobNode("tcp://127.0.0.1:0", sys.argv[1], chunk_bytes=65_536, bypass_seconds=1.0)
print(node.endpoint, flush=True)
node.connect([], [sys.argv[2]], [], 0, 20.0)
node.unlink()
print("connected", flush=True)
node.get(0, 0, 20.0)
"""


def test_a_process_that_is_killed_leaves_nothing_and_the_others_finish(
    opened: Open, tmp_path: Path
) -> None:
    origin, last = opened(), opened()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, f"{tmp_path}/child", origin.endpoint],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        endpoint = child.stdout.readline().strip()
        assert child.stdout.readline() == "connected\n"
        origin.connect([endpoint, last.endpoint], [], [], 0, LIMIT)
        last.connect([], [origin.endpoint, endpoint], [], 0, LIMIT)
        model = os.urandom(4_000_000)
        landing = origin.create(0, 0, len(model), True, False)
        landing.write(model[:2_000_000])
        for _ in range(1000):
            if last.statistics().bytes_received >= 1_900_000:
                break
            threading.Event().wait(0.01)
        assert last.statistics().bytes_received >= 1_900_000, "the child relayed nothing"
        child.send_signal(signal.SIGKILL)
        child.wait(LIMIT)
        landing.write(model[2_000_000:])
        landing.finish()
        assert bytes(memoryview(last.get(0, 0, LIMIT))) == model
        assert last.statistics().bytes_received == len(model)
        with pytest.raises(ChannelLost) as lost:
            origin.wait_delivered(0, 0, LIMIT)
        assert endpoint in str(lost.value)
        assert last.endpoint not in str(lost.value)
        assert origin.statistics().nodes_bypassed == 1
    finally:
        child.kill()
        child.wait(LIMIT)
        if child.stdout is not None:
            child.stdout.close()
    assert not (tmp_path / "child").exists()
