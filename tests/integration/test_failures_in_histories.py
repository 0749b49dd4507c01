"""Of a job that failed, its history alone tells what failed, where, and with which record."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import engine
from engine.cli.jobs import jobs
from engine.history.reading import JobHistory
from engine.testing import run
from operators import Pipeline, ProcessFunction, Stream, source
from operators.sinks import Callback, Counts, Discard
from operators.sources import Collection, Function

pa = pytest.importorskip("pyarrow")


def numbers(*given: Any) -> Stream[Any]:
    return source(Collection(given or (1, 2, 3)))


def refuse(record: Any) -> Any:
    raise ValueError(f"no room for {record}")


async def refuse_later(record: Any) -> Any:
    raise ConnectionError(f"{record} was reset")


def from_another(record: Any) -> Any:
    try:
        return {}[record]
    except KeyError as error:
        raise RuntimeError("not in the table") from error


def one_and_no_more() -> Iterator[int]:
    yield 1
    raise OSError("the disk is gone")


def refuse_two(record: int) -> int:
    return 1 // (2 - record)


class Refusing(ProcessFunction):
    def process(self, record: Any, context: Any) -> Any:
        raise LookupError(f"nothing of {context.key}")


class RefusingLate(ProcessFunction):
    def process(self, record: Any, context: Any) -> Any:
        context.set_timer(record[1] + 1_000_000)

    def on_timer(self, time: int, context: Any) -> Any:
        raise LookupError(f"too late for {context.key}")


class Zone(datetime.tzinfo):
    def __repr__(self) -> str:
        raise KeyError("mine")


class Shy:
    def __repr__(self) -> str:
        raise RuntimeError("shy")


def column_of(batch: Any) -> Any:
    return batch.append_column("x", pa.array([1]))


FAILING: dict[str, tuple[Callable[[], Pipeline], str, str | None, str, str]] = {
    "map": (
        lambda: numbers().map(refuse_two).sink(Discard()),
        "map",
        "2",
        "ZeroDivisionError",
        "1 // (2 - record)",
    ),
    "filter": (
        lambda: numbers().filter(refuse).sink(Discard()),
        "filter",
        "1",
        "no room for 1",
        "raise ValueError",
    ),
    "flat_map": (
        lambda: numbers().flat_map(lambda n: n).sink(Discard()),
        "flat_map",
        None,
        "TypeError",
        "",
    ),
    "named": (
        lambda: numbers("x").map(int).named("parse").sink(Discard()),
        "parse",
        "'x'",
        "invalid literal",
        "",
    ),
    "cause": (
        lambda: numbers("a").map(from_another).sink(Discard()),
        "map",
        "'a'",
        "not in the table",
        "KeyError: 'a'",
    ),
    "map_batches": (
        lambda: numbers().map_batches(refuse).sink(Discard()),
        "map_batches",
        None,
        "no room",
        "raise ValueError",
    ),
    "map_async": (
        lambda: numbers(7).map_async(refuse_later).sink(Discard()),
        "map_async",
        "7",
        "7 was reset",
        "ConnectionError",
    ),
    "reduce": (
        lambda: (
            numbers(("a", 1), ("a", None))
            .key_by(0)
            .reduce(lambda a, b: (a[0], a[1] + b[1]))
            .sink(Counts())
        ),
        "reduce",
        "('a', None)",
        "TypeError",
        "a[1] + b[1]",
    ),
    "key of a tuple": (
        lambda: numbers(("a", 1), ("b",)).key_by(1).count().sink(Counts()),
        "count",
        None,
        "('b',)",
        "",
    ),
    "key of a dict": (
        lambda: numbers({"k": 1}, {}).key_by("k").count().sink(Counts()),
        "count",
        None,
        "{}",
        "",
    ),
    "sum of a text": (
        lambda: numbers(("a", "x")).key_by(0).sum(1).sink(Counts()),
        "sum",
        None,
        "'x'",
        "",
    ),
    "process": (
        lambda: numbers(("k", 1)).key_by(0).process(Refusing()).sink(Discard()),
        "process",
        "('k', 1)",
        "nothing of k",
        "raise LookupError",
    ),
    "timer": (
        lambda: (
            numbers(("k", 1)).with_event_time(1).key_by(0).process(RefusingLate()).sink(Discard())
        ),
        "process",
        None,
        "too late for k",
        "raise LookupError",
    ),
    "source": (
        lambda: source(Function(one_and_no_more)).sink(Discard()),
        "function",
        None,
        "the disk is gone",
        "raise OSError",
    ),
    "sink": (
        lambda: numbers(5).rebalance().sink(Callback(refuse)),
        "callback",
        "5",
        "no room for 5",
        "raise ValueError",
    ),
    "no encoding": (
        lambda: numbers().map(lambda n: object()).rebalance().sink(Discard()),
        "map",
        None,
        "object",
        "",
    ),
    "too large": (
        lambda: numbers(200_000).map(lambda n: "x" * n).rebalance().sink(Discard()),
        "map",
        None,
        "it takes 200005 bytes",
        "",
    ),
    "encoding raises": (
        lambda: (
            numbers()
            .map(lambda _: datetime.datetime(2020, 1, 1, tzinfo=Zone()))
            .rebalance()
            .sink(Discard())
        ),
        "map",
        None,
        "KeyError: 'mine'",
        "",
    ),
    "no repr": (
        lambda: numbers().map(lambda n: Shy()).map(refuse_two).sink(Discard()),
        "map-2",
        "<Shy, whose repr raised",
        "TypeError",
        "",
    ),
    "columns": (
        lambda: numbers({"n": 1}, {"n": 2}).to_columns().map_batches(column_of).sink(Discard()),
        "map_batches",
        None,
        "ArrowInvalid",
        "append_column",
    ),
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_failure_is_told_by_the_history_alone(kind: str, tmp_path: Path) -> None:
    build, operator, record, words, code = FAILING[kind]
    path = tmp_path / "job.oka"
    with pytest.raises(engine.OperatorError):
        run(build(), history=str(path), max_record_bytes=100_000)
    history = JobHistory.read(path)
    error = history.error
    assert history.state == "failed"
    assert error is not None
    assert error["operator"] == operator
    assert error["task"].endswith("[0]")
    assert operator in error["task"]
    if record is None:
        assert "record" not in error or error["record"]
    else:
        assert error["record"].startswith(record)
    assert words in error["message"]
    assert code in error.get("traceback", "")
    told = CliRunner().invoke(jobs, [str(path)]).output
    for each in (operator, words, code, error.get("hint", "")):
        assert each in told
