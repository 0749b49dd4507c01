"""Storages: the same contract, on a folder and in S3."""

import errno
import os
import resource
import threading

import psutil
import pytest

from engine.checkpoint import CheckpointLog, open_storage
from engine.checkpoint import storage as storage_module
from engine.checkpoint.storage import FolderStorage, is_missing
from engine.errors import ConfigError, StorageError


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_put_get_list_delete(storage):
    assert storage.list("") == storage.list("data") == []
    storage.put("data/1/a b%", b"first")
    storage.put("data/1/a b%", b"second")
    storage.put("data/2", b"")
    storage.put("database", b"x")
    assert storage.get("data/1/a b%") == b"second"
    assert storage.get("data/2") == b""
    view = storage.view("data/1/a b%")
    assert (view, storage.view("data/2")) == (b"second", b"")
    assert storage.list("data") == ["data/1/a b%", "data/2"]
    storage.delete(["data/1/a b%", "data/none"])
    assert storage.list("") == ["data/2", "database"]
    storage.delete([])
    assert view == b"second"  # a folder's goes with the last view
    for read in (storage.get, storage.view):
        with pytest.raises(StorageError) as raised:
            read("data/1/a b%")
        assert is_missing(raised.value)


def test_views_of_a_folder(tmp_path, monkeypatch):
    storage = open_storage(tmp_path)
    for number in range(3):
        storage.put(f"data/{number}", b"%d" % number * 10_000)
    before = psutil.Process().num_fds()
    views = [storage.view(f"data/{number}") for number in range(3)]
    assert psutil.Process().num_fds() == before
    assert all(memoryview(view).readonly for view in views)
    monkeypatch.setattr(storage_module, "mapped", lambda path: None)  # as on a network file system
    assert views == [storage.view(f"data/{number}") for number in range(3)]

    def refuses(path):
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(storage_module, "mapped", refuses)
    assert views == [storage.view(f"data/{number}") for number in range(3)]


def test_create_is_of_one(storage):
    assert storage.create("log/1", b"first")
    assert not storage.create("log/1", b"second")
    assert storage.get("log/1") == b"first"
    assert storage.list("") == ["log/1"]
    storage.delete(["log/1"])
    assert storage.create("log/1", b"third")


def test_of_many_at_once_one_creates(storage):
    for round_ in range(10):
        wrote, start = [], threading.Barrier(8)

        def create(number, round_=round_, wrote=wrote, start=start):
            start.wait()
            if storage.create(f"log/{round_}", b"%d" % number):
                wrote.append(b"%d" % number)

        threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrote == [storage.get(f"log/{round_}")]


def test_disk_that_is_full(tmp_path, monkeypatch):
    storage = open_storage(tmp_path)
    real = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (storage.put, storage.create):
        with pytest.raises(StorageError, match="No space left on device") as raised:
            write("data/1", b"x" * 100)
        assert raised.value.code == "ENOSPC"
        assert "the disk is full" in raised.value.hint
    monkeypatch.setattr(os, "fsync", real)
    assert storage.list("") == []


def test_file_that_may_not_grow(tmp_path, monkeypatch):
    """A real write that ends in the middle."""
    import signal

    storage = open_storage(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(StorageError, match="data/1: File too large"):
            storage.put("data/1", b"x" * (1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert storage.list("") == []


def test_create_that_is_under_way_is_no_file(tmp_path, monkeypatch):
    storage = open_storage(tmp_path)
    link, seen = os.link, []

    def late(partial, path):
        monkeypatch.setattr(os, "link", link)
        seen.append((names(tmp_path / "log"), storage.list("")))
        storage.sweep()  # as another driver does
        link(partial, path)

    monkeypatch.setattr(os, "link", late)
    assert storage.create("log/1", b"whole")
    ((there, listed),) = seen
    assert len(there) == 1
    assert listed == []
    assert storage.get("log/1") == b"whole"
    assert names(tmp_path / "log") == ["1"]


def test_what_a_dead_process_left_is_swept(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log/1~0badcafe").touch()
    CheckpointLog(open_storage(tmp_path)).claim()
    assert names(tmp_path / "log") == ["00000001"]


def test_places_that_are_none(tmp_path):
    for url in ("", "gs://bucket/prefix", "s3:///prefix"):
        with pytest.raises(ConfigError, match="expected"):
            open_storage(url)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory"):
        open_storage(tmp_path / "file").put("log/1", b"")


def test_what_is_deleted_as_soon_as_it_is_there_is_not_written_again(tmp_path, monkeypatch):
    storage = FolderStorage(tmp_path)
    write, written = FolderStorage._write, []

    def write_for_one_who_waits(self, path, *parts):
        write(self, path, *parts)
        written.append(path.name)
        storage.delete(["answers/1"])

    monkeypatch.setattr(FolderStorage, "_write", write_for_one_who_waits)
    storage.put("answers/1", b"yes")
    assert written == ["1"]
    assert list(tmp_path.iterdir()) == []


def _modes(folder):
    paths = [folder, *folder.rglob("*")]
    return {f"{'d' if path.is_dir() else 'f'} {path.stat().st_mode & 0o7777:o}" for path in paths}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_for_their_user_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        made, was_there = tmp_path / "a" / "made", tmp_path / "was there"
        was_there.mkdir(mode=0o755)
        was_there.chmod(0o755)
        for folder in (made, was_there):
            storage = FolderStorage(folder)
            storage.put("data/00000001/1-task", b"state")
            storage.create("log/00000001", b"claim")
        assert _modes(made) == {"d 700", "f 600"}
        assert _modes(was_there) == {"d 755", "d 700", "f 600"}
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o770, 0o2770, 0o2775])
def test_files_are_for_the_group_where_the_folder_is(tmp_path, mode):
    tmp_path.chmod(mode)
    storage = FolderStorage(tmp_path)
    storage.put("data/00000001/1-task", b"state")
    storage.put("data/00000001/1-task", b"another")
    storage.create("log/00000001", b"claim")
    inherited = mode & 0o2000
    assert _modes(tmp_path) == {f"d {mode:o}", f"d {0o770 | inherited:o}", "f 660"}
