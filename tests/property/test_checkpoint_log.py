"""Drivers that take a job over from each other at any moment, some of them not dead at all.

Every call of the storage waits for its turn, and may then fail, before or behind what it does, or
be the last of its driver. What a driver was told that it has stored, all later ones go on from.
Where entries are damaged meanwhile, they go on from what they name; then, too, one at a time.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from engine.checkpoint import (
    CheckpointLog,
    Claim,
    Manifest,
    SnapshotWriter,
    Storage,
    TaskSnapshot,
    read_snapshot,
)
from engine.errors import CheckpointError, ConfigError, Fenced, StorageError
from engine.state import KeyedState
from tests.memory_storage import MemoryStorage


class Killed(BaseException):
    """The driver is dead."""


class World:
    """Files that all see, and whose turn it is."""

    def __init__(self, seed: int, damage: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.damage = damage
        """How probable it is in each call that an entry is damaged."""
        self.files: dict[str, bytes] = {}
        self.back = threading.Event()

    def hurt(self) -> None:
        """Damage an entry, the last as likely as all others together."""
        names = sorted(name for name in self.files if name.startswith("log/"))
        if names and self.random.random() < self.damage:
            name = self.random.choice([names[-1], self.random.choice(names)])
            self.files[name] = self.files[name].replace(b'"checksum": "', b'"checksum": "x')

    def run(self, drivers: list[Driver]) -> None:
        for driver in drivers:
            self.back.clear()
            driver.start()
            assert self.back.wait(60)
        waiting = list(drivers)
        while waiting:
            driver = waiting[min(int(self.random.expovariate(1.5)), len(waiting) - 1)]
            self.back.clear()
            driver.turn.set()
            assert self.back.wait(60)
            if driver.error is not None:
                raise driver.error
            waiting = [each for each in waiting if not each.ended]


class Driver(threading.Thread, Storage):
    """One driver: a thread that moves on only when it is its turn."""

    url = "memory"

    def __init__(self, world: World, work: Callable[[Driver], None]) -> None:
        super().__init__(daemon=True)
        self.world, self.work = world, work
        self.turn, self.ended = threading.Event(), False
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.step()
            self.work(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by `run` of the world
            self.error = error
        finally:
            self.ended = True
            self.world.back.set()

    def step(self) -> None:
        self.world.back.set()
        assert self.turn.wait(60)
        self.turn.clear()

    def call(self, work: Callable[[], object]) -> object:
        self.step()
        self.world.hurt()
        fate = self.world.random.random()
        if fate < 0.005:
            raise Killed
        if fate < 0.015:
            raise StorageError("503")
        done = work()
        if fate < 0.02:
            raise Killed
        if fate < 0.03:
            raise StorageError("the answer was lost")
        return done

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        self.call(lambda: self.world.files.__setitem__(name, b"".join(parts)))

    def get(self, name: str) -> bytes:
        found = self.call(lambda: self.world.files.get(name))
        if found is None:
            raise StorageError("none", code="NotFound")
        return found

    def create(self, name: str, data: bytes) -> bool:
        def create() -> bool:
            is_new = name not in self.world.files
            self.world.files.setdefault(name, data)
            return is_new

        return self.call(create)

    def list(self, prefix: str) -> list[str]:
        return self.call(
            lambda: sorted(name for name in self.world.files if name.startswith(f"{prefix}/"))
        )

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.call(lambda name=name: self.world.files.pop(name, None))


@pytest.mark.table(2)
@pytest.mark.parametrize("first", [0, 100, 200, 300])
def test_what_was_stored_is_gone_on_from(first):
    found = [check(seed) for seed in range(first, first + 100)]
    assert sum(stored for stored, _ in found) > 500
    assert sum(based for _, based in found) > 50


@pytest.mark.table(2)
@pytest.mark.parametrize("first", [1000, 1100])
def test_damage_does_not_let_two_drivers_go_on(first):
    found = [check(seed, damage=0.01) for seed in range(first, first + 100)]
    assert sum(stored for stored, _ in found) > 300
    assert sum(based for _, based in found) > 50


def check(seed: int, damage: float = 0.0) -> tuple[int, int]:
    """How many epochs were stored, and from how many that need several files others went on."""
    world = World(seed, damage)
    promised: list[int] = [0]
    """The last epoch that a driver knows to be stored."""
    epochs: list[int] = []
    claimed: list[int] = []
    based: list[bool] = []

    def work(driver: Driver) -> None:
        while True:
            log = CheckpointLog(driver)
            before = promised[-1]
            try:
                claim, is_latest = claimed_of(log)
            except StorageError:
                continue
            if claim is None:
                return
            base = 0 if claim.manifest is None else claim.manifest.epoch
            assert base >= before or damage, f"seed {seed}: from {base}, {before} was stored"
            assert claim.generation not in claimed, f"seed {seed}: two are {claim.generation}"
            claimed.append(claim.generation)
            break
        if claim.manifest is not None:
            needed = [file.name for file in claim.manifest.tasks[0].files]
            is_last = max(generations(world)) == claim.generation
            are_there = world.files.keys() >= set(needed)
            # What is named instead may be removed meanwhile, by a driver that is still there.
            assert are_there or not (is_last and is_latest), (
                f"seed {seed}: of {needed} some are gone"
            )
            if are_there:
                (entry,) = claim.manifest.tasks
                read = read_snapshot(MemoryStorage(world.files), entry)
                assert read.watermarks == {"": claim.manifest.epoch}
                assert read.operators == state(claim.manifest.epoch)
                based.append(len(needed) > 1)
        ended = CheckpointError if damage else Fenced  # the number's entry may be damaged
        writer = SnapshotWriter(driver, claim.generation)
        for epoch in range(claim.next_epoch, claim.next_epoch + 6):
            told = TaskSnapshot("v", 0, 1, operators=state(epoch), watermarks={"": epoch})
            try:
                entry = writer.write(epoch, told)
                newest = max(claimed)
                log.store(Manifest("job", epoch, claim.generation, (entry,)))
            except StorageError:
                continue
            except ended:
                return
            assert newest == claim.generation, f"seed {seed}: {claim.generation} is a zombie"
            promised.append(epoch)
            epochs.append(epoch)
            try:
                log.mark_committed(epoch)
                log.retain()
            except StorageError:
                continue

    world.run([Driver(world, work) for _ in range(6)])
    assert epochs == sorted(set(epochs)), f"seed {seed}: {epochs}"
    return len(epochs), sum(based)


def claimed_of(log: CheckpointLog) -> tuple[Claim | None, bool]:
    """A claim, and whether of the last epoch: where that is damaged, of what is named, if any."""
    try:
        return log.claim("latest"), True
    except CheckpointError as error:
        named = re.search(r"--resume (\d+)", error.hint or "")
    if named is None:  # none is whole
        return None, False
    try:
        return log.claim(named[1]), False
    except ConfigError:  # it is removed or damaged since
        return claimed_of(log)


@cache
def state(epoch: int) -> dict[str, KeyedState]:
    """What the task keeps at an epoch: of many keys, some change from one to the next."""
    values = {key: epoch - epoch % 7 if key > 9 else epoch for key in range(9 + epoch % 3, 300)}
    return {"count": KeyedState.of(values.items())}


def generations(world: World) -> list[int]:
    entries = (json.loads(data) for name, data in world.files.items() if name.startswith("log/"))
    return [entry["generation"] for entry in entries]
