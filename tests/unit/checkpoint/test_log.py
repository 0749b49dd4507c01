"""The log of epochs and drivers, on a folder."""

import os
import threading

import pytest

from engine.checkpoint import (
    CheckpointLog,
    Manifest,
    SnapshotWriter,
    Storage,
    TaskSnapshot,
    read_snapshot,
)
from engine.errors import CheckpointError, ConfigError, Fenced, StorageError
from engine.state import KeyedState

SNAPSHOT = TaskSnapshot(
    vertex="words -> count",
    index=1,
    parallelism=2,
    chain=("words", "count"),
    operators={
        "count": KeyedState.of({("to", 1): 2, "be": 1.5}.items(), shared=["x"]),
        "none": KeyedState.of([]),
    },
    watermarks={"": 17, "count": -(1 << 63)},
    positions={"words": {0: (3, "file", b"\xff", None), 2: 5}},
    shares=3,
    prepared={"lines": {"path": "part-1"}},
)


def epoch(storage: Storage, log_epoch: int, generation: int = 1, savepoint=None) -> Manifest:
    entry = SnapshotWriter(storage, generation).write(log_epoch, SNAPSHOT)
    return Manifest("job", log_epoch, generation, (entry,), savepoint)


def started(storage: Storage, resume=None) -> tuple[CheckpointLog, int]:
    log = CheckpointLog(storage)
    return log, log.claim(resume, job="the next" if resume else "the first").generation


def test_snapshot_comes_back_as_it_was(storage):
    entry = SnapshotWriter(storage, 2).write(7, SNAPSHOT)
    assert read_snapshot(storage, entry) == SNAPSHOT
    assert entry.keys == {"count": 2, "none": 0}
    assert entry.sources == ("words",)
    assert entry.sinks == ("lines",)
    assert type(entry).of(entry.to_dict()) == entry


def test_every_bit_of_a_snapshot_counts(storage, tmp_path):
    entry = SnapshotWriter(storage, 1).write(1, SNAPSHOT)
    name = entry.files[0].name
    whole = storage.get(name)
    for at in range(0, len(whole), 41):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        for data in (bytes(flipped), whole[:at]):
            storage.put(name, data)
            with pytest.raises(CheckpointError, match=name):
                read_snapshot(storage, entry)


def test_driver_goes_on_from_the_last_epoch(storage):
    log, _ = started(storage, "latest")
    for number in (1, 2):
        log.store(epoch(storage, number))
        log.mark_committed(number)
    again = CheckpointLog(storage)
    claim = again.claim("latest")
    assert (claim.generation, claim.next_epoch, claim.manifest.epoch) == (2, 3, 2)
    assert again.committed() == {1, 2}
    assert read_snapshot(storage, claim.manifest.tasks[0]) == SNAPSHOT


def test_old_driver_is_fenced(storage):
    old, _ = started(storage)
    old.store(epoch(storage, 1))
    new, generation = started(storage, "latest")
    other = rf"generation 1: job 'the next' \(pid {os.getpid()} on host .*, started 20"
    with pytest.raises(Fenced, match=other):
        old.store(epoch(storage, 2))
    for number in range(2, 9):
        new.store(epoch(storage, number, generation))
        new.retain()
    with pytest.raises(Fenced, match=other):  # its number is free again
        old.store(epoch(storage, 2))
    new.store(epoch(storage, 9, generation))
    new.retain()
    assert [each.epoch for each in new.manifests()] == [7, 8, 9]


def test_new_driver_sees_what_the_old_one_stored_first(storage):
    old, _ = started(storage)
    create = storage.create

    def slow(name, data):
        storage.create = create
        old.store(epoch(storage, 1))
        return create(name, data)

    storage.create = slow
    assert CheckpointLog(storage).claim("latest").manifest.epoch == 1


def test_what_is_stored_twice_is_stored_once(storage):
    log, _ = started(storage)
    manifest = epoch(storage, 1)
    create = storage.create

    def lost(name, data):
        storage.create = create
        create(name, data)
        raise StorageError("the answer was lost")

    storage.create = lost
    with pytest.raises(StorageError):
        log.store(manifest)
    log.store(manifest)
    log.store(epoch(storage, 2))
    assert [each.epoch for each in log.manifests()] == [1, 2]


def test_retention_keeps_three_savepoints_and_nothing_else(storage):
    log, _ = started(storage)
    for number in range(1, 9):
        SnapshotWriter(storage, 1).write(number, SNAPSHOT)  # of an attempt that died
        log.store(epoch(storage, number, savepoint="before" if number == 2 else None))
        log.mark_committed(number)
        log.retain()
    SnapshotWriter(storage, 1).write(9, SNAPSHOT)
    log.retain()
    assert [each.epoch for each in log.manifests()] == [2, 6, 7, 8]
    assert list(log.savepoints()) == ["before"]
    assert len(storage.list("committed")) == 4
    assert len(storage.list("data")) == 5  # with that of epoch 9, which is under way
    assert len(storage.list("log")) == 5  # with the claim, which names the driver
    started(storage, "latest")
    assert len(storage.list("data")) == 4


def test_rollback_to_a_savepoint_lasts(storage):
    log, _ = started(storage)
    for number in range(1, 7):
        log.store(epoch(storage, number, savepoint="good" if number == 1 else None))
    assert CheckpointLog(storage).claim("good").manifest.epoch == 1
    claim = (again := CheckpointLog(storage)).claim("latest")
    assert (claim.manifest.epoch, claim.next_epoch) == (1, 7)
    again.store(epoch(storage, 7))
    assert CheckpointLog(storage).claim("latest").manifest.epoch == 7
    assert CheckpointLog(storage).claim("5").manifest.epoch == 5


def test_epochs_are_not_passed_over(storage):
    log, _ = started(storage)
    started(storage)  # nothing stored: another may begin
    log, _ = started(storage)
    log.store(epoch(storage, 1))
    with pytest.raises(ConfigError, match="resume is None"):
        started(storage)
    with pytest.raises(ConfigError, match="'7', expected one of: 1"):
        started(storage, "7")


def test_delete(storage):
    log, _ = started(storage)
    for number in (1, 2, 3):
        log.store(epoch(storage, number, savepoint="a" if number == 1 else None))
    log.delete("a")
    log.delete(2)
    assert [each.epoch for each in log.manifests()] == [3]
    assert len(storage.list("data")) == 1
    with pytest.raises(ConfigError, match="goes on from"):
        log.delete(3)


@pytest.mark.parametrize("when", ["before its first epoch", "behind an epoch", "as it begins one"])
def test_driver_whose_checkpoints_are_removed_is_fenced(storage, monkeypatch, when):
    log, generation = started(storage)
    made = epoch(storage, 1, generation)
    if when != "before its first epoch":
        log.store(made)
        made = epoch(storage, 2, generation)
    if when == "as it begins one":  # while the claim of who removes is there
        monkeypatch.setattr(type(storage), "delete", lambda *_: None)
    CheckpointLog(storage).delete_all()
    monkeypatch.undo()
    with pytest.raises(Fenced):
        log.store(made)
    CheckpointLog(storage).delete_all()
    assert storage.list("log") == storage.list("data") == []
    assert started(storage)[1] == 1


def test_markers_of_a_driver_that_is_fenced_do_not_last(storage):
    log, generation = started(storage)
    log.store(epoch(storage, 1, generation))
    CheckpointLog(storage).delete_all()
    log.mark_committed(1)
    other, generation = started(storage)
    other.store(epoch(storage, 1, generation))
    assert other.committed() == set()


def test_damaged_entry_is_named(storage):
    log, _ = started(storage)
    log.store(epoch(storage, 1))
    whole = storage.get("log/00000002")
    assert b'"epoch": 1' in whole
    for data in (whole[:-9], b"", whole.replace(b'"epoch": 1', b'"epoch": 2')):
        storage.put("log/00000002", data)
        with pytest.raises(CheckpointError, match="log/00000002 is damaged"):
            CheckpointLog(storage).claim("latest")


DAMAGED = [b"", b"\xff" * 100, b"[" * 200_000, b"[1]", b'{"format": 9, "checksum": 1}']


@pytest.mark.parametrize(
    "data", DAMAGED, ids=["empty", "junk", "deep", "list", "of a newer format"]
)
def test_other_epochs_are_there_beside_a_damaged_one(storage, data):
    log, _ = started(storage)
    for number in (1, 2, 3):
        log.store(epoch(storage, number, savepoint="a" if number == 1 else None))
    storage.put("log/00000003", data)
    log = CheckpointLog(storage)
    assert [each.epoch for each in log.manifests()] == [1, 3]
    assert list(log.damaged()) == ["log/00000003"]
    assert log.find().epoch == log.find("3").epoch == 3
    with pytest.raises(CheckpointError, match="log/00000003 is"):
        log.find("log/00000003")
    with pytest.raises(ConfigError, match=r"'2', expected one of: a, 3; damaged: log/00000003"):
        log.find(2)
    log.delete("a")
    assert CheckpointLog(storage).claim("latest").manifest.epoch == 3
    log = CheckpointLog(storage)
    assert log.claim("3").manifest.epoch == 3
    log.store(epoch(storage, 4, 3, savepoint="b"))
    log.retain(1)
    assert sorted(log.savepoints()) == ["b"]


def test_job_does_not_go_on_from_before_a_damaged_epoch_by_itself(storage):
    old, _ = started(storage)
    for number in (1, 2, 3):
        old.store(epoch(storage, number))
        old.mark_committed(number)
    storage.put("log/00000004", b"")
    hint = "--resume 2` goes on from the newest"
    for resume, told in [("latest", hint), ("log/00000004", hint), (None, "the last of them 2")]:
        with pytest.raises((CheckpointError, ConfigError), match=told):
            started(storage, resume)
    with pytest.raises(CheckpointError, match="log/00000004 is damaged"):
        CheckpointLog(storage).find()
    with pytest.raises(ConfigError, match=hint):  # it may be the claim of a driver that lives
        CheckpointLog(storage).delete("log/00000004")
    new = CheckpointLog(storage)
    claim = new.claim("2")
    assert (claim.manifest.epoch, claim.next_epoch) == (2, 4)  # files of sinks are named for it
    assert claim.generation > 1
    assert new.committed() == {1, 2}
    assert "committed/00000004" in storage.list("committed")
    with pytest.raises(Fenced):
        old.store(epoch(storage, 4))
    assert CheckpointLog(storage).claim("latest").manifest.epoch == 2


def test_data_stays_beside_a_damaged_entry_until_that_is_deleted(storage):
    old, _ = started(storage)
    for number in (1, 2, 3):
        old.store(epoch(storage, number))
    whole = storage.get("log/00000004")
    storage.put("log/00000004", b"")
    log = CheckpointLog(storage)
    generation = log.claim("2").generation
    for number in range(4, 12):
        log.store(epoch(storage, number, generation))
        log.mark_committed(number)
        log.retain()
    assert [each.epoch for each in log.manifests()] == [9, 10, 11]
    assert [int(name.split("/")[1]) for name in storage.list("data")] == [1, 2, 3, 9, 10, 11]
    storage.put("log/00000004", whole)  # from a copy, say
    for manifest in CheckpointLog(storage).manifests():
        read_snapshot(storage, manifest.tasks[0])
    storage.put("log/00000004", b"")
    CheckpointLog(storage).delete(10)
    assert [int(name.split("/")[1]) for name in storage.list("data")] == [1, 2, 3, 9, 10, 11]
    CheckpointLog(storage).delete("log/00000004")
    assert CheckpointLog(storage).damaged() == {}
    assert [int(name.split("/")[1]) for name in storage.list("data")] == [9, 11]


def test_nothing_is_removed_that_a_damaged_claim_may_go_on_from(storage):
    old, _ = started(storage)
    for number in range(1, 6):
        old.store(epoch(storage, number))
    started(storage, "1")
    storage.put("log/00000007", b"")
    old.retain()
    assert [each.epoch for each in old.manifests()] == [1, 2, 3, 4, 5]


def test_damaged_claim_fences_as_a_whole_one(storage):
    old, _ = started(storage)
    old.store(epoch(storage, 1))
    started(storage, "latest")
    storage.put("log/00000003", b"")
    with pytest.raises(CheckpointError, match="log/00000003 is damaged"):
        old.store(epoch(storage, 2))
    with pytest.raises(CheckpointError, match="--resume 1`"):
        started(storage, "latest")
    new, generation = started(storage, 1)
    assert generation > 2
    new.store(epoch(storage, 2, generation))
    new.retain()
    CheckpointLog(storage).delete("log/00000003")
    with pytest.raises(Fenced):  # its number is free again
        old.store(epoch(storage, 2))


def test_folder_that_is_emptied_beside_a_write(storage):
    written, ended = [], threading.Event()

    def empty():
        while not ended.is_set():
            storage.delete([written.pop() for _ in range(len(written))])

    emptier = threading.Thread(target=empty)
    emptier.start()
    try:
        for number in range(200):
            name = f"data/{number}/file"
            assert storage.create(name, b"")
            written.append(name)
    finally:
        ended.set()
        emptier.join()
