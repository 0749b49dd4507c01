"""Sinks: what they gather, write and leave behind."""

import datetime
import json
import math
import os
import pickle
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import CheckpointError, GraphError, OperatorError
from engine.graph import SinkOperator, SinkWriter, TaskContext
from engine.network import Batch
from engine.testing import run
from operators import source
from operators.sinks import (
    Callback,
    Collect,
    Counts,
    CsvSink,
    Discard,
    JsonLines,
    LineFiles,
    ParquetSink,
    Print,
)
from operators.sources import Collection
from tests.halves import Halves, run_half, run_rest

Task = Callable[..., TaskContext]


def final(writer: SinkWriter) -> Any:
    return writer.commit(1, writer.prepare(1))


def result(sink: SinkOperator[Any], task: Task, *tasks: list[list[Any]]) -> Any:
    """The merged result of tasks that wrote these batches."""
    results = []
    for index, batches in enumerate(tasks):
        writer = sink.open(task(index, len(tasks)))
        for batch in batches:
            writer.write(batch)
        results.append(final(writer))
    return sink.commit(1, results)


def test_collect(task: Task) -> None:
    assert result(Collect(), task, [[1, 2], [3]], [], [[4]]) == [1, 2, 3, 4]
    assert Collect().properties.driver


def test_columns_travel_to_the_driver_without_what_they_are_cut_from(task: Task) -> None:
    whole = pa.record_batch({"n": range(20_000), "text": [f"text {n}" for n in range(20_000)]})
    parts = [whole.slice(at, 100) for at in range(0, 20_000, 100)]
    writer = Collect().open(task())
    for each in parts:
        writer.write(each)
    committed = pickle.dumps(final(writer))
    assert len(committed) < 2 * whole.nbytes
    assert Collect().commit(1, [pickle.loads(committed)]) == parts


def test_counts_keeps_the_last_value_of_each_key(task: Task) -> None:
    first = [[("a", 1), ("b", 1)], [("a", 2)]]
    assert result(Counts(), task, first, [[["c", 7]]], [[]]) == {"a": 2, "b": 1, "c": 7}
    assert Counts().properties.driver


def test_counts_take_columns_of_any_keys_one_kind_after_another(task: Task) -> None:
    writer = Counts().open(task())
    day = datetime.date(2026, 11, 21)  # dates are keys for Python alone
    for keys, values in [
        (["a", None], [1, 2]),
        ([day, day], [1, 2]),
        ([1.5, math.nan, math.nan], [1, 2, 3]),
        (["a"], [None]),
    ]:
        writer.write(pa.record_batch({"key": keys, "value": values}))
    counts = Counts().commit(1, [final(writer)])
    assert counts == {"a": None, None: 2, day: 2, 1.5: 1, math.nan: 3}
    with pytest.raises(TypeError, match="the columns key, expected two"):
        Counts().open(task()).write(pa.record_batch({"key": ["a"]}))


def test_counts_have_one_nan_with_its_last_value(task: Task) -> None:
    def nans(first: int) -> list[Any]:
        kinds = [float, np.float64, Decimal, complex]
        return [(kind("nan"), first + at) for at, kind in enumerate(kinds)]

    first = [[*nans(1), ("a", 0)], [("a", 1)], nans(5), [(math.nan, 9), ("b", 2)]]
    second = [[(("a", np.float32("nan")), 1), (("a", math.nan), 2)], [((1, 2), 3)]]
    for last in ([], [nans(10)], [[(Decimal("sNaN"), 13)]]):
        counts = result(Counts(), task, [*first, *last], second)
        assert counts == {
            math.nan: 13 if last else 9,
            "a": 1,
            "b": 2,
            ("a", math.nan): 2,
            (1, 2): 3,
        }


@pytest.mark.parametrize("other", [5, "ab", b"ab", {1, 2}, {"a": 1, "b": 2}, ("a",), ("a", 1, 2)])
@pytest.mark.parametrize("form", ["list", "encoded"])
def test_counts_of_what_is_no_pair(task: Task, form: str, other: Any) -> None:
    writer, records = Counts().open(task()), [("a", 1), other]
    message = rf"Counts got {type(other).__name__}, expected pairs \(key, value\)"
    with pytest.raises(TypeError, match=message) as caught:
        writer.write(records if form == "list" else Batch.from_list(records))
    assert caught.traceback[-1].frame.f_locals["record"] == other


def test_counts_by_what_is_no_key(task: Task) -> None:
    writer = Counts().open(task())
    with pytest.raises(TypeError, match="unhashable"):
        writer.write([(["a"], 1)])


KEYS = {
    "texts": ["a", "b", "", "a" * 70, "\U0001f600"],
    "equal numbers": [1, True, 1.0, np.float64(1), 0, -0.0, 2**70, 1e20, 10**20],
    "NaN": [math.nan, np.float64("nan"), Decimal("nan"), None, 0],
    "tuples": [(1, "a"), (True, "a"), (1.0, "b"), (), ((),), (math.nan,)],
    "other types": [b"a", "a", datetime.date(2026, 1, 2), Decimal("1.0"), 1, frozenset({1}), 1.5],
}


def in_form(form: str, pairs: list[Any]) -> Any:
    if form == "list":
        return pairs
    if form == "encoded":
        return Batch.from_list(pairs, False)
    keys, values = zip(*((str(key), str(value)) for key, value in pairs), strict=True)
    columns = pa.record_batch({"key": keys, "value": values})
    return columns if form == "columns" else Batch.from_columns(columns)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_counts_of_encoded_pairs_are_those_of_lists(
    task: Task, keys: str, restored: bool, seed: int
) -> None:
    """The same keys, in the same order and form, whichever way the batches come."""
    chance = random.Random(f"{keys} {seed}")
    values = [1, "a", None, [1], {"a": 1}, ("x" * 40, 2), 2**70]
    context = replace(task(), checkpoints=restored)
    writers = [Counts().open(context) for _ in range(3)]
    forms = ["list", "encoded"]
    for at in range(8):
        pairs = [
            (chance.choice(KEYS[keys]), chance.choice(values)) for _ in range(chance.randint(1, 9))
        ]
        for writer, form in zip(writers, [*forms, chance.choice(forms)], strict=True):
            writer.write(in_form(form, pairs))
        if restored and at in (3, 5):
            kept = [writer.prepare(at) for writer in writers]
            writers = [Counts().open(context) for _ in range(3)]
            for writer, prepared in zip(writers, kept, strict=True):
                writer.restore(at, [(at, prepared)])
    of_lists, *others = (
        # Of lists, NaN goes to the end when it comes again.
        sorted(
            map(repr, Counts().commit(9, [final(writer)]).items()),
            key=lambda item: item.startswith("(nan"),
        )
        for writer in writers
    )
    assert of_lists
    assert others == [of_lists, of_lists]


@pytest.mark.parametrize("seed", range(20))
def test_counts_take_every_form_in_any_order(task: Task, seed: int) -> None:
    chance = random.Random(seed)
    writer, expected = Counts().open(task()), {}
    for at in range(12):
        pairs = [(chance.choice("abcdefgh"), f"{at} {n}") for n in range(chance.randint(1, 5))]
        form = chance.choice(["list", "encoded", "columns", "encoded columns"])
        writer.write(in_form(form, pairs))
        expected.update(pairs)
    assert Counts().commit(1, [final(writer)]) == expected


@pytest.mark.parametrize("bad", [5, (1,), (1, 2, 3), {1: 2}, (["a"], 1), ({}, 1)])
@pytest.mark.parametrize("before", [0, 1])
def test_counts_of_what_is_no_pair_fail_as_those_of_lists(
    task: Task, bad: Any, before: int
) -> None:
    pairs = [*[("a", 1)] * before, bad, ("b", 2)]
    told = []
    for form in ("list", "encoded"):
        context = task()
        with pytest.raises(TypeError) as caught:
            Counts().open(context).write(in_form(form, pairs))
        told.append((str(caught.value), context.failing.record))
    assert told[0] == told[1]


def test_discard_counts(task: Task) -> None:
    assert result(Discard(), task, [[1, 2], []], [[3]]) == 3
    assert not Discard().properties.driver


def test_callback(task: Task) -> None:
    records: list[Any] = []
    batches: list[Any] = []
    result(Callback(records.append), task, [[1, 2], [3]])
    result(Callback(batches.append, batches=True), task, [[1, 2], [3]])
    assert records == [1, 2, 3]
    assert batches == [[1, 2], [3]]


def test_a_callback_that_raises_shows_the_record(task: Task) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        result(Callback(lambda n: 1 // n), task, [[1, 0, 2]])
    assert caught.traceback[-2].frame.f_locals["record"] == 0


def test_a_callback_must_be_a_function() -> None:
    with pytest.raises(GraphError, match=r"Callback\(\) got list"):
        Callback([])  # type: ignore[arg-type]


def test_print(task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    result(Print(), task, [["a", ("b", 1)], [], [3]])
    assert capsys.readouterr().out == "a\n('b', 1)\n3\n"


def test_line_files(tmp_path: Path, task: Task) -> None:
    sink = LineFiles(tmp_path / "out" / "lines")
    sink.validate()
    result(sink, task, [["a", "é"], []], [[("b", 1)]])
    folder = tmp_path / "out" / "lines"
    assert sorted(path.name for path in folder.iterdir()) == ["part-00000.txt", "part-00001.txt"]
    assert (folder / "part-00000.txt").read_bytes() == "a\né\n".encode()
    assert (folder / "part-00001.txt").read_text() == "('b', 1)\n"


def test_json_lines(tmp_path: Path, task: Task) -> None:
    records = [("a", 1), {"é": [None, True]}, "line\nfeed"]
    result(JsonLines(tmp_path), task, [records])
    text = (tmp_path / "part-00000.jsonl").read_text()
    assert text.splitlines()[0] == '["a",1]'
    assert [json.loads(line) for line in text.splitlines()] == [["a", 1], *records[1:]]


@pytest.mark.parametrize("record", [b"bytes", float("nan"), {1, 2}])
def test_json_lines_of_what_json_has_not(tmp_path: Path, task: Task, record: Any) -> None:
    writer = JsonLines(tmp_path).open(task())
    with pytest.raises((TypeError, ValueError), match="JSON"):
        writer.write(["fine", record])
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path, task: Task) -> None:
    writer = LineFiles(tmp_path).open(task())
    writer.write(["a"])
    there = sorted(tmp_path.iterdir())
    assert [path.suffix for path in there] == [".claim", ".tmp"]
    assert all(path.name.startswith(".part-00000.txt.") for path in there)
    prepared = writer.prepare(1)
    assert sorted(tmp_path.iterdir()) == there
    writer.commit(1, prepared)
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.txt"]


def test_a_driver_that_was_replaced_leaves_alone_what_is_of_the_next(
    tmp_path: Path, task: Task
) -> None:
    def opened(sink: LineFiles, generation: int) -> Any:
        return sink.open(replace(task(), checkpoints=True, generation=generation))

    of_first, of_second = LineFiles(tmp_path), LineFiles(tmp_path)
    for sink in (of_first, of_second):
        sink.validate()
    first = opened(of_first, 1)
    first.write(["a"])
    kept = first.prepare(1)
    first.write(["dropped"])
    first.prepare(2)
    second = opened(of_second, 2)
    second.restore(1, [(1, kept)])
    second.write(["b"])
    stored = second.prepare(2)
    second.write(["c"])
    first.write(["late"])
    before = sorted(path.name for path in tmp_path.iterdir())
    for late in (lambda: opened(of_first, 1), lambda: first.prepare(3)):
        with pytest.raises(CheckpointError, match="another job has begun to write"):
            late()
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    first.abort()
    second.commit(2, stored)
    second.commit(3, second.prepare(3))
    second.close()
    texts = [path.read_text() for path in sorted(tmp_path.iterdir())]
    assert texts == ["a\n", "b\n", "c\n"]


def test_output_behind_the_epoch_is_refused(tmp_path: Path, task: Task) -> None:
    context = replace(task(), checkpoints=True, generation=1)
    writer = LineFiles(tmp_path).open(context)
    for epoch in (1, 2):
        writer.write(["a"])
        writer.commit(epoch, writer.prepare(epoch))
    again = LineFiles(tmp_path).open(context)
    again.restore(2, [])
    for epoch, told in [(1, r"00000002\.txt has output behind epoch 1"), (0, "of another job")]:
        with pytest.raises(CheckpointError, match=told):
            again.restore(epoch, [])
    again.close()
    assert len(list(tmp_path.iterdir())) == 2


def test_what_was_prepared_before_there_were_generations_is_committed(
    tmp_path: Path, task: Task
) -> None:
    (tmp_path / ".part-00000-00000007.txt.prepared").write_text("a\n")
    (tmp_path / ".part-00000-00000008.txt.prepared").write_text("b\n")
    writer = LineFiles(tmp_path).open(replace(task(), checkpoints=True, generation=3))
    writer.restore(7, [(7, "part-00000-00000007.txt")])
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000-00000007.txt"]


@pytest.mark.parametrize("knows", ["folder", "generation", "name"])
@pytest.mark.parametrize("made", ["prepared", "final"])
@pytest.mark.parametrize("where", ["then", "now", "moved away"])
@pytest.mark.parametrize("committed", [0, 7])
def test_a_sink_that_goes_on_with_another_folder(
    tmp_path: Path,
    task: Task,
    knows: str,
    made: str,
    where: str,
    committed: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = "part-00000-00000007.txt"
    then, now = tmp_path / "then", tmp_path / "now"
    for folder in (then, now, tmp_path / "moved away"):
        folder.mkdir()
    generation = "" if knows == "name" else ".2"
    found = name if made == "final" else f".{name}{generation}.prepared"
    (tmp_path / where / found).write_text("a\n")
    prepared = {"folder": (name, 2, str(then)), "generation": (name, 2), "name": name}[knows]
    context = replace(task(), checkpoints=True, generation=3, identity="out", committed=committed)
    writer = LineFiles(now).open(context)
    is_there = where == "now" or (where == "then" and knows == "folder")
    if is_there or committed:
        writer.restore(7, [(7, prepared)])
    else:
        with pytest.raises(
            CheckpointError, match=r"00000007\.txt of epoch 7 is not in .*now"
        ) as told:
            writer.restore(7, [(7, prepared)])
        assert 'drop_state=["out"]' in str(told.value)
    kept = (tmp_path / where / (name if is_there else found)).read_text()
    assert kept == "a\n"
    is_missed = committed and not is_there and knows != "folder"
    assert [line for line in caplog.messages if "not written again" in line] == (
        caplog.messages if is_missed else []
    )


def test_what_is_no_name_of_a_file_is_not_moved(tmp_path: Path, task: Task) -> None:
    (tmp_path / ".mine.2.prepared").touch()
    (tmp_path / "out").mkdir()
    writer = LineFiles(tmp_path / "out").open(replace(task(), checkpoints=True, generation=3))
    for name in ("mine", "../mine", "part-00000-00000007.txt/../../mine"):
        with pytest.raises(CheckpointError, match="was prepared for epoch 7"):
            writer.restore(7, [(7, (name, 2, str(tmp_path)))])
    assert (tmp_path / ".mine.2.prepared").exists()


@pytest.mark.parametrize("kind", [LineFiles, JsonLines])
@pytest.mark.parametrize("others", ["stay", "moved", "deleted"])
def test_a_job_goes_on_with_another_folder(
    tmp_path: Path, kind: type[LineFiles | JsonLines], others: str
) -> None:
    numbers = Halves(range(100), 37)
    then, now = tmp_path / "then", tmp_path / "now"

    def job(folder: Path) -> Any:
        return source(numbers).rebalance().map(abs).sink(kind(folder))

    run_half(job(then), tmp_path / "checkpoints", numbers, parallelism=2)
    first = {int(line) for path in then.iterdir() for line in path.read_text().split()}
    assert first == set(range(37))
    if others != "stay":
        then.rename(tmp_path / "archive")
    if others == "deleted":
        shutil.rmtree(tmp_path / "archive")
    run_rest(job(now), tmp_path / "checkpoints", parallelism=3)
    rest = [int(line) for path in now.iterdir() for line in path.read_text().split()]
    assert sorted(rest) == list(range(37, 100))


@pytest.mark.parametrize("how", ["stays", "deleted", "emptied"])
def test_final_files_that_are_gone_are_told_when_the_job_goes_on(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    numbers, out = Halves(range(100), 37), tmp_path / "out"
    job = source(numbers).sink(LineFiles(out))
    run_half(job, tmp_path / "checkpoints", numbers)
    if how != "stays":
        shutil.rmtree(out)
    if how == "emptied":
        out.mkdir()
    run_rest(job, tmp_path / "checkpoints")
    found = sorted(int(line) for path in out.iterdir() for line in path.read_text().split())
    assert found == list(range(0 if how == "stays" else 37, 100))
    told = [line for line in caplog.messages if f"is not in {out} any more" in line]
    assert len(told) == (how != "stays")


def test_abort_leaves_nothing_and_keeps_the_earlier_result(tmp_path: Path, task: Task) -> None:
    result(LineFiles(tmp_path), task, [["earlier"]])
    writer = LineFiles(tmp_path).open(task())
    writer.write(["later"])
    writer.abort()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["earlier\n"]


def test_a_job_with_fewer_tasks_replaces_all_earlier_parts(tmp_path: Path, task: Task) -> None:
    result(LineFiles(tmp_path), task, [["a"]], [["b"]], [["c"]])
    (tmp_path / "part-of-something-else.txt").touch()
    result(LineFiles(tmp_path), task, [["d"]])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "part-00000.txt",
        "part-of-something-else.txt",
    ]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GraphError, match=r"folder '.*file.*' cannot be made"):
        LineFiles(tmp_path / "file").validate()
    with pytest.raises(GraphError, match="cannot be made: Not a directory"):
        LineFiles(tmp_path / "file" / "below").validate()


SPELLINGS = {
    "same": "out",
    "relative": os.path.relpath,
    "up and down": "other/../out",
    "link": "link",
    "below a link": "above/out",
}


@pytest.mark.parametrize("kind", [LineFiles, JsonLines])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_two_sinks_of_one_folder_are_refused(
    tmp_path: Path, kind: type[LineFiles | JsonLines], spelling: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    (tmp_path / "above").symlink_to(tmp_path)
    spelt = SPELLINGS[spelling]
    again = tmp_path / spelt if isinstance(spelt, str) else Path(spelt(tmp_path / "out"))
    numbers = source(Collection([1, 2, "text"]))
    halves = numbers.map(lambda n: n // 2, on_error="side")
    pipelines = [
        halves.sink(kind(tmp_path / "out")).named("halves"),
        halves.side("errors").sink(kind(again)).named("errors"),
    ]
    with pytest.raises(GraphError, match=r"^halves and errors: both write part-\*.* into '.*out'"):
        run(pipelines)
    assert not list((tmp_path / "out").iterdir())


def test_one_sink_of_two_streams_is_refused(tmp_path: Path) -> None:
    sink, numbers = JsonLines(tmp_path), source(Collection([1, 2]))
    with pytest.raises(GraphError, match=r"^json_lines and json_lines-2: both write"):
        run([numbers.sink(sink), numbers.map(str).sink(sink)])


def test_sinks_of_other_names_share_a_folder(tmp_path: Path) -> None:
    numbers = source(Collection([1, 2]))
    below = JsonLines(tmp_path / "below")
    run([numbers.sink(LineFiles(tmp_path)), numbers.sink(JsonLines(tmp_path)), numbers.sink(below)])
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("part-*"))
    assert names == ["below/part-00000.jsonl", "part-00000.jsonl", "part-00000.txt"]


class FullDisk(LineFiles):
    """Files of which the second has no room for its end, or comes to its name too late."""

    def __init__(self, folder: Path, fails: str) -> None:
        super().__init__(folder)
        self.fails = fails

    def open(self, context: TaskContext) -> SinkWriter:
        writer = super().open(context)
        if context.index == 1:

            def fail(*_arguments: Any) -> None:
                raise OSError("No space left on device")

            setattr(writer, self.fails, fail)
        return writer


def test_where_a_task_cannot_prepare_none_commits(tmp_path: Path) -> None:
    run(source(Collection(["earlier"])).sink(LineFiles(tmp_path)))
    new = source(Collection(["a", "b"])).sink(FullDisk(tmp_path, "prepare"))
    with pytest.raises(OperatorError, match=r"operator 'full_disk'.*No space left on device"):
        run(new, parallelism=2)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("part-00000.txt", "earlier\n")
    ]


class Once(SinkOperator[Any]):
    """A sink that notes what the driver calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, context: TaskContext) -> SinkWriter:
        return _Once(context.index)

    def commit(self, epoch: int, committed: list[Any]) -> Any:
        self.calls.append((epoch, committed))

    def abort(self) -> None:
        self.calls.append("abort")


class _Once(SinkWriter):
    def __init__(self, index: int) -> None:
        self._index = index

    def write(self, records: list[int]) -> None:
        assert 7 not in records

    def prepare(self, epoch: int) -> tuple[int, int]:
        return epoch, self._index


def test_the_driver_commits_once_or_aborts() -> None:
    fine, failing = Once(), Once()
    assert run(source(Collection([1, 2])).sink(fine), parallelism=2) == {}
    assert fine.calls == [(1, [(1, 0), (1, 1)])]
    with pytest.raises(OperatorError):
        run(source(Collection([7])).sink(failing), parallelism=2)
    assert failing.calls == ["abort"]


class Stubborn(Once):
    """A sink that cannot remove what it left."""

    def abort(self) -> None:
        raise OSError("it does not go away\n\nhint: wait")


def test_a_sink_whose_abort_raises_leaves_the_jobs_own_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(OperatorError, match="AssertionError"):
        run(source(Collection([7])).sink(Stubborn()))
    assert caplog.messages == [
        "sink 'stubborn' may have left something behind: OSError: it does not go away"
    ]


# --- a folder that is deleted while the job runs ----------------------------------------------


def deleted(folder: Path, how: str) -> None:
    if how == "moved":
        folder.rename(folder.with_name("elsewhere"))
    else:
        shutil.rmtree(folder)
    if how == "made again":
        folder.mkdir()


@pytest.mark.parametrize("how", ["deleted", "made again", "moved"])
@pytest.mark.parametrize("before", ["write", "prepare", "commit"])
@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("kind", [JsonLines, ParquetSink, CsvSink])
def test_a_folder_that_is_deleted_is_named(
    tmp_path: Path, task: Task, how: str, before: str, checkpoints: bool, kind: Any
) -> None:
    folder = tmp_path / "out"
    writer = kind(folder).open(replace(task(0, 1), checkpoints=checkpoints))
    writer.write([{"n": 1}])
    prepared = writer.prepare(1) if before == "commit" else None
    deleted(folder, how)

    def go_on() -> None:
        if before == "write":
            writer.write([{"n": 2}])
        writer.commit(1, prepared or writer.prepare(1))

    with pytest.raises((FileNotFoundError, CheckpointError), match=f"{folder}.*expected it"):
        go_on()
    writer.abort()


def test_a_job_tells_that_its_folder_was_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    numbers = source(Collection(range(100))).rebalance().map(deletes(folder))
    with pytest.raises(OperatorError, match=f"the folder '{folder}' was deleted or moved"):
        run(numbers.sink(JsonLines(folder)), batch_size=10)
    assert not folder.exists()


# --- two jobs that run at once ------------------------------------------------------------------


def test_jobs_that_run_at_once_do_not_replace_each_others_files(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="another job is writing part-"):
        run(source(Collection([1, 2])).map(runs_beside(tmp_path)).sink(LineFiles(tmp_path)))
    assert not list(tmp_path.iterdir())


def runs_beside(folder: Path) -> Callable[[int], int]:
    def function(number: int) -> int:
        run(source(Collection([3])).sink(LineFiles(folder)))
        return number

    return function


def deletes(folder: Path) -> Callable[[int], int]:
    def function(number: int) -> int:
        if number == 50:
            shutil.rmtree(folder)
        return number

    return function
