"""Files of what has changed: whatever came between, an epoch that is stored is all of its state.

Jobs in memory are driven by seeds through changes of their state, epochs that are stored, given up
or torn, new attempts with another parallelism, savepoints and their end.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from engine.checkpoint import (
    CheckpointLog,
    Manifest,
    SnapshotEntry,
    SnapshotWriter,
    TaskSnapshot,
    plan_restore,
    read_snapshot,
)
from engine.errors import StorageError
from engine.state import KeyedState
from tests.memory_storage import MemoryStorage

KEYS, STEPS = 500, 40
OPERATORS = ("count", "rare")


class Job:
    """A job of some tasks that keep a number for each key, and where it goes on from."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.storage = MemoryStorage()
        self.state: dict[str, dict[str, int]] = {name: {} for name in OPERATORS}
        self.kept: dict[int, dict[str, dict[str, int]]] = {0: self.state}
        """What was kept at epochs that are stored."""
        self.files: Counter[int] = Counter()
        """How often a task of a stored epoch has needed so many."""
        self.claim()

    def claim(self) -> None:
        """A driver goes on from the last epoch that is stored."""
        self.log = CheckpointLog(self.storage)
        claim = self.log.claim("latest")
        self.generation, self.epoch = claim.generation, claim.next_epoch - 1
        self.restart()

    def restart(self) -> None:
        """All tasks begin anew, maybe more of them or fewer."""
        manifests = self.log.manifests()
        last = manifests[-1].epoch if manifests else 0
        self.state = {name: dict(kept) for name, kept in self.kept[last].items()}
        self.parallelism = self.random.randint(1, 3)
        self.writers = [
            SnapshotWriter(self.storage, self.generation) for _ in range(self.parallelism)
        ]
        self.epoch += 1  # as that of tasks of the attempt before which had finished

    def change(self) -> None:
        """Records come: of few keys or of many, some of which are gone behind them."""
        for name, most in zip(OPERATORS, (KEYS, 20), strict=True):
            count = self.random.choice([0, 5, most // 50, most // 5, most])
            kept = self.state[name]
            for number in self.random.sample(range(most), min(count, most)):
                key = f"{name} {number}"
                if self.random.random() < 0.2:
                    kept.pop(key, None)
                else:
                    kept[key] = self.random.randrange(1 << 20)

    def snapshots(self) -> list[TaskSnapshot]:
        """What the tasks are now."""
        whole = {name: KeyedState.of(kept.items()) for name, kept in self.state.items()}
        count = self.parallelism
        return [
            TaskSnapshot(
                vertex="count",
                index=index,
                parallelism=count,
                chain=OPERATORS,
                operators={
                    name: KeyedState.share([whole[name]], index, count)
                    for name in OPERATORS
                    if name != "rare" or self.state["rare"]
                },
                watermarks={"": self.epoch},
            )
            for index in range(count)
        ]

    def write(self) -> list[SnapshotEntry] | None:
        """The files of the next epoch, unless one of them cannot be written."""
        self.epoch += 1
        entries = []
        for writer, snapshot in zip(self.writers, self.snapshots(), strict=True):
            fails = self.random.random() < 0.05
            if fails:
                self.storage.put = self.fail  # type: ignore[method-assign]
            try:
                entries.append(writer.write(self.epoch, snapshot))
            except StorageError:
                del self.storage.put
        return entries if len(entries) == self.parallelism else None

    def fail(self, name: str, *parts: bytes) -> None:
        """What fails leaves nothing, a part, or all."""
        data = b"".join(parts)
        for size in (0, len(data) // 2, len(data))[: self.random.randint(0, 2) + 1]:
            self.storage.files[name] = data[:size]
        raise StorageError("the disk is full")

    def checkpoint(self) -> None:
        """An epoch, which is stored or given up; it may be a savepoint."""
        entries = self.write()
        if entries is None or self.random.random() < 0.2:
            return
        name = f"savepoint {self.epoch}" if self.random.random() < 0.1 else None
        self.log.store(Manifest("job", self.epoch, self.generation, tuple(entries), name))
        self.kept[self.epoch] = {each: dict(kept) for each, kept in self.state.items()}
        self.files.update(len(entry.files) for entry in entries)

    def sweep(self) -> None:
        """Old epochs go, and now and then a savepoint."""
        self.log.retain()
        if self.random.random() < 0.3:
            last = max((each.epoch for each in self.log.manifests()), default=0)
            for name, manifest in self.log.savepoints().items():
                if manifest.epoch != last:
                    self.log.delete(name)

    def check(self) -> None:
        """All that is kept is whole, at any parallelism, and nothing else is there."""
        manifests = self.log.manifests()
        needed = {file.name for each in manifests for task in each.tasks for file in task.files}
        left = self.storage.files.keys() - needed
        last = max((each.epoch for each in manifests), default=0)
        assert all(name > f"data/{last + 1:08}" for name in left if name.startswith("data/"))
        for manifest in manifests:
            parallelism = self.random.randint(1, 4)
            found: dict[str, dict[str, int]] = {name: {} for name in OPERATORS}
            tasks = [(OPERATORS, index, parallelism) for index in range(parallelism)]
            for index, task in enumerate(plan_restore(manifest, tasks)):
                read = [read_snapshot(self.storage, entry) for entry in task.entries]
                assert all(each.watermarks == {"": manifest.epoch} for each in read)
                for name in OPERATORS:
                    states = [each.operators[name] for each in read if name in each.operators]
                    pairs = list(KeyedState.share(states, index, parallelism).items())
                    before = len(found[name])
                    found[name].update(pairs)
                    assert len(found[name]) == before + len(pairs), "each key is once, in one task"
            assert found == self.kept[manifest.epoch]


@pytest.mark.table(3)
@pytest.mark.parametrize("first", [0, 20, 40])
def test_what_is_stored_is_whole(first: int) -> None:
    files: Counter[int] = Counter()
    for seed in range(first, first + 20):
        job = Job(seed)
        try:
            for _ in range(STEPS):
                job.change()
                job.checkpoint()
                if job.random.random() < 0.5:
                    job.sweep()
                    job.check()
                if job.random.random() < 0.08:
                    job.restart()
                if job.random.random() < 0.03:
                    job.claim()
        except BaseException:
            print(f"seed {seed}")
            raise
        files += job.files
    assert sum(count for number, count in files.items() if number > 1) > 200, files
    assert max(files) <= 9
