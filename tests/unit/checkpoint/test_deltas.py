"""Files that hold what has changed since the one before."""

import sys
from enum import Enum
from pathlib import Path

import pytest

from engine.checkpoint import (
    CheckpointLog,
    Manifest,
    SnapshotWriter,
    TaskSnapshot,
    open_storage,
    read_snapshot,
)
from engine.checkpoint.snapshot_file import unpack
from engine.errors import CheckpointError, StorageError
from engine.network import Aggregate, Batch, DecodeError, mapped
from engine.state import KeyedState

KEYS = 2000


def snapshot(state, **others):
    operators = {"count": KeyedState.of(state.items(), shared={"size": len(state)})}
    return TaskSnapshot("count", 0, 1, chain=("count",), operators=operators, **others)


@pytest.fixture
def state():
    return {f"key {number}": number for number in range(KEYS)}


def stored(log, writer, epoch, state, savepoint=None):
    entry = writer.write(epoch, snapshot(state))
    log.store(Manifest("job", epoch, 1, (entry,), savepoint))
    log.retain()
    return entry


def test_what_changed_is_written_and_read_with_all_else(storage, state):
    writer = SnapshotWriter(storage, 1)
    first = writer.write(1, snapshot(state))
    state |= {"key 7": "other", "key 2000": "new"}
    del state["key 8"]
    told = snapshot(state, watermarks={"": 5}, prepared={"lines": "part-1"})
    entry = writer.write(2, told)
    assert entry.files[:-1] == first.files
    assert (first.written, entry.bytes) == (first.bytes, first.bytes + entry.written)
    assert entry.written < first.written / 10
    assert entry.keys == {"count": KEYS}
    assert read_snapshot(storage, entry) == told
    assert read_snapshot(storage, writer.write(3, told)) == told  # nothing has changed


def test_a_table_lets_go_of_its_file_with_the_first_snapshot(tmp_path, state):
    def table():
        return Aggregate([[0]], [("last", [1])], copies_keys=True)

    def write(epoch):
        columns, entries = of_keys.snapshot()
        operators = {"last": KeyedState(entries, columns)}
        return writer.write(epoch, TaskSnapshot("last", 0, 1, chain=("last",), operators=operators))

    def is_mapped(entry):
        return entry.files[0].name.rpartition("/")[2] in Path("/proc/self/maps").read_text()

    storage = open_storage(tmp_path)
    writer = SnapshotWriter(storage, 1)
    of_keys = table()
    of_keys.update(Batch.from_list(list(state.items())))
    first = write(1)
    of_keys, writer = table(), SnapshotWriter(storage, 2)
    kept = read_snapshot(storage, first).operators["last"]
    of_keys.restore(kept.columns, kept.entries, False)
    del kept
    assert is_mapped(first) or mapped(str(tmp_path / first.files[0].name)) is None
    assert of_keys.update(Batch.from_list([("key 7", 70)])) == [("key 7", 70)]
    second = write(2)
    assert not is_mapped(first)
    storage.delete(file.name for file in first.files)
    for entry in (second, write(3)):
        assert dict(read_snapshot(storage, entry).operators["last"].items()) == state | {
            "key 7": 70
        }


class Colour(Enum):
    RED = 1
    BLUE = 2


def test_keys_that_could_not_be_read_are_in_the_next_snapshot(monkeypatch):
    of_keys = Aggregate([[0]], [("count", [])], copies_keys=True)
    of_keys.add(Batch.from_list([(Colour.RED, 1), ("key", 1)]))
    _, entries = of_keys.snapshot()
    with monkeypatch.context() as patched:
        patched.delattr(sys.modules[__name__], "Colour")
        with pytest.raises(DecodeError, match="Colour"):
            len(entries)
    of_keys.add(Batch.from_list([(Colour.BLUE, 1), ("key", 1)]))
    _, entries = of_keys.snapshot()
    counts = dict(zip(entries.keys(), entries.values(), strict=True))
    assert counts == {Colour.RED: 1, "key": 2, Colour.BLUE: 1}


def test_entries_are_read_where_they_are(tmp_path, state):
    """Arrow reads in place what begins at a multiple of 8, and copies all else."""
    writer = SnapshotWriter(open_storage(tmp_path), 1)
    writer.write(1, snapshot(state))
    state["key 7"] = "other"
    entry = writer.write(2, snapshot(state))
    for file in entry.files:
        data = (tmp_path / file.name).read_bytes()
        assert data.index(b"\xff\xff\xff\xff") % 8 == 0  # so streams begin
        head, parts = unpack(file.name, data)
        assert next(iter(parts))[0] in ("entries", "changed")
        assert head["operators"] == {"count": KEYS}


def test_chains_are_short(storage, state):
    """At most eight files beside the first, at most half of its size."""
    writer = SnapshotWriter(storage, 1)
    entries = []
    for epoch in range(1, 21):
        state[f"key {epoch}"] = "other"
        entries.append(writer.write(epoch, snapshot(state)))
    assert [len(each.files) for each in entries] == [*range(1, 10), *range(1, 10), 1, 2]
    for epoch, share in enumerate([0.2, 0.2, 0.2, 0.6], 21):
        for number in range(int(KEYS * share)):
            state[f"key {number}"] = epoch
        entries.append(writer.write(epoch, snapshot(state)))
    assert [len(each.files) for each in entries[20:]] == [3, 4, 1, 1]
    for each in entries:
        assert each.bytes - each.files[0].bytes <= each.files[0].bytes / 2
    assert dict(read_snapshot(storage, entries[-1]).operators["count"].items()) == state


def test_a_task_without_state_is_kept_in_one_file(storage, state):
    writer = SnapshotWriter(storage, 1)
    writer.write(1, snapshot(state))
    entry = writer.write(2, TaskSnapshot("count", 0, 1, finished=True, chain=("count",)))
    assert len(entry.files) == 1
    assert read_snapshot(storage, entry).finished


def test_what_could_not_be_written_is_no_base(storage, state, monkeypatch):
    writer = SnapshotWriter(storage, 1)
    first = writer.write(1, snapshot(state))
    state["key 1"] = "lost"

    def fail(*_):
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "put", fail)
        with pytest.raises(StorageError):
            writer.write(2, snapshot(state))
    state["key 2"] = "kept"
    entry = writer.write(3, snapshot(state))
    assert entry.files[:-1] == first.files
    assert dict(read_snapshot(storage, entry).operators["count"].items()) == state


def test_every_file_of_a_snapshot_counts(storage, state):
    writer = SnapshotWriter(storage, 1)
    for epoch in range(1, 4):
        state["key 1"] = f"in epoch {epoch}"
        entry = writer.write(epoch, snapshot(state))
    for file in entry.files:
        whole = storage.get(file.name)
        for at in range(0, len(whole), max(1, len(whole) // 50)):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << at % 8
            for data in (bytes(flipped), whole[:at]):
                storage.put(file.name, data)
                with pytest.raises(CheckpointError, match=rf"^{file.name} is damaged"):
                    read_snapshot(storage, entry)
        storage.delete([file.name])
        with pytest.raises(CheckpointError, match=f"^{file.name} is not there"):
            read_snapshot(storage, entry)
        storage.put(file.name, whole)
    base, first, second = entry.files
    for files, wrong in [((base, second), second), ((first, second), first), ((base, base), base)]:
        broken = type(entry)(**{**vars(entry), "files": files})
        with pytest.raises(CheckpointError, match=rf"^{wrong.name} is damaged: it is based on a"):
            read_snapshot(storage, broken)


def test_files_stay_as_long_as_an_epoch_needs_them(storage, state):
    log = CheckpointLog(storage)
    log.claim()
    writer = SnapshotWriter(storage, 1)
    first = stored(log, writer, 1, state)
    for epoch in range(2, 12):  # from the tenth on, on another first file
        state["key 1"] = epoch
        stored(log, writer, epoch, state)
        writer.write(20 + epoch, snapshot(state))  # of an epoch that is given up
        for each in log.manifests():
            assert read_snapshot(storage, each.tasks[0]).operators["count"].entries
    manifests = log.manifests()
    assert [each.epoch for each in manifests] == [9, 10, 11]
    needed = {file.name for each in manifests for file in each.tasks[0].files}
    there = {name for name in storage.list("data") if name < "data/00000012"}
    assert there == {name for name in needed if name < "data/00000012"}
    assert first.files[0].name not in there


def test_a_savepoint_is_whole_when_the_epochs_before_it_are_gone(storage, state):
    log = CheckpointLog(storage)
    log.claim()
    writer = SnapshotWriter(storage, 1)
    stored(log, writer, 1, state)
    state["key 1"] = "at the savepoint"
    kept = dict(state)
    assert len(stored(log, writer, 2, state, "before").files) == 2
    for epoch in range(3, 20):
        state["key 1"] = epoch
        stored(log, writer, epoch, state)
    assert [each.epoch for each in log.manifests()] == [2, 17, 18, 19]
    (task,) = log.savepoints()["before"].tasks
    assert dict(read_snapshot(storage, task).operators["count"].items()) == kept
    log.delete("before")
    assert not [name for name in storage.list("data") if name < "data/00000003"]
