"""The page of a running job and of past ones, as `oka run --ui` and `oka ui` serve it."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

import engine
from engine.cli.main import commands
from engine.errors import ConfigError, EngineError
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords
from tests.unit.ui.serving import Browser, wrote
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
OKA = str(Path(sys.executable).parent / "oka")
LINK = re.compile(r"oka ui: (http://127\.0\.0\.1:\d+/\?token=[\w-]{32,})\n")


def soon(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it is true; a page is asked a few times a second."""
    return wait_until(lambda: time.sleep(0.05) or condition(), 120)


def words() -> Any:
    counted = source(RandomWords(rate=5000, words=50)).key_by(lambda word: word).count()
    return counted.sink(Discard())


def test_a_job_is_shown_and_acted_on_from_its_start_to_its_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    handle = engine.submit(
        words(),
        name="words",
        ui_port=0,
        progress="none",
        history=str(tmp_path),
        checkpoints=str(tmp_path / "kept"),
        checkpoint_interval_seconds=60.0,
    )
    link = handle.ui_url or ""
    try:
        assert LINK.fullmatch(capfd.readouterr().err) is not None
        browser = Browser(link)
        job = soon(lambda: browser.get("/api/jobs")["current"])

        def records(kind: str) -> Any:
            return [each for each in browser.records(job)["records"] if each["kind"] == kind]

        soon(lambda: records("sample"))
        assert browser.records(job)["actions"] == [
            *("savepoint", "stop", "rescale", "cancel", "flame"),
        ]
        status, answer = browser.act(job, "savepoint", name="mine")
        assert (status, "savepoint mine is made" in answer["said"]) == (200, True), answer
        status, answer = browser.act(job, "savepoint", name="no name")
        assert (status, "savepoint's name" in answer["error"], "'latest'" in answer["hint"]) == (
            400, True, True,
        )  # fmt: skip
        assert browser.act(job, "rescale", parallelism=0)[0] == 400
        assert browser.act(job, "rescale", parallelism=2)[0] == 200
        soon(lambda: len(records("plan")) == 2)
        soon(lambda: records("sample")[-1]["t"] > records("plan")[1]["t"])
        assert browser.act(job, "stop")[0] == 200
        soon(lambda: browser.records(job)["state"] == "finished")
        handle.wait_finished(300)
        (path,) = tmp_path.glob("*.oka")
        secret = browser.token
        assert secret not in gzip.decompress(path.read_bytes()).decode()
        assert secret not in repr(handle)
        assert secret not in str(handle.wait_finished())
        assert secret not in capfd.readouterr().err
        with pytest.raises(ConnectionRefusedError):
            browser.get("/api/jobs")
    finally:
        handle.cancel()
        handle.wait_stopped()


def test_a_page_needs_a_port_that_is_free_and_a_history() -> None:
    with pytest.raises(ConfigError, match="history is 'off'") as told:
        engine.submit(words(), ui_port=0, history="off")
    assert "--history" in str(told.value.hint)
    with running_command("ui") as (_, browser):
        port = int(browser.at.partition(":")[2])
        with pytest.raises(ConfigError, match=f"ui_port is {port}, and something else listens"):
            engine.submit(words(), ui_port=port)
        refused = CliRunner().invoke(commands, ["ui", "--port", str(port)])
        assert isinstance(refused.exception, ConfigError)
        assert "--port 0" in str(refused.exception.hint)


@contextmanager
def running_command(*arguments: Any) -> Iterator[tuple[subprocess.Popen[str], Browser]]:
    command = [OKA, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        told = LINK.fullmatch(process.stdout.readline())
        assert told is not None
        yield process, Browser(told[1])
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)


def test_the_commands_serve_until_ctrl_c_and_nobody_sees_the_token(tmp_path: Path) -> None:
    wrote(tmp_path / "first.oka")
    wrote(tmp_path / "second.oka")
    with running_command("ui", tmp_path) as (process, browser):
        listed = browser.get("/api/jobs")
        assert [each["job"] for each in listed["jobs"]] == ["first", "second"]
        found = browser.records("second")
        assert (found["state"], found["actions"]) == ("finished", [])
        assert browser.token not in " ".join(psutil.Process(process.pid).cmdline())
    assert process.returncode == 0
    with running_command("ui", tmp_path / "first.oka") as (_, browser):
        assert browser.get("/api/jobs")["current"] == "first"
        assert browser.ask("GET", "/api/jobs/second")[0] == 404
    program = "pipelines/word_count.py:random_word_count"
    more = ("seconds=600", "--ui", "--history", tmp_path / "third.oka", "--progress", "none")
    with running_command("run", program, *more) as (process, browser):
        assert soon(lambda: browser.get("/api/jobs")["current"]) == "third"
        assert browser.act("third", "cancel")[0] == 200
        soon(lambda: browser.records("third")["state"] == "cancelled")
        tokens = [" ".join(each.cmdline()) for each in psutil.Process(process.pid).children()]
        assert not any(browser.token in each for each in tokens)


def test_what_is_no_history_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.oka").write_text("no history")
    for arguments, what in (
        ([str(tmp_path / "x.oka")], "is no history"),
        ([str(tmp_path / "nothing")], "is no job in"),
        ([str(tmp_path), "--trace", str(tmp_path / "t")], "--trace is of one job"),
        (["--trace", str(tmp_path / "t")], "--trace is of one job"),
        ([str(tmp_path), "--host", "203.0.113.7"], "--host is '203.0.113.7'"),
    ):
        found = CliRunner().invoke(commands, ["ui", *arguments])
        assert isinstance(found.exception, ConfigError)
        assert what in str(found.exception)


def test_a_flame_graph_of_a_hot_lambda(runtime: str, tmp_path: Path) -> None:
    busy = lambda word: word * 20_000 != word * 20_001 and word  # noqa: E731 - what is looked for
    pipeline = source(RandomWords(rate=5000, words=50)).map(busy).rebalance().sink(Discard())
    path = tmp_path / "job.oka"
    settings = {"progress": "none", "ui_port": 0, "history": str(path), "runtime": runtime}
    handle = engine.submit(pipeline, native="auto", **settings)
    try:
        browser = Browser(handle.ui_url or "")
        soon(lambda: handle.statistics().source_records)
        found = handle.flame("random_words -> map[0]", 0.5)
        line = busy.__code__.co_firstlineno
        seen = [count for stack, count in found.stacks if f"test_ui.py:{line})" in stack]
        assert sum(seen) > found.samples / 2, found
        first = found.stacks[0][0].split(";")
        assert first[0].startswith("Task.run (engine/task/task.py:")
        said = browser.act("job", "flame", task="discard[0]", seconds=0.1)
        assert said[0] == 200, said
        assert "discard[0] was seen" in said[1]["said"]

        def flames() -> Any:
            records = browser.records("job")["records"]
            return [each for each in records if each["kind"] == "flame"]

        soon(lambda: len(flames()) == 2)
        record, _ = flames()
        assert record["task"] == "random_words -> map[0]"
        assert record["samples"] == found.samples
        assert record["stacks"] == [list(each) for each in found.stacks]
        for task, seconds, what in (
            ("map[0]", 1, "expected one of random_words -> map\\[0\\], discard\\[0\\]"),
            ("discard[0]", 0, "above 0"),
            ("discard[0]", 61, "at most 60"),
            ("discard[0]", float("nan"), "above 0"),
            ("discard[0]", True, "above 0"),
        ):
            with pytest.raises(ConfigError, match=what):
                handle.flame(task, seconds)
            assert browser.act("job", "flame", task=task, seconds=seconds)[0] == 400
    finally:
        handle.cancel()
        handle.wait_stopped()
    with pytest.raises(EngineError, match="gave no stacks"):
        handle.flame("discard[0]", 1)
