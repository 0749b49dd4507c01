"""Whether a worker sees the storage that the driver sees: folders that are others, or none."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from engine.checkpoint import CheckpointLog, check_reach, open_storage, reach
from engine.checkpoint.storage import FolderStorage
from engine.errors import CheckpointError, StorageError


def files(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_the_same_folder_is_reached_and_nothing_is_left(tmp_path: Path) -> None:
    log = CheckpointLog(open_storage(tmp_path))
    log.claim()
    before = files(tmp_path)
    check_reach(str(tmp_path), log.claimed, "10.0.0.3")
    assert files(tmp_path) == before == [log.claimed]


def test_another_folder_of_this_name_is_noticed(tmp_path: Path) -> None:
    log = CheckpointLog(open_storage(tmp_path / "of the driver"))
    log.claim()
    other = tmp_path / "of the worker"
    with pytest.raises(CheckpointError, match=r"on host 10\.0\.0\.3 does not see") as caught:
        check_reach(str(other), log.claimed, "10.0.0.3")
    assert log.claimed in caught.value.message
    assert "have to see one folder" in str(caught.value.hint)
    CheckpointLog(open_storage(other)).claim()  # one that another job has left there
    log.claim()
    with pytest.raises(CheckpointError, match="does not see"):
        check_reach(str(other), log.claimed, "10.0.0.3")
    assert files(other) == ["log/00000001"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"10\.0\.0\.3 cannot write checkpoints: .*file"):
        check_reach(str(tmp_path / "file" / "job"), "log/00000001", "10.0.0.3")


def test_one_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()

    class Silent(FolderStorage):
        def put(self, name: str, *parts: bytes | memoryview) -> None:
            hangs.wait(60)

    monkeypatch.setattr(reach, "open_storage", lambda url: Silent(Path(url)))
    monkeypatch.setattr(reach, "_PATIENCE_SECONDS", 0.1)
    with pytest.raises(CheckpointError, match=r"to s3://b/x: there was no answer for 0\.1 s"):
        check_reach("s3://b/x", "log/00000001", "10.0.0.3")
    check_reach("s3://b/x", "log/00000001", "10.0.0.3", goes_on=True)  # it may come again
    hangs.set()


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize(
    ("code", "passes"), [("Unreachable", True), ("SlowDown", True), ("NoCredentials", False)]
)
def test_a_job_that_goes_on_is_ended_by_what_lasts(
    code: str, passes: bool, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refuses(FolderStorage):
        def put(self, name: str, *parts: bytes | memoryview) -> None:
            raise StorageError("s3://b/x: it does not work", code=code)

    monkeypatch.setattr(reach, "open_storage", lambda url: Refuses(Path(url)))
    ended = pytest.raises(CheckpointError, match="it does not work")
    with nullcontext() if passes and goes_on else ended:
        check_reach("s3://b/x", "log/00000001", "10.0.0.3", goes_on=goes_on)
