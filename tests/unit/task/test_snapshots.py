"""Snapshots of a task whose storage takes longer than the next barrier."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.checkpoint import TaskSnapshot
from engine.deployment.description import SnapshotFailed, SnapshotWritten, Start
from engine.task import snapshots
from engine.task.snapshots import Snapshots
from tests.memory_storage import MemoryStorage
from tests.waiting import wait_until

SNAPSHOT = TaskSnapshot("counts", 0, 1, False, ("counts",), {}, {}, {}, 0, {})


class SlowStorage(MemoryStorage):
    """It takes nothing while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.free = threading.Event()

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        self.asked += 1
        assert self.free.wait(60)
        super().put(name, *parts)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStorage]:
    storage = SlowStorage()
    monkeypatch.setattr(snapshots, "open_storage", lambda _: storage)
    yield storage
    storage.free.set()


def test_what_waits_when_the_next_barrier_comes_is_not_written(storage: SlowStorage) -> None:
    said: list[SnapshotWritten | SnapshotFailed] = []
    written = Snapshots(Start("memory", 1, 0, 0), 0, False, said.append)
    written.write(1, SNAPSHOT)
    wait_until(lambda: storage.asked)
    for epoch in (2, 3, 4):
        written.write(epoch, SNAPSHOT)
    written.write(5, replace(SNAPSHOT, finished=True))  # behind that of the barrier, not for it
    storage.free.set()
    wait_until(lambda: len(said) == 3)
    assert [each.epoch for each in said] == [1, 4, 5]
    assert len(storage.files) == 3
    written.close()


def test_nothing_is_written_once_it_is_closed(storage: SlowStorage) -> None:
    said: list[SnapshotWritten | SnapshotFailed] = []
    written = Snapshots(Start("memory", 1, 0, 0), 0, False, said.append)
    written.write(1, SNAPSHOT)
    wait_until(lambda: storage.asked)
    written.write(2, SNAPSHOT)
    written.close()
    storage.free.set()
    wait_until(lambda: said)
    wait_until(lambda: not any(each.name == "oka-snapshots" for each in threading.enumerate()))
    assert [each.epoch for each in said] == [1]
