"""What is told of an exception: the operator, the record, the user's frames; and never another."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.config import JobConfig
from engine.deployment.description import TaskDescription, TaskFailure
from engine.errors import ModelError, OperatorError
from engine.graph.batch_operator import BatchFunction, BatchOperator, PureFunction
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.graph.operator import RecordOperator
from engine.graph.sink import SinkOperator, SinkWriter
from engine.host import worker as worker_module
from engine.host.worker import Worker
from engine.network import EncodeError
from engine.task.chain import Chain
from engine.task.failure import describe, shortened
from engine.testing import run
from operators import source
from operators.elementwise import ToColumns
from operators.reduce import Reduce
from operators.sinks import Callback, Collect, Counts, Discard, JsonLines, LineFiles, Print
from operators.sources import Collection, Function
from operators.stream import then
from tests.unit.task.test_chain import Held

CONTEXT = TaskContext("task[0]", 0, 1, 100, "job")


def failure_of(batch: Any, *operators: Any) -> TaskFailure:
    """What is told when a chain of these operators gets the batch, after a pickle's way."""
    declared = tuple(
        LogicalOperator(at, f"operator-{at}", operator, None, {})
        for at, operator in enumerate((Collection([]), *operators))
    )
    chain = Chain()
    try:
        chain.open(declared[1:], CONTEXT, encoded=False)
        chain.process(batch)
        list(chain.end())
    except BaseException as error:  # noqa: BLE001 - pytest.raises would look at it
        return told(error, chain, declared)
    finally:
        chain.abort()
    raise AssertionError("nothing was raised")


def told(
    error: BaseException, chain: Chain | None = None, declared: tuple[LogicalOperator, ...] = ()
) -> TaskFailure:
    if not declared:
        declared = (LogicalOperator(0, "operator-0", Collection([]), None, {}),)
    description = TaskDescription(0, "vertex", 0, 1, declared, {}, (), (), JobConfig())
    failure = describe(error, description, (chain or Chain()).failing)
    found: TaskFailure = pickle.loads(pickle.dumps(failure))
    assert found == failure
    for text in (found.operator, found.record, found.error, found.traceback, found.full_traceback):
        assert text is None or type(text) is str
    return found


def fail_on_three(n: int) -> Any:
    if n == 3:
        raise ValueError("three")
    return [n]


@pytest.mark.parametrize("form", ["map", "filter", "flat_map", "key"])
def test_operator_record_and_the_users_frames(form: Any) -> None:
    failure = failure_of(
        [1, 2, 3, 4], RecordOperator("map", abs), RecordOperator(form, fail_on_three)
    )
    assert (failure.kind, failure.operator, failure.record) == ("operator", "operator-2", "3")
    assert failure.error == "ValueError: three"
    assert "in fail_on_three" in failure.traceback
    assert "engine/task" not in failure.traceback
    assert "ValueError: three" not in failure.traceback  # which is in `error`
    assert "engine/task/runs.py" in failure.full_traceback
    assert failure.full_traceback.endswith("ValueError: three\n")


def test_reduce_names_its_record() -> None:
    add = Reduce(lambda a, b: a + b, key=0)
    assert failure_of([("a", 1), ("a",), ["a"]], add).record == "['a']"


@pytest.mark.parametrize(
    ("operators", "failed"),
    [
        ((Held(fails=True), Collect()), "operator-1"),
        ((Held(), RecordOperator("map", lambda n: 1 // n), Collect()), "operator-2"),
        (
            (RecordOperator("map", abs), Held(), RecordOperator("map", lambda n: 1 // n)),
            "operator-3",
        ),
    ],
)
def test_a_failure_at_the_end_names_the_operator(operators: Any, failed: str) -> None:
    failure = failure_of([0], *operators)
    assert failure.operator == failed
    assert failure.record == (None if failed == "operator-1" else "0")


class NoText:
    def __str__(self) -> str:
        raise ValueError("no text")


def no_room(_: Any) -> None:
    raise OSError("no room")


@pytest.mark.parametrize(
    ("sink", "batch", "error", "record"),
    [
        (Callback(no_room, batches=True), [1, 2], "OSError: no room", None),
        (Callback(no_room), [1, 2], "OSError: no room", "1"),
        (Callback(no_room, batches=True), pa.record_batch({"a": [1]}), "OSError: no room", None),
        (Counts(), pa.record_batch({"a": [1], "b": [1], "c": [1]}), "TypeError: Counts got", None),
        (Counts(), [("a", 1), 5], "TypeError: Counts got int", "5"),
        (Counts(), [("a", 1), ([], 2)], "TypeError: unhashable type", "([], 2)"),
        (Print(), ["a", NoText(), "b"], "ValueError: no text", "<tests.unit"),
        (LineFiles("out"), ["a", NoText(), "b"], "ValueError: no text", "<tests.unit"),
        (LineFiles("out"), ["a", "\ud800", "b"], "UnicodeEncodeError: ", r"'\ud800'"),
        (JsonLines("out"), [1.0, float("nan"), 2.0], "ValueError: JSON cannot express it", "nan"),
        (JsonLines("out"), [1, {2}, 3], "ValueError: JSON cannot express it: Object", "{2}"),
        (JsonLines("out"), ["a", "\ud800", "b"], "UnicodeEncodeError: ", r"'\ud800'"),
        (JsonLines("out"), pa.record_batch([[1], [2]], ["a", "a"]), "ValueError: the col", None),
    ],
)
def test_a_sink_that_raises_is_named_with_the_record(
    sink: SinkOperator[Any],
    batch: Any,
    error: str,
    record: str | None,
    tmp_path: Path,
) -> None:
    if isinstance(sink, LineFiles | JsonLines):
        sink.folder = tmp_path
    failure = failure_of(batch, sink)
    assert (failure.kind, failure.operator) == ("operator", "operator-1")
    assert failure.error.startswith(error)
    assert (failure.record or "").startswith(record or "")
    assert (failure.record is None) == (record is None)


def test_what_fails_behind_the_last_record_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as unwritable:
        monkeypatch.setattr(sys, "stdout", unwritable)
        for batch in (["a", "b"], [1, 2]):
            failure = failure_of(batch, Print())
            assert (failure.operator, failure.record) == ("operator-1", None)
            assert "not writable" in failure.error


def test_print_without_a_standard_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    failure = failure_of(["a"], Print())
    assert failure.operator == "operator-1"
    assert failure.error == (
        "OSError: there is no standard output to print to: it was closed when the job started"
    )
    assert failure.hint == "LineFiles(folder) writes lines to files"


def test_columns_that_are_none_are_named_with_the_record() -> None:
    failure = failure_of([{"a": 1}, 5], ToColumns())
    assert (failure.operator, failure.record) == ("operator-1", "5")
    assert failure.error == "TypeError: to_columns() got int, expected a dict"


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise error

    return function


class Named(type):
    """A metaclass whose classes have no name."""

    __getattribute__ = raising(SystemExit("name"))  # type: ignore[assignment]


class Text(str):
    """A text that is not to be trusted, and of a class that the driver need not have."""

    __slots__ = ()
    __len__ = __getitem__ = __iter__ = __format__ = __eq__ = raising(SystemExit("text"))  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]
    __str__ = __repr__ = startswith = partition = strip = raising(SystemExit("text"))  # type: ignore[assignment]
    __reduce_ex__ = raising(SystemExit("text"))


class Hostile:
    """Raises whatever one asks of it."""

    __repr__ = __str__ = __format__ = __hash__ = __eq__ = __len__ = raising(SystemExit("asked"))  # type: ignore[assignment]
    __getattr__ = raising(KeyboardInterrupt("asked"))


def of(base: type, **members: Any) -> BaseException:
    error: BaseException = type("Odd", (base,), members)()
    return error


HOSTILE = {
    "exits": SystemExit(3),
    "interrupts": KeyboardInterrupt(),
    "str exits": of(ValueError, __str__=raising(SystemExit("str"))),
    "str gives no str": of(ValueError, __str__=lambda self: 5),
    "str gives a text of its own": of(ValueError, __str__=lambda self: Text("own")),
    "traceback": of(ValueError, __traceback__=property(raising(SystemExit("traceback")))),
    "cause": of(ValueError, __cause__=property(raising(SystemExit("cause")))),
    "notes": of(ValueError, __notes__=property(raising(SystemExit("notes")))),
    "odd notes": of(ValueError, __notes__=[Hostile(), 5, None]),
    "class": of(ValueError, __class__=property(raising(SystemExit("class")))),
    "attributes": of(ValueError, __getattribute__=raising(SystemExit("attributes"))),
    "arguments": ValueError(Hostile(), Hostile()),
    "key": KeyError(Hostile()),
    "metaclass": Named("Odd", (ValueError,), {})(),
    "syntax": SyntaxError("odd", (Hostile(), Hostile(), Hostile(), Hostile())),
    "large": ValueError("x" * 10_000_000),
    "recursion": RecursionError("deep"),
    "memory": MemoryError(),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_describing_never_raises(what: str) -> None:
    failure = failure_of([1, 2], RecordOperator("map", raising(HOSTILE[what])), Callback(print))
    assert (failure.kind, failure.operator, failure.record) == ("operator", "operator-1", "1")
    assert 0 < len(failure.error) <= 2000
    failure = failure_of([1, Hostile()], RecordOperator("map", abs))
    assert failure.operator == "operator-1"
    assert failure.record == "<Hostile, whose repr raised SystemExit>"


def test_exceptions_in_a_circle_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    failure = failure_of([1], RecordOperator("map", raising(first)))
    assert failure.error == "ValueError: first"


def test_the_name_of_an_exceptions_type_is_where_it_is_from() -> None:
    assert told(ValueError("v")).error == "ValueError: v"
    assert told(ModelError("m", "h")).error == "ModelError: m"
    assert told(EncodeError("e\n\nhint: h")) == told(EncodeError("e\n\nhint: h"))
    assert told(EncodeError("e\n\nhint: h")).error == "EncodeError: e"
    assert told(EncodeError("e\n\nhint: h")).hint == "h"
    assert (
        told(SyntaxError("odd", ("f.py", 1, 1, "x y"))).error == "SyntaxError: odd (f.py, line 1)"
    )
    assert told(KeyError()).error == "KeyError"


def convert(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise LookupError(f"no number: {text}") from error


def test_a_cause_in_the_users_code_is_told_and_one_in_the_engines_is_not() -> None:
    failure = failure_of(["x"], RecordOperator("map", convert))
    assert failure.error == "LookupError: no number: x"
    assert failure.traceback.count("in convert") == 2
    assert "ValueError: invalid literal for int() with base 10: 'x'" in failure.traceback
    assert "direct cause" in failure.traceback
    assert "LookupError: no number" not in failure.traceback
    # Of reduce, that a key is new is an exception of ours.
    reduce = Reduce(lambda a, b: convert(b[1]), key=0)
    failure = failure_of([("a", "1"), ("a", "x")], reduce)
    assert "KeyError" not in failure.traceback
    # Of an exception of ours that tells of the user's, that is what there is to see.
    error = EncodeError("record 0 of the batch, 'x': invalid literal")
    error.__cause__ = cause = of(ValueError)
    with contextlib.suppress(ValueError):
        raising(cause)()
    shown = told(error).traceback
    assert shown.startswith("Traceback (most recent call last):\n  File ")
    assert shown.endswith("Odd\n")
    assert "direct cause" not in shown


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes and groups are of Python 3.11")
def test_notes_and_groups_are_told() -> None:
    error = ValueError("v")
    error.add_note("on the third try")  # type: ignore[attr-defined,unused-ignore]
    assert told(error).error == "ValueError: v\non the third try"
    group = ExceptionGroup("several", [ValueError("a"), KeyError("b")])  # type: ignore[name-defined,unused-ignore]  # noqa: F821
    failure = failure_of([1], RecordOperator("map", raising(group)))
    assert failure.error.startswith("ExceptionGroup: several (2 sub-exceptions)")
    assert "ValueError: a" in failure.traceback
    assert "KeyError: 'b'" in failure.traceback


class Endless(PureFunction):
    """Gives at its end what nobody can go through."""

    def on_end(self) -> Any:
        return 5


class Nothing(BatchOperator):
    """An operator that fails inside the engine."""

    def open(self, context: TaskContext) -> BatchFunction:
        return Endless(list)


def test_an_error_inside_the_engine_says_how_to_see_more() -> None:
    stream = then(source(Collection([1])).inputs, Nothing(), "nothing")
    with pytest.raises(OperatorError) as caught:
        run(stream.sink(Discard()))
    assert (caught.value.operator, caught.value.user_traceback) == ("nothing", "")
    assert caught.value.hint == "OKA_DEBUG=1 shows where in the engine that was"
    with pytest.raises(OperatorError) as caught:
        run(source(Collection([1])).map_batches(lambda batch: 5).sink(Discard()))  # type: ignore[arg-type,return-value]
    assert caught.value.hint == "return list(…) of what has the records"


def test_a_long_record_is_shortened_and_a_broken_repr_survived() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shortened("x" * 1000) == "'" + "x" * 198 + "…"
    assert shortened(Broken()) == "<Broken, whose repr raised RuntimeError>"
    assert shortened(Hostile()) == "<Hostile, whose repr raised SystemExit>"
    assert shortened(Named("Odd", (), {"__repr__": raising(SystemExit(1))})()).startswith("<")


class Watched(SinkOperator[Any]):
    """A sink that tells what was called of its writer."""

    def __init__(self, calls: list[str], fails: str) -> None:
        self.calls = calls
        self.fails = fails

    def open(self, context: TaskContext) -> SinkWriter:
        return _WatchedWriter(self)


class _WatchedWriter(SinkWriter):
    def __init__(self, sink: Watched) -> None:
        self._sink = sink

    def write(self, records: Any) -> None:
        self._called("write")

    def prepare(self, epoch: int) -> None:
        self._called("prepare")

    def commit(self, epoch: int, prepared: None) -> None:
        self._called("commit")

    def abort(self) -> None:
        self._called("abort")

    def _called(self, name: str) -> None:
        self._sink.calls.append(name)
        if self._sink.fails == name:
            raise OSError(name)


class _Task:
    """As much of a task as a worker needs to fail."""

    def __init__(self, sink: Watched) -> None:
        declared = (LogicalOperator(0, "watched", sink, None, {}),)
        self.description = TaskDescription(0, "v", 0, 1, declared, {}, (), (), JobConfig())
        self.chain = Chain()
        self.chain.open(declared, CONTEXT, encoded=False)

    def run(self) -> Any:
        self.chain.process([1])
        self.chain.sinks.prepare()

    def commit(self) -> Any:
        return self.chain.sinks.commit()

    def abort(self) -> None:
        self.chain.abort()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Any, list[str]]]:
    """Runs and commits a task whose sink fails in this call; what came of it, and all calls."""
    monkeypatch.setattr(Worker, "_remove_names", lambda self: None)

    def run(fails: str) -> tuple[Any, list[str]]:
        calls: list[str] = []
        worker = Worker(dedicated=False)
        worker._tasks = {0: _Task(Watched(calls, fails))}  # type: ignore[assignment]
        result = worker.run(0)
        return (worker.commit(0) if fails == "commit" else result), calls

    return run


@pytest.mark.parametrize(("fails", "calls"), [("write", 1), ("prepare", 2), ("commit", 3)])
def test_a_sink_that_fails_is_aborted(work: Any, fails: str, calls: int) -> None:
    failure, called = work(fails)
    assert (failure.operator, failure.error) == ("watched", f"OSError: {fails}")
    assert called == [*["write", "prepare", "commit"][:calls], "abort"]


@pytest.mark.parametrize("fails", ["write", "prepare", "commit"])
def test_a_sink_is_aborted_even_where_describing_fails(
    work: Any, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted: list[str] = []
    monkeypatch.setattr(_WatchedWriter, "abort", lambda self: aborted.append("abort"))
    monkeypatch.setattr(worker_module, "describe", raising(RuntimeError("not described")))
    with pytest.raises(RuntimeError, match="not described"):
        work(fails)
    assert aborted == ["abort"]


def broken_source() -> Any:
    yield 1
    raise OSError("no more")


@pytest.mark.parametrize(
    ("stream", "operator", "record"),
    [
        (source(Function(broken_source)).map(abs), "function", None),
        (source(Collection([1])).map(lambda n: n // 0), "map", "1"),
        (
            source(Collection([1])).map(lambda n: object()).key_by(lambda o: 1).count(),
            "key_by",
            None,
        ),
        (source(Collection([1, 2])).map(lambda n: object()).filter(bool), "filter", None),
        (source(Collection([1])).map(exit, on_error="skip"), "map", "1"),
        (
            source(Collection([1, 1])).key_by().reduce(lambda a, b: exit(), on_error="skip"),
            "reduce",
            "1",
        ),
        (source(Collection(["a", "b"])).key_by().sum(), "sum", None),
        (source(Collection([1])).key_by().count().map(lambda pair: 1 // 0), "map", "(1, 1)"),
    ],
    ids=str,
)
def test_what_fails_in_a_job_is_named(stream: Any, operator: str, record: str | None) -> None:
    with pytest.raises(OperatorError) as caught:
        run(stream.rebalance().sink(Discard()).with_parallelism(2), parallelism=1)
    assert (caught.value.operator, caught.value.record) == (operator, record)


def test_a_list_that_its_function_changes_hides_no_failure() -> None:
    batch = [1, 2, 3]

    def clear(n: int) -> int:
        batch.clear()
        raise ValueError("cleared")

    failure = failure_of(batch, RecordOperator("map", clear))
    assert (failure.operator, failure.error) == ("operator-1", "ValueError: cleared")
    assert failure.record is None
