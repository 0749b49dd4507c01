"""A job writes its history, and people read it."""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import engine
from engine.cli.jobs import jobs
from engine.cli.ui import command as ui
from engine.history import file
from engine.history.reading import JobHistory
from engine.testing import run
from operators import source
from operators.sinks import Collect
from operators.sources import Collection


def said(*arguments: Any) -> Result:
    return CliRunner().invoke(jobs, [str(each) for each in arguments])


def test_a_job_from_its_plan_to_its_end(tmp_path: Path) -> None:
    words = source(Collection(["a", "b", "a"])).map(str.upper).key_by().count()
    pipeline = words.sink(Collect())
    handle = engine.submit(pipeline, name="words", parallelism=2, history=str(tmp_path))
    handle.wait_finished()
    (path,) = tmp_path.iterdir()
    assert handle.history == path
    history = JobHistory.read(path)
    assert (history.state, history.name, history.failure) == ("finished", "words", "")
    assert history.job["settings"]["parallelism"] == 2
    assert history.job["versions"]["python"]
    names = [each["name"] for each in history.plan["operators"]]
    assert names == ["collection", "map", "count", "collect"]
    assert [each["partitioner"] for each in history.plan["edges"]] == ["hash by record"]
    assert len(history.tasks) == 4
    for name in ("in", "out"):
        columns = [each[name] for each in history["tasks"] if name in each]
        totals = list(map(sum, zip(*columns, strict=True)))
        assert sum(totals[2:]) == 3, "the last of them came with the job's end"
    counted = history.operators()
    assert [counted[each]["in"] for each in range(4)] == [0, 3, 3, 3]
    steps = [each["step"] for each in history["step"]]
    assert steps == ["place", "process_id", "deploy", "connect", "run", "commit", "close"]
    done = [task for each in history["done"] if each["step"] == "run" for task in each["tasks"]]
    assert sorted(done) == [0, 1, 2, 3]
    assert history.records == history.end["result"]["records"] == 3  # type: ignore[index]
    lines = gzip.decompress(path.read_bytes()).splitlines()
    assert all({"kind", "t"} <= json.loads(line).keys() for line in lines)
    listed = said("--folder", tmp_path).output
    assert path.stem in listed
    assert "finished" in listed
    assert "count" in said(path).output


def test_a_restart_has_its_cause_its_checkpoints_and_a_trace(tmp_path: Path) -> None:
    mark = tmp_path / "failed"

    def fail_once(n: int) -> int:
        if n == 500 and not mark.exists():
            mark.touch()
            raise ValueError("only once")
        return n

    pipeline = source(Collection(range(1000), rate=1000)).map(fail_once).sink(Collect())
    path = tmp_path / "job.oka"
    run(
        pipeline,
        history=str(path),
        checkpoints=str(tmp_path / "checkpoints"),
        checkpoint_interval_seconds=0.1,
        batch_size=50,
    )
    history = JobHistory.read(path)
    assert history.state == "finished"
    (error,) = history["error"]
    assert (error["operator"], error["record"]) == ("map", "500")
    assert "only once" in error["message"]
    assert 'raise ValueError("only once")' in error["traceback"]
    warnings = [each["text"] for each in history["event"] if each["event"] == "warning"]
    assert any(text.startswith("restart 1 of 10") for text in warnings)
    assert {each["attempt"] for each in history["step"]} == {0, 1}
    stored = [each for each in history.checkpoints.values() if "stored" in each]
    assert stored
    assert all(each["began"] <= each["aligned"] <= each["stored"] for each in stored)
    assert all(len(each["written_ms"]) == 1 and each["bytes"] > 0 for each in stored)
    trace = tmp_path / "trace.json"
    assert CliRunner().invoke(ui, [str(path), "--trace", str(trace)]).exit_code == 0
    events = json.loads(trace.read_text())["traceEvents"]
    runs = [each for each in events if each["ph"] == "X" and each["name"] == "run"]
    assert [each["args"]["attempt"] for each in runs] == [0, 1]
    assert runs[0]["ts"] + runs[0]["dur"] <= runs[1]["ts"]
    assert any("failed on record 500" in each["name"] for each in events if each["ph"] == "i")
    assert any(each["name"].startswith("checkpoint ") for each in events)
    assert all(each["dur"] > 0 for each in events if each["ph"] == "X")


def test_secrets_of_settings_errors_and_logs_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "open-sesame-42")

    def call(n: int) -> int:
        raise ConnectionError("https://me:hunter2hunter@host refused open-sesame-42")

    path = tmp_path / "job.oka"
    with pytest.raises(engine.OperatorError):
        run(
            source(Collection([{"password": "pa55word"}])).map(call).sink(Collect()),
            history=str(path),
            name="job of open-sesame-42",
        )
    text = gzip.decompress(path.read_bytes()).decode()
    assert "refused ***" in text
    for secret in ("open-sesame", "hunter2", "pa55word"):
        assert secret not in text


@pytest.mark.parametrize("where", ["a file/below", "no folder/job.oka", "other.oka"])
def test_a_job_goes_on_where_its_history_cannot_be_written(
    where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a file").write_text("")
    (tmp_path / "no folder").write_text("")
    (tmp_path / "other.oka").write_text("the user's")
    pipeline = source(Collection([1, 2])).sink(Collect())
    with caplog.at_level(logging.WARNING, "oka"):
        assert run(pipeline, history=str(tmp_path / where)) == {"collect": [1, 2]}
    (record,) = caplog.records
    assert "history of the job" in record.message
    assert (tmp_path / "other.oka").read_text() == "the user's"


def test_a_job_goes_on_when_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write = file.os.write

    def full(descriptor: int, data: Any) -> int:
        written.append(len(data))
        if len(written) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    pipeline = source(Collection(range(1500), rate=1000)).sink(Collect())
    with monkeypatch.context() as changed, caplog.at_level(logging.WARNING, "oka"):
        changed.setattr("engine.history.file.os.write", full)
        output = run(pipeline, history=str(tmp_path / "job.oka"))
    assert len(output["collect"]) == 1500
    (record,) = caplog.records
    assert "No space left on device; the job goes on" in record.message
    assert JobHistory.read(tmp_path / "job.oka").plan["operators"]


def test_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    pipeline = source(Collection([1, 2])).sink(Collect())
    assert engine.execute(pipeline, history="off").output == [1, 2]
    assert list(tmp_path.iterdir()) == []
    assert said().output.startswith("no job of this user has a history")
    engine.execute(pipeline)
    assert "finished" in said().output
    with pytest.raises(engine.ConfigError, match="history is '', expected 'auto', 'off'"):
        engine.JobConfig(history="")


def test_what_is_no_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.oka").write_text("x")
    for wrong in (tmp_path / "x.oka", "no such job"):
        result = said(wrong, "--folder", tmp_path)
        assert isinstance(result.exception, engine.ConfigError)
    assert "no job of this user" in said("--folder", tmp_path).output


def test_the_last_words_of_a_worker_are_told(tmp_path: Path) -> None:
    def leave(n: int) -> int:
        sys.stderr.write("\x1b[31mout of paper\n")
        sys.stderr.flush()
        os._exit(3)

    path = tmp_path / "job.oka"
    with pytest.raises(engine.WorkerLost):
        engine.execute(source(Collection([1])).map(leave).sink(Collect()), history=str(path))
    history = JobHistory.read(path)
    assert history.error is not None
    assert history.error["task"] == "collection -> map -> collect[0]"
    assert history.error["status"] == "exited with status 3"
    assert "out of paper" in history.error["log"]
    assert any("out of paper" in line["text"] for line in history["log"])
    assert [each["type"] for each in history["error"]] == ["WorkerLost"]
    assert not history["event"]
    output = said(path).output
    assert "exited with status 3" in output
    assert "?[31mout of paper" in output


def test_forged_files_are_refused_or_shown(tmp_path: Path) -> None:
    path = tmp_path / "job.oka"
    run(source(Collection([1])).map(str).sink(Collect()), history=str(path))
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    values = random.Random(4)
    wrong: list[Any] = [None, -1, "x", [], {}, [None], {"a": 1}, 1e300, True]
    for _ in range(40):
        forged = [dict(record) for record in records]
        for record in values.sample(forged, 3):
            record[values.choice(list(record))] = values.choice(wrong)
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, forged)).encode() + b"\n"))
        for result in (
            said(path),
            said("--folder", tmp_path),
            CliRunner().invoke(ui, [str(path), "--trace", str(tmp_path / "trace.json")]),
        ):
            assert result.exception is None or isinstance(result.exception, engine.ConfigError)
