"""A job's page: its list, its records as they come, its actions, and files that are odd."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from engine.errors import CheckpointError, ConfigError
from engine.ui import page as page_module
from engine.ui import tail
from tests.unit.ui.serving import END, JOB, Job, page, write, wrote
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
LOG = {"kind": "log", "t": 1.0, "text": "a line"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read whenever somebody asks, and nobody waits for them at the end."""
    monkeypatch.setattr(page_module, "_WATCHED_SECONDS", 0.0)
    monkeypatch.setattr(tail, "_READ_SECONDS", 0.0)
    monkeypatch.setattr(tail, "_ROW_SECONDS", -1.0)


def test_records_come_as_they_stand_and_only_once(tmp_path: Path) -> None:
    writer = write(tmp_path / "words.oka", LOG)
    with page(tmp_path) as (_, browser):
        listed = browser.get("/api/jobs")
        assert listed["current"] == "words"
        (row,) = listed["jobs"]
        assert (row["name"], row["state"], row["since"]) == ("words", "running", 1e9)
        first = browser.records("words")
        assert [each["kind"] for each in first["records"]] == ["job", "log"]
        assert first["records"][1] == LOG
        assert (first["state"], first["actions"], first["next"]) == ("running", [], 2)
        since = f"?generation={first['generation']}&after=2"
        assert browser.records("words", since)["records"] == []
        writer.write([json.dumps({**LOG, "text": "é <b>"}).encode()])
        second = browser.records("words", since)
        assert [each["text"] for each in second["records"]] == ["é <b>"]
        assert second["next"] == 3
        writer.write([json.dumps(END).encode()])
        writer.close()
        third = browser.records("words", f"?generation={first['generation']}&after=3")
        assert (third["records"], third["state"]) == ([END], "finished")
        (row,) = browser.get("/api/jobs")["jobs"]
        assert (row["state"], row["records"], row["seconds"]) == ("finished", 7, 9.0)


def test_a_file_that_is_written_anew_comes_whole(tmp_path: Path) -> None:
    writer = write(tmp_path / "words.oka", LOG, LOG)
    with page(tmp_path) as (_, browser):
        first = browser.records("words")
        writer = writer.rewrite([json.dumps(each).encode() for each in (JOB, END)])
        writer.close()
        query = f"?generation={first['generation']}&after={first['next']}"
        second = browser.records("words", query)
        assert second["generation"] != first["generation"]
        assert [each["kind"] for each in second["records"]] == ["job", "end"]
        (tmp_path / "words.oka").unlink()
        assert browser.ask("GET", "/api/jobs/words")[0] == 404
        assert browser.get("/api/jobs") == {"jobs": [], "current": None}


@pytest.mark.parametrize("query", ["?after=1", "?generation=1&after=1", "?after=99", ""])
def test_who_had_another_reading_gets_all(query: str, tmp_path: Path) -> None:
    wrote(tmp_path / "words.oka")
    with page(tmp_path) as (_, browser):
        assert len(browser.records("words", query)["records"]) == 2
        generation = browser.records("words")["generation"]
        assert len(browser.records("words", f"?generation={generation}&after=9")["records"]) == 2


@pytest.mark.parametrize("query", ["after=-1", "after=x", "generation=1.5", f"after={'9' * 99}"])
def test_numbers_that_are_none_are_refused(query: str, tmp_path: Path) -> None:
    wrote(tmp_path / "words.oka")
    with page(tmp_path) as (_, browser):
        status, _, body = browser.ask("GET", f"/api/jobs/words?{query}")
        assert (status, "expected a whole number" in json.loads(body)["error"]) == (400, True)


def test_lines_of_forged_files_are_json_or_left_out(tmp_path: Path) -> None:
    lines = [
        b'{"kind":"sample","t":1,"x":NaN,"y":[Infinity,-Infinity,1e999],"z":"NaN"}',
        b'{"kind":"log","t":NaN,"text":"x"}',
        b'{"kind":"log","t":2,"text":"</script>\\u2028"}',
        b"no json",
        b'["kind"]',
        b'{"kind":1,"t":1}',
        b"[" * 100_000,
        '{"kind":"log","t":3,"text":"wide"}'.encode("utf-16"),
        b'  {"kind":"log","t":4}',
        b'{"kind":"log","t":5,"text":"\xff"}',
        b'{"kind":"log","t":6,"n":1e999}',
    ]
    wrote(tmp_path / "forged.oka", *lines)
    with page(tmp_path) as (_, browser):

        def none(constant: str) -> Any:
            raise AssertionError(constant)

        body = browser.ask("GET", "/api/jobs/forged")[2]
        found = json.loads(body, parse_constant=none)
        assert found["next"] == len(found["records"])
        sample = next(each for each in found["records"] if each["kind"] == "sample")
        assert (sample["x"], sample["y"], sample["z"]) == (None, [None, None, None], "NaN")
        texts = [each.get("text") for each in found["records"] if each["kind"] == "log"]
        assert texts == ["x", "</script>\u2028", "wide", None, None]


def test_odd_files_of_a_folder(tmp_path: Path) -> None:
    names = ["a b", "ä", "<script>", "-x", "%2e%2e", 'q"', "new\nline", "?x=1#y", ".", "a'b&c"]
    for name in names:
        wrote(tmp_path / f"{name}.oka")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wrote(elsewhere / "x.oka")
    (elsewhere / "secret").write_text("secret")
    (tmp_path / "link.oka").symlink_to(elsewhere / "x.oka")
    (tmp_path / "out.oka").symlink_to(elsewhere / "secret")
    (tmp_path / "loop.oka").symlink_to("loop.oka")
    (tmp_path / "gone.oka").symlink_to("nothing")
    os.mkfifo(tmp_path / "fifo.oka")
    (tmp_path / "folder.oka").mkdir()
    (tmp_path / "empty.oka").write_bytes(b"")
    (tmp_path / "garbage.oka").write_bytes(os.urandom(1000))
    (tmp_path / "other.oka").write_bytes(gzip.compress(b'{"kind":"job","t":0,"schema":"x"}\n'))
    (tmp_path / "bomb.oka").write_bytes(gzip.compress(b" " * (300 << 20), 1))
    forged = {**JOB, "since": 1e999, "name": ["x"]}
    wrote(tmp_path / "forged.oka", {**forged}, {"kind": "plan", "t": 0})
    with page(tmp_path) as (_, browser):
        listed = browser.get("/api/jobs")
        assert {each["job"] for each in listed["jobs"]} == {*names, "link"}
        assert listed["current"] is None
        for name in [*names, "link"]:
            found = browser.records(name)
            assert [each["kind"] for each in found["records"]] == ["job", "end"], name
        for name in ("fifo", "folder", "gone", "loop", "x", "elsewhere/x", "secret"):
            assert browser.ask("GET", f"/api/jobs/{quote(name, safe='')}")[0] == 404, name
        for name in ("out", "empty", "garbage", "bomb"):
            body = browser.ask("GET", f"/api/jobs/{name}")[2]
            assert json.loads(body)["records"] == []
            assert b"secret" not in body


def test_many_jobs_and_many_pages_at_once(tmp_path: Path) -> None:
    for number in range(8):
        wrote(tmp_path / f"{number}.oka", *[LOG] * number)
    with page(tmp_path) as (_, browser):
        found: list[Any] = []

        def look() -> None:
            found.extend((at, browser.records(str(at))["next"]) for at in range(8))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sorted(found) == sorted((at, at + 2) for at in range(8) for _ in range(4))


def test_answers_are_compressed_for_those_who_take_it(tmp_path: Path) -> None:
    wrote(tmp_path / "words.oka", *[LOG] * 1000)
    with page(tmp_path) as (_, browser):
        plain = browser.ask("GET", "/api/jobs/words")
        small = browser.ask("GET", "/api/jobs/words", {"Accept-Encoding": "gzip, br"})
        assert plain[1]["Content-Encoding"] is None
        assert small[1]["Content-Encoding"] == "gzip"
        assert gzip.decompress(small[2]) == plain[2]
        assert len(small[2]) < len(plain[2]) / 10


def test_files_of_the_page_are_sent_once(tmp_path: Path) -> None:
    with page(tmp_path) as (_, browser):
        status, headers, body = browser.ask("GET", "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert browser.ask("GET", "/static/index.html")[2] == body
        again = browser.ask("GET", "/", {"If-None-Match": headers["ETag"]})
        assert (again[0], again[2]) == (304, b"")
        assert browser.ask("GET", "/", {"If-None-Match": '"x"'})[0] == 200


ASKED = [
    ("stop", {}, 200, "stop"),
    ("cancel", {}, 200, "cancel"),
    ("savepoint", {"name": "mine"}, 200, ("savepoint", "mine")),
    ("rescale", {"parallelism": 4}, 200, ("rescale", 4)),
    ("rescale", {}, 400, None),
    ("rescale", {"parallelism": True}, 400, None),
    ("rescale", {"parallelism": 2.0}, 400, None),
    ("rescale", {"parallelism": "2"}, 400, None),
    ("savepoint", {"name": 1}, 400, None),
    ("savepoint", {"stop": "now"}, 400, None),
    ("stop", {"x": 1}, 400, None),
    ("flame", {"task": "map[0]", "seconds": 0.5}, 200, ("flame", "map[0]", 0.5)),
    ("flame", {"task": "map[0]", "seconds": 2}, 200, ("flame", "map[0]", 2)),
    ("flame", {"task": "map[0]"}, 200, ("flame", "map[0]", 5.0)),
    ("flame", {"seconds": 2}, 400, None),
    ("flame", {"task": "map[0]", "seconds": True}, 400, None),
    ("flame", {"task": 0}, 400, None),
    ("destroy", {}, 404, None),
]


@pytest.mark.parametrize(("action", "body", "status", "asked"), ASKED)
def test_actions(action: str, body: Any, status: int, asked: Any, tmp_path: Path) -> None:
    writer = write(tmp_path / "words.oka")
    job = Job(tmp_path / "words.oka")
    with page(tmp_path, job) as (_, browser):
        offered = browser.records("words")["actions"]
        assert offered == ["savepoint", "stop", "rescale", "cancel", "flame"]
        found, answer = browser.act("words", action, **body)
        assert (found, "said" in answer) == (status, status == 200), answer
        assert job.asked == ([] if asked is None else [asked])
        writer.write([json.dumps(END).encode()])
        assert browser.records("words")["actions"] == []
    writer.close()


def test_a_savepoint_without_a_name_gets_one_and_errors_are_told(tmp_path: Path) -> None:
    writer = write(tmp_path / "words.oka")
    job = Job(tmp_path / "words.oka")
    with page(tmp_path, job) as (_, browser):
        said = browser.act("words", "savepoint")[1]["said"]
        (asked,) = job.asked
        assert f"savepoint {asked[1]} is made, of epoch 3" in said
        errors: list[Exception] = [ConfigError("no such name", "try x"), CheckpointError("none")]
        errors.append(TimeoutError())

        def failing(name: str, *, timeout: float | None = None) -> int:
            raise errors[0]

        job.savepoint = failing  # type: ignore[method-assign]
        assert browser.act("words", "savepoint") == (
            400,
            {"error": "no such name", "hint": "try x"},
        )
        del errors[0]
        assert browser.act("words", "savepoint")[0] == 409
        del errors[0]
        assert browser.act("words", "savepoint")[0] == 408
        job.has_checkpoints = False  # type: ignore[misc]
        assert browser.records("words")["actions"] == ["stop", "cancel", "flame"]
        status, answer = browser.act("words", "rescale", parallelism=2)
        assert (status, "--checkpoints" in answer["hint"]) == (409, True)
    writer.close()


def test_one_long_action_at_a_time_and_the_job_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    writer = write(tmp_path / "words.oka")
    job = Job(tmp_path / "words.oka")
    begun, go_on = threading.Event(), threading.Event()

    def slow(name: str, *, timeout: float | None = None) -> int:
        begun.set()
        go_on.wait(60)
        return 1

    job.savepoint = slow  # type: ignore[method-assign]
    with page(tmp_path, job) as (_, browser):
        first: list[Any] = []
        thread = threading.Thread(target=lambda: first.append(browser.act("words", "savepoint")))
        thread.start()
        assert begun.wait(60)
        assert browser.act("words", "savepoint")[0] == 409
        assert browser.act("words", "stop")[0] == 200
        go_on.set()
        thread.join()
        assert first[0][0] == 200
    writer.close()


def test_other_jobs_are_shown_and_left_alone(tmp_path: Path) -> None:
    writer = write(tmp_path / "words.oka")
    with page(tmp_path) as (_, browser):
        status, answer = browser.act("words", "cancel")
        assert (status, "oka run --ui" in answer["hint"]) == (409, True)
        assert browser.act("nothing", "cancel")[0] == 404
    writer.close()


def test_who_watches_hears_of_the_end_before_it_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "_WATCHED_SECONDS", 60.0)
    writer = write(tmp_path / "words.oka")
    with page(tmp_path, Job(tmp_path / "words.oka")) as (found, browser):
        assert browser.records("words")["state"] == "running"
        writer.write([json.dumps(END).encode()])
        closing = threading.Thread(target=found.close)
        closing.start()
        assert browser.records("words")["state"] == "finished"
        wait_until(lambda: not closing.is_alive(), 1.5)
        with pytest.raises(ConnectionRefusedError):
            browser.records("words")
    writer.close()
