"""`oka checkpoint`, `oka savepoint` and `oka rescale`."""

import json
import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.checkpoint import (
    Answer,
    CheckpointLog,
    Manifest,
    Requests,
    SnapshotWriter,
    TaskSnapshot,
    open_storage,
)
from engine.cli.main import commands
from engine.errors import CheckpointError, ConfigError
from engine.state import KeyedState


def oka(*words):
    done = CliRunner().invoke(commands, [*map(str, words)], prog_name="oka", catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    """Four epochs of two tasks, the second of them a savepoint."""
    storage = open_storage(tmp_path / "job")
    log = CheckpointLog(storage)
    log.claim()
    for epoch in (1, 2, 3, 4):
        state = KeyedState.of({f"word{number}": number for number in range(epoch)}.items())
        tasks = (
            TaskSnapshot("words", 0, 1, chain=("words",), positions={"words": {0: (epoch, "x")}}),
            TaskSnapshot(
                "count -> lines",
                0,
                1,
                chain=("count", "lines"),
                operators={"count": state},
                prepared={"lines": "part"},
                watermarks={"": 1_700_000_000_000_000},
            ),
        )
        entries = tuple(SnapshotWriter(storage, 1).write(epoch, task) for task in tasks)
        name = "before" if epoch == 2 else None
        log.store(Manifest("word-count", epoch, 1, entries, name, started=1e9, ended=1e9 + 0.25))
        log.mark_committed(epoch)
    return tmp_path / "job"


def test_list(folder):
    lines = [line.split() for line in oka("checkpoint", "list", folder).splitlines() if line]
    assert lines[0] == [
        "epoch",
        "savepoint",
        "stored",
        "tasks",
        "keys",
        "size",
        "written",
        "took",
        "committed",
    ]
    assert [line[0] for line in lines if line[0].isdecimal()] == ["1", "2", "3", "4"]
    assert lines[3][1] == "before"
    assert lines[-1][-3:] == ["250", "ms", "yes"]
    told = [json.loads(line) for line in oka("checkpoint", "list", folder, "--json").splitlines()]
    assert [(each["epoch"], each["keys"], each["tasks"]) for each in told] == [
        (epoch, epoch, 2) for epoch in (1, 2, 3, 4)
    ]


def test_show(folder):
    shown = oka("checkpoint", "show", folder, "before", "--operator", "count", "--top", "1")
    assert "epoch 2 (savepoint 'before') of job 'word-count'" in shown
    assert "words, share 0: (2, 'x')" in shown
    assert "2023-11-1" in shown  # the event time
    assert "… and 1 more" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["count", "1", "2", "state"] in rows
    assert ["lines", "1", "0", "output"] in rows
    assert "epoch 4 of" in oka("checkpoint", "show", folder)
    assert json.loads(oka("checkpoint", "show", folder, "3", "--json"))["epoch"] == 3


def test_what_an_epoch_needs_and_what_it_wrote():
    folder = Path(__file__).parent / "format_3"
    (told,) = map(json.loads, oka("checkpoint", "list", folder, "--json").splitlines())
    files = [path.stat().st_size for path in sorted((folder / "data").rglob("*.oka"))]
    assert (told["bytes"], told["written"]) == (sum(files), sum(files[2:]))
    rows = [line.split() for line in oka("checkpoint", "show", folder).splitlines()]
    assert [row[5] for row in rows if row[:1] == ["words"]] == ["2", "2"], rows


def test_show_tells_what_is_not_there(folder):
    with pytest.raises(ConfigError, match="'nine', expected one of: 1, before, 3, 4"):
        oka("checkpoint", "show", folder, "nine")
    with pytest.raises(ConfigError, match="no operator 'tally', expected one of count, lines"):
        oka("checkpoint", "show", folder, "--operator", "tally")
    with pytest.raises(ConfigError, match="there are no checkpoints"):
        oka("checkpoint", "list", folder / "other")


def test_show_tells_a_damaged_file(folder):
    file = next(path for path in (folder / "data/00000004").iterdir() if "count" in path.name)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=rf"{file.name} is damaged: it has \d+ bytes"):
        oka("checkpoint", "show", folder)


def test_damaged_entry_is_shown_and_deleted(folder):
    (folder / "log/00000003").write_bytes(b"")  # the savepoint
    (folder / "log/00000002").write_bytes(b"[" * 200_000)
    lines = [line for line in oka("checkpoint", "list", folder).splitlines() if line]
    assert [line.split()[0] for line in lines[-4:-2]] == ["3", "4"]
    assert "log/00000002 is damaged: it is no whole JSON object" in lines[-2]
    assert f"`oka checkpoint delete {folder} log/00000003` removes it" in lines[-1]
    told = [json.loads(line) for line in oka("checkpoint", "list", folder, "--json").splitlines()]
    assert [each.get("damaged") for each in told] == [None, None, "log/00000002", "log/00000003"]
    assert "epoch 3 of" in oka("checkpoint", "show", folder, "3")
    with pytest.raises(CheckpointError, match="log/00000003 is damaged"):
        oka("checkpoint", "show", folder, "log/00000003")
    oka("checkpoint", "delete", folder, "log/00000002", "3", "log/00000003")
    assert [path.name for path in (folder / "data").iterdir()] == ["00000004"]
    assert "damaged" not in oka("checkpoint", "list", folder)


def test_list_of_damaged_entries_alone(folder):
    for file in (folder / "log").iterdir():
        file.write_bytes(b"")
    assert len(oka("checkpoint", "list", folder).splitlines()) == 5
    oka("checkpoint", "delete", folder, "--all", "--force")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("checkpoint", "show", "F", "--operator", "count", "--top", "-1"),
        *(("savepoint", "F", f"--timeout={seconds}") for seconds in ("-1", "0", "nan")),
    ],
)
def test_numbers_that_cannot_be_are_refused(folder, words):
    done = CliRunner().invoke(commands, [str(folder) if word == "F" else word for word in words])
    assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert "Invalid value for '--t" in done.output


def test_delete(folder):
    oka("checkpoint", "delete", folder, "1", "before")
    assert sorted(path.name for path in (folder / "data").iterdir()) == ["00000003", "00000004"]
    with pytest.raises(ConfigError, match="'4' is the epoch that the job goes on from"):
        oka("checkpoint", "delete", folder, "4")
    with pytest.raises(ConfigError, match="either epochs or --all"):
        oka("checkpoint", "delete", folder)
    with pytest.raises(ConfigError, match="expected it with --all"):
        oka("checkpoint", "delete", folder, "1", "--force")
    oka("checkpoint", "delete", folder, "--all", "--force")
    assert list(folder.iterdir()) == []


def test_delete_all_asks_whether_the_job_runs(folder):
    with (
        job(folder, Answer(epoch=4)) as seen,
        pytest.raises(ConfigError, match=r"is running, (.|\n)*--force removes"),
    ):
        oka("checkpoint", "delete", folder, "--all")
    assert [each.savepoint for each in seen] == [None]
    assert len(CheckpointLog(open_storage(folder)).manifests()) == 4
    with job(folder, Answer(error="the job has ended")):
        oka("checkpoint", "delete", folder, "--all")
    assert list(folder.iterdir()) == []


def test_folder_without_an_epoch(tmp_path):
    CheckpointLog(open_storage(tmp_path)).claim()
    assert "no epoch" in oka("checkpoint", "list", tmp_path)
    with pytest.raises(ConfigError, match="expected one of: none"):
        oka("checkpoint", "show", tmp_path)


@contextmanager
def job(folder, answer):
    """One that takes requests up."""
    box, seen, ended = Requests(open_storage(folder)), [], threading.Event()

    def run():
        while not ended.wait(0.01):
            for request in box.take():
                seen.append(request)
                box.answer(request, answer)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def test_savepoint_and_rescale(folder):
    with job(folder, Answer(epoch=5)) as seen:
        assert oka("savepoint", folder, "--name", "upgrade", "--stop") == "upgrade\n"
        name = oka("savepoint", folder, "--drain")
        assert re.fullmatch(r"s2\d{3}-\d\d-\d\dT\d\d\.\d\d\.\d\d\.\d{3}\n", name)
        oka("rescale", folder, "--parallelism", "3", "--name", "three")
    assert [(each.stop, each.parallelism) for each in seen] == [
        ("now", None),
        ("drain", None),
        ("now", 3),
    ]


def test_savepoint_that_fails(folder):
    with (
        job(folder, Answer(error="the disk is full")),
        pytest.raises(CheckpointError, match="made no savepoint: the disk is full"),
    ):
        oka("savepoint", folder)
    with pytest.raises(ConfigError, match="expected one of them at most"):
        oka("savepoint", folder, "--stop", "--drain")
    with pytest.raises(ConfigError, match="there are no checkpoints"):
        oka("savepoint", folder / "other")
