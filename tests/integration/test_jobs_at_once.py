"""Two jobs that write files into one place, or keep checkpoints there: one goes on.

In a folder the first does, in S3 the last, and who does not says which job it met. One whose driver
is dead is in nobody's way.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.owner import Owner
from engine.errors import CheckpointError, Fenced, OperatorError
from engine.graph.context import TaskContext
from engine.programs.s3_server import S3Server
from engine.testing import run
from operators import source
from operators.sinks import JsonLines, LineFiles
from operators.sinks.files import claims
from operators.sinks.files.file_writer import FileWriter
from operators.sinks.files.places import Folder
from operators.sources import Collection
from tests.conftest import S3_CREDENTIALS

KINDS = ["folder", "s3"]
KEPT = [False, True]
MET = "another job (is writing|has begun to write) part-"


class Where:
    """A place of files, and of checkpoints of two jobs."""

    def __init__(self, kind: str, root: Path) -> None:
        self.kind = kind
        self.folder = root / "out" / "run"
        self.folder.mkdir(parents=True)
        self.url = "s3://out/run" if kind == "s3" else str(self.folder)
        self.jobs: list[Job] = []
        self.checkpoints = "s3://out/kept" if kind == "s3" else str(root / "kept")

    def files(self) -> dict[str, str]:
        """What is there, also what is hidden."""
        return {path.name: path.read_text() for path in self.folder.iterdir()}


@pytest.fixture(params=KINDS)
def where(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Where]:
    made = Where(request.param, tmp_path)
    keys = [S3_CREDENTIALS[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")]
    with S3Server(tmp_path, access_key=keys[0], secret_key=keys[1]) as server:
        for name, value in {**S3_CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        yield made
        for job in made.jobs:
            for writer in job.writers:
                writer.abort()


def close_files(writer: FileWriter) -> None:
    """Close what it has open, as the end of its process does."""
    for file in writer._open.values():
        file.content.close()
        file.draft.close()


class Job:
    """A job of two tasks that write files, up to where the writers are."""

    def __init__(self, where: Where, name: str, kept: bool, generation: int = 1) -> None:
        self.kept = kept
        self.sink = LineFiles(where.url)
        self.sink.validate()
        context = TaskContext("lines[0]", 0, 2, 100, name)
        context = replace(context, checkpoints=kept, generation=generation if kept else 0)
        self.contexts = [replace(context, index=index) for index in range(2)]
        self.writers: list[Any] = []
        where.jobs.append(self)

    def begin(self) -> Job:
        for context in self.contexts:
            self.writers.append(self.sink.open(context))
            if self.kept and context.generation == 1:
                self.writers[-1].restore(0, [])
        return self

    def write(self, text: str) -> Job:
        for writer in self.writers:
            writer.write([text])
        return self

    def end(self) -> None:
        prepared = [writer.prepare(1) for writer in self.writers]
        for writer, made in zip(self.writers, prepared, strict=True):
            writer.commit(1, made)
            writer.close()

    def fail(self) -> None:
        for writer in self.writers:
            writer.abort()
        self.sink.abort()

    def die(self, host: str | None = None) -> None:
        """As if its processes were killed; of a host, nobody here knows that."""
        with subprocess.Popen(["true"]) as dead:
            pass
        for writer in self.writers:
            close_files(writer)
            writer._claim._hold.end()
            name, place = writer._claim._name, self.sink.place
            told = claims._told(place.read(name))
            told |= {"pid": dead.pid, "host": host or told["host"]}
            place.write(name, claims.json.dumps(told) + " " * 9)


def met(kept: bool, name: str) -> Any:
    """The error of a job with or without checkpoints that has met one of this name."""
    told = rf"{MET}.*: job '{name}' \(pid {os.getpid()} on host .*, started 20"
    return pytest.raises(CheckpointError if kept else FileExistsError, match=told)


def is_final(files: dict[str, str], kept: bool, text: str) -> bool:
    names = [f"part-0000{index}{'-00000001' if kept else ''}.txt" for index in range(2)]
    return files == dict.fromkeys(names, f"{text}\n")


@pytest.mark.parametrize("second_keeps", KEPT)
@pytest.mark.parametrize("first_keeps", KEPT)
def test_the_second_while_the_first_runs(
    where: Where, first_keeps: bool, second_keeps: bool
) -> None:
    first = Job(where, "first", first_keeps).begin().write("1")
    second = Job(where, "second", second_keeps)
    if where.kind == "folder":
        with met(second_keeps, "first"):
            second.begin()
        second.fail()
        first.end()
        assert is_final(where.files(), first_keeps, "1")
    else:
        second.begin().write("2")
        with met(first_keeps, "second"):
            first.end()
        with met(first_keeps, "second"):
            Job.begin(first)  # a restart, after whatever has failed
        first.fail()
        second.end()
        assert is_final(where.files(), second_keeps, "2")


@pytest.mark.parametrize("second_keeps", KEPT)
@pytest.mark.parametrize("first_keeps", KEPT)
@pytest.mark.parametrize("host", [None, "elsewhere"])
def test_the_first_is_dead(
    where: Where, first_keeps: bool, second_keeps: bool, host: str | None
) -> None:
    first = Job(where, "first", first_keeps).begin()
    first.die(host)
    Job(where, "second", second_keeps).begin().write("2").end()
    left = {name for name in where.files() if name.endswith(".claim")}
    assert len(left) == (2 if where.kind == "s3" and host else 0)
    if not second_keeps:  # whoever comes next removes what nobody has read
        Job(where, "third", False).begin().write("3").end()
        names = [name for name in where.files() if not name.endswith(".tmp")]
        assert sorted(names) == ["part-00000.txt", "part-00001.txt"]


@pytest.mark.parametrize("name", ["first", "second"])
@pytest.mark.parametrize("kept", KEPT)
def test_a_claim_that_a_killed_task_was_writing_goes(
    tmp_path: Path, kept: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Where("folder", tmp_path)
    first, task = Job(where, "first", kept), Folder(where.folder)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", _killed)
        with pytest.raises(Killed):
            first.begin()
    assert [path.endswith(".claim.tmp") for path in task.names()] == [True]
    Job(where, name, kept, generation=2).begin().write("2").end()
    assert is_final(where.files(), kept, "2")


class Killed(BaseException):
    """Ends a task in the middle."""


def _killed(path: Path, target: Path) -> None:
    raise Killed


def test_who_goes_on_with_a_job_takes_the_place_over_from_who_lives(where: Where) -> None:
    first = Job(where, "first", True).begin().write("1")
    second = Job(where, "second", True, generation=2).begin()
    with met(True, "second"):
        first.end()
    if where.kind == "folder":
        first.fail()  # else its claims are held
    second.write("2").end()
    assert is_final(where.files(), True, "2")


@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("kept", KEPT)
def test_two_that_begin_at_one_moment(
    where: Where, kept: bool, is_ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Job(where, "one", kept), Job(where, "other", kept)
    jobs = [one, other] if is_ahead else [other, one]
    took: list[Exception | None] = []
    names = type(one.sink.place).names

    def both_have_claims(place: Any) -> Any:
        """The first that looks has the other claim, too, and look to the end."""
        monkeypatch.setattr(type(place), "names", names)
        took.append(caught(jobs[1].begin))
        return names(place)

    monkeypatch.setattr(type(one.sink.place), "names", both_have_claims)
    took.append(caught(jobs[0].begin))
    ended = [
        error or caught(job.write("x").end) for job, error in zip(jobs[::-1], took, strict=True)
    ]
    assert sum(error is None for error in ended) == 1
    (error,) = filter(None, ended)
    assert re.search(MET, str(error))
    for job in jobs:
        job.fail()
    assert is_final(where.files(), kept, "x")


def caught(function: Callable[[], object]) -> Exception | None:
    try:
        function()
    except (CheckpointError, FileExistsError) as error:
        return error
    return None


def test_a_clock_that_is_ahead_locks_nobody_out(where: Where) -> None:
    first = Job(where, "first", False)
    first.sink.owner = Owner("", "elsewhere", 1, time.time() + 1e6)
    first.begin().write("1")
    for writer in first.writers:
        writer._claim._hold.end()
    Job(where, "second", False).begin().write("2").end()
    with pytest.raises(FileExistsError if where.kind == "s3" else FileNotFoundError):
        first.end()


def test_a_job_that_only_writes_finds_out_before_its_end(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "PERIOD_SECONDS", 0.0)
    monkeypatch.setattr(Folder, "is_held", lambda *_: None)  # a file system without locks
    first = Job(where, "first", False).begin().write("1")
    Job(where, "second", False).begin().write("2").end()
    with met(False, "second"):
        first.write("3")


@pytest.mark.parametrize("kept", KEPT)
def test_a_restart_has_claims_of_its_own(where: Where, kept: bool) -> None:
    job = Job(where, "job", kept).begin().write("lost")
    stale, job.writers = job.writers, []
    for writer in stale:
        close_files(writer)
        job.sink.place.drop([writer._names.temporary(0)])
    job.begin().write("kept")
    for writer in stale:  # whose workers were only out of reach
        with pytest.raises(FileNotFoundError):
            writer._claim.check()
        writer._claim.release()
    job.end()
    assert {text for name, text in where.files().items() if name[0] == "p"} == {"kept\n"}


@pytest.mark.parametrize("kept", KEPT)
def test_whole_jobs(where: Where, kept: bool, tmp_path: Path) -> None:
    """The second runs while the first is in the middle."""

    def config(name: str) -> dict[str, Any]:
        return {"checkpoints": str(tmp_path / name), "restarts": 5} if kept else {}

    def runs_second(number: int) -> int:
        told = tmp_path / "second"
        try:
            run(source(Collection([2])).sink(JsonLines(where.url)), **config("b"))
            told.write_text("ended")
        except (CheckpointError, OperatorError) as error:
            told.write_text(str(error))
        return number

    goes_on = where.kind == "folder"
    kind = CheckpointError if kept else OperatorError
    with nullcontext() if goes_on else pytest.raises(kind, match=MET):
        run(source(Collection([1])).map(runs_second).sink(JsonLines(where.url)), **config("a"))
    told = (tmp_path / "second").read_text()
    assert re.search(MET, told) if goes_on else told == "ended"
    assert list(where.files().values()) == ["1\n" if goes_on else "2\n"]


def test_checkpoints_of_two_jobs_that_begin_at_one_moment(where: Where) -> None:
    both = threading.Barrier(2)
    ended: dict[int, BaseException | None] = {}

    def begin(number: int) -> None:
        both.wait()
        numbers = source(Collection(range(number, 1000, 2))).sink(LineFiles(f"{where.url}{number}"))
        try:
            run(numbers, checkpoints=where.checkpoints, name=f"job {number}")
            ended[number] = None
        except Exception as error:  # noqa: BLE001 - looked at below
            ended[number] = error

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (goes_on,) = (number for number, error in ended.items() if error is None)
    error = ended[1 - goes_on]
    assert isinstance(error, Fenced | CheckpointError) or "has epochs of" in str(error)
    assert f"job 'job {goes_on}' (pid {os.getpid()} on host" in str(error)
