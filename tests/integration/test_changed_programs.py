"""Programs that changed between a savepoint and what goes on from it: exactly, or not at all.

In each family every program is gone on with by every other, under one name. Those of one meaning
end with what the second computes of all records; all others are refused before anything runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import engine.testing
from engine.checkpoint import Manifest, SnapshotEntry, plan_restore
from engine.checkpoint.manifest import seal, unseal
from engine.driver.checkpoints import meanings
from engine.errors import CheckpointError
from engine.graph.assembly import logical_graph
from engine.graph.batch_operator import BatchFunction
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.state import KeyedState
from operators import (
    Accumulator,
    BatchOperator,
    Count,
    CountDistinct,
    CountWindow,
    First,
    Last,
    ListState,
    MapState,
    Max,
    Mean,
    Min,
    ProcessFunction,
    Quantile,
    Quantiles,
    Session,
    Sliding,
    Sum,
    Top,
    Tumbling,
    ValueState,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection, Function, RandomWords
from tests.halves import Halves, run_half, run_rest

RECORDS = [
    {"k": "abc"[number % 3], "v": number * 7 % 11, "w": number % 5, "t": number}
    for number in range(60)
]
FIRST = 31
SECOND = timedelta(seconds=1)


class Program(NamedTuple):
    """What follows the source, and the word for what it means: equal words, equal meanings."""

    meaning: str
    build: Callable[[Any], Any]


def rows(batch: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(batch)


def keyed(key: Any, build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    keys = key if isinstance(key, tuple) else (key,)
    return lambda stream: build(stream.key_by(*keys)).named("kept")


def by(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return keyed("k", build)


AGGREGATES: dict[str, Program] = {
    name: Program(name, by(build))
    for name, build in {
        "count": lambda it: it.count(),
        "sum v": lambda it: it.sum("v"),
        "sum w": lambda it: it.sum("w"),
        "min": lambda it: it.min("v"),
        "max": lambda it: it.max("v"),
        "mean": lambda it: it.mean("v"),
        "first": lambda it: it.first("v"),
        "last": lambda it: it.last("v"),
        "distinct": lambda it: it.count_distinct("v"),
        "top 2": lambda it: it.top("v", 2),
        "top 3": lambda it: it.top("v", 3),
        "n": lambda it: it.aggregate(n=Count()),
        "m": lambda it: it.aggregate(m=Count()),
        "n, s": lambda it: it.aggregate(n=Count(), s=Sum("v")),
        "n, s of w": lambda it: it.aggregate(n=Count(), s=Sum("w")),
        "all": lambda it: it.aggregate(
            n=Count(), s=Sum("v"), low=Min("v"), high=Max("v"), mean=Mean("v")
        ),
    }.items()
} | {
    "s, n": Program("n, s", by(lambda it: it.aggregate(s=Sum("v"), n=Count()))),
    "all, turned": Program(
        "all",
        by(
            lambda it: it.aggregate(
                mean=Mean("v"), low=Min("v"), s=Sum("v"), high=Max("v"), n=Count()
            )
        ),
    ),
    "count by w": Program("count by w", keyed("w", lambda it: it.count())),
    "count by k, w": Program("count by k, w", keyed(("k", "w"), lambda it: it.count())),
    "count by w, k": Program("count by w, k", keyed(("w", "k"), lambda it: it.count())),
}
OF_RECORDS: dict[str, Program] = AGGREGATES | {
    "count by a function": Program(
        "count by a function", keyed(lambda record: record["k"], lambda it: it.count())
    ),
    "reduce": Program("reduce", by(lambda it: it.reduce(_sum))),
    "several of any kind": Program(
        "several of any kind",
        by(lambda it: it.aggregate(a=First("v"), b=Last("w"), c=CountDistinct("v"), d=Top("w", 2))),
    ),
    "several of any kind, turned": Program(
        "several of any kind",
        by(lambda it: it.aggregate(d=Top("w", 2), c=CountDistinct("v"), b=Last("w"), a=First("v"))),
    ),
}


def _many(key: str, records: list[Any], start: int, end: int) -> tuple[Any, ...]:
    return key, len(records), start, end


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**other, "v": one["v"] + other["v"]}


class Least(Accumulator[Any, Any, Any]):
    def __init__(self, field: str) -> None:
        self.field = field

    def create(self) -> Any:
        return 1_000

    def add(self, accumulated: Any, record: Any) -> Any:
        return min(accumulated, record[self.field])

    def merge(self, left: Any, right: Any) -> Any:
        return min(left, right)

    def finish(self, accumulated: Any) -> Any:
        return accumulated


class Greatest(Least):
    def create(self) -> Any:
        return -1_000

    def add(self, accumulated: Any, record: Any) -> Any:
        return max(accumulated, record[self.field])

    def merge(self, left: Any, right: Any) -> Any:
        return max(left, right)


def windowed(assigner: Any, build: Callable[[Any], Any], **settings: Any) -> Callable[[Any], Any]:
    if not isinstance(assigner, CountWindow):
        settings = {"time": "t", "unit": "s", **settings}
    return by(lambda it: build(it.window(assigner, **settings)))


def count(windows: Any) -> Any:
    return windows.count()


ASSIGNERS = {
    "tumbling 10": Tumbling(10 * SECOND),
    "tumbling 20": Tumbling(20 * SECOND),
    "tumbling 10, offset": Tumbling(10 * SECOND, 5 * SECOND),
    "sliding 10, 5": Sliding(10 * SECOND, 5 * SECOND),
    "sliding 20, 5": Sliding(20 * SECOND, 5 * SECOND),
    "sliding 20, 10": Sliding(20 * SECOND, 10 * SECOND),
    "session 4": Session(4 * SECOND),
    "session 5": Session(5 * SECOND),
    "records 7": CountWindow(7),
    "records 8": CountWindow(8),
    "records 8, 4": CountWindow(8, 4),
}
SAME_WINDOWS = {
    "sliding 10, 10": Program("tumbling 10", windowed(Sliding(10 * SECOND, 10 * SECOND), count)),
    "tumbling 10, offset 10": Program(
        "tumbling 10", windowed(Tumbling(10 * SECOND, 10 * SECOND), count)
    ),
    "records 7, 7": Program("records 7", windowed(CountWindow(7, 7), count)),
}
OTHER_WINDOWS = {
    "lateness": Program(
        "lateness", windowed(Tumbling(10 * SECOND), count, allowed_lateness=SECOND)
    ),
    "unit": Program("unit", windowed(Tumbling(10 * SECOND), count, unit="ms")),
    "another time": Program("time", windowed(Tumbling(10 * SECOND), count, time="v")),
}
WINDOWS = (
    {name: Program(name, windowed(assigner, count)) for name, assigner in ASSIGNERS.items()}
    | SAME_WINDOWS
    | OTHER_WINDOWS
)
OF_WINDOWS = {
    name: Program(name, windowed(Tumbling(10 * SECOND), build))
    for name, build in {
        "count": count,
        "sum v": lambda it: it.sum("v"),
        "sum w": lambda it: it.sum("w"),
        "max": lambda it: it.max("v"),
        "quantiles": lambda it: it.quantiles("v", [0.5]),
        "other quantiles": lambda it: it.quantiles("v", [0.5, 0.9]),
        "n, q": lambda it: it.aggregate(n=Count(), q=Quantiles("v", [0.5]), s=Sum("v")),
        "n, other q": lambda it: it.aggregate(n=Count(), q=Quantile("v", 0.5), s=Sum("v")),
    }.items()
} | {
    "s, q, n": Program(
        "n, q",
        windowed(
            Tumbling(10 * SECOND),
            lambda it: it.aggregate(s=Sum("v"), q=Quantiles("v", [0.5]), n=Count()),
        ),
    ),
}
IN_PYTHON = {
    f"{name} of {of}": Program(f"{meaning} of {of}", windowed(assigner, build))
    for of, assigner in ASSIGNERS.items()
    if of in ("tumbling 10", "sliding 20, 10", "session 4", "records 8, 4")
    for name, meaning, build in [
        ("collect", "collect", lambda it: it.collect()),
        ("apply", "apply", lambda it: it.apply(_many)),
        ("reduce", "reduce", lambda it: it.reduce(_sum)),
        ("least, greatest", "two", lambda it: it.aggregate(a=Least("v"), b=Greatest("v"))),
        ("greatest, least", "two", lambda it: it.aggregate(b=Greatest("v"), a=Least("v"))),
        ("exchanged", "exchanged", lambda it: it.aggregate(a=Greatest("v"), b=Least("v"))),
        ("of w", "of w", lambda it: it.aggregate(a=Least("w"), b=Greatest("v"))),
        ("native", "native", lambda it: it.aggregate(a=Min("v"), b=Max("v"))),
        ("native, turned", "native", lambda it: it.aggregate(b=Max("v"), a=Min("v"))),
    ]
}  # fmt: skip


def joined(build: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def made(stream: Any) -> Any:
        left = stream.with_event_time("t", unit="s").key_by("k")
        right = stream.filter(lambda record: record["v"] % 2 == 0).with_event_time("t", unit="s")
        return build(left, right.key_by("k")).named("kept")

    return made


def between(low: int, high: int) -> tuple[timedelta, timedelta]:
    return low * SECOND, high * SECOND


JOINS = {
    name: Program(name, joined(build))
    for name, build in {
        "near": lambda left, right: left.interval_join(right, between=between(-3, 3)),
        "nearer": lambda left, right: left.interval_join(right, between=between(-2, 3)),
        "farther": lambda left, right: left.interval_join(right, between=between(-3, 4)),
        "near, left": lambda left, right: left.interval_join(
            right, between=between(-3, 3), how="left"
        ),
        "near, full": lambda left, right: left.interval_join(
            right, between=between(-3, 3), how="full"
        ),
        "near, other time": lambda left, right: left.interval_join(
            right, between=between(-3, 3), right_time="v", unit="s"
        ),
        "windows": lambda left, right: left.window_join(right, Tumbling(10 * SECOND)),
        "other windows": lambda left, right: left.window_join(right, Tumbling(20 * SECOND)),
        "sessions": lambda left, right: left.window_join(right, Session(5 * SECOND)),
        "versions": lambda left, right: left.temporal_join(right),
        "versions, left": lambda left, right: left.temporal_join(right, how="left"),
    }.items()
} | {
    "near, a function": Program(
        "near",
        joined(
            lambda left, right: left.interval_join(
                right, lambda one, other: (one, other), between=between(-3, 3)
            )
        ),
    ),
}


class Counts(ProcessFunction):
    seen = ValueState(0)

    def process(self, record: Any, context: Any) -> list[Any]:
        self.seen += 1
        return [(context.key, self.seen)]


class Renamed(ProcessFunction):
    count = ValueState(0)

    def process(self, record: Any, context: Any) -> list[Any]:
        self.count += 1
        return [(context.key, self.count)]


class More(Counts):
    kept = ListState()

    def process(self, record: Any, context: Any) -> list[Any]:
        self.kept.append(record["v"])
        return super().process(record, context)


class Lists(ProcessFunction):
    seen = ListState()

    def process(self, record: Any, context: Any) -> list[Any]:
        self.seen.append(record["v"])
        return [(context.key, len(self.seen))]


class Maps(ProcessFunction):
    seen = MapState()

    def process(self, record: Any, context: Any) -> list[Any]:
        self.seen[record["v"]] = True
        return [(context.key, len(self.seen))]


class Forgets(Counts):
    seen = ValueState(0, ttl=timedelta(days=1))


class ForgetsLater(Counts):
    seen = ValueState(0, ttl=timedelta(days=2))


class Own(BatchOperator):
    def open(self, context: TaskContext) -> BatchFunction:
        return _Own()


class _Own(BatchFunction):
    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def process(self, batch: list[Any]) -> list[Any]:
        for record in batch:
            self.seen[record["k"]] = self.seen.get(record["k"], 0) + 1
        return [(key, count) for key, count in self.seen.items()]

    def snapshot(self) -> KeyedState:
        return KeyedState.of(self.seen.items())

    def restore(self, state: KeyedState) -> None:
        self.seen = dict(state.items())


PROCESSES = {
    name: Program(meaning, by(build))
    for name, meaning, build in [
        ("counts", "counts", lambda it: it.process(Counts())),
        ("renamed", "renamed", lambda it: it.process(Renamed())),
        ("lists", "lists", lambda it: it.process(Lists())),
        ("maps", "maps", lambda it: it.process(Maps())),
        ("forgets", "forgets", lambda it: it.process(Forgets())),
        ("forgets later", "forgets", lambda it: it.process(ForgetsLater())),
        ("native", "native", lambda it: it.count()),
        ("own", "own", lambda it: it.then(Own())),
    ]
}
BEFORE = {
    "event time": Program(
        "event time", lambda it: it.with_event_time("t", unit="s").named("kept").map(_whole)
    ),
    "more disorder": Program(
        "event time",
        lambda it: (
            it.with_event_time("t", unit="s", out_of_orderness=SECOND).named("kept").map(_whole)
        ),
    ),
    "unit": Program(
        "unit", lambda it: it.with_event_time("t", unit="ms").named("kept").map(_whole)
    ),
    "item": Program("item", lambda it: it.with_event_time("v", unit="s").named("kept").map(_whole)),
    "take 40": Program("take 40", lambda it: it.take(40).named("kept").map(_whole)),
    "take 50": Program("take 50", lambda it: it.take(50).named("kept").map(_whole)),
}


def _whole(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.values()), True


def last_of_each(output: list[Any]) -> Mapping[Any, Any]:
    """The last that came of each key, or of each key and window."""
    found: dict[Any, Any] = {}
    for each in output:
        if isinstance(each, dict):
            found[each["k"]] = each
        elif isinstance(each, pa.RecordBatch):
            value = "value" if "value" in each.schema.names else None
            for row in each.to_pylist():
                named = {n: row.pop(n) for n in list(row) if n in _KEYS}
                found[tuple(sorted(named.items()))] = (tuple(each.schema.names), row, value)
        elif len(each) == 4:
            key, value, start, end = each
            found[key, start, end] = value  # what was complete before has the order of then
        elif isinstance(each[0], dict):  # pairs of a join: all of them
            key = repr(each)
            found[key] = found.get(key, 0) + 1
        else:
            found[each[0]] = _ordered(each[1])
    return found


def _ordered(value: Any) -> Any:
    """A dict with the order of its names."""
    return list(value.items()) if isinstance(value, dict) else value


_KEYS = ("k", "w", "start", "end", "window_start", "window_end")
FAMILIES: dict[str, tuple[dict[str, Program], Callable[[Any], Any]]] = {
    "aggregates of records": (OF_RECORDS, list),
    "aggregates of columns": (AGGREGATES, rows),
    "windows of records": (WINDOWS, list),
    "windows of columns": (WINDOWS, rows),
    "values in windows of records": (OF_WINDOWS, list),
    "values in windows of columns": (OF_WINDOWS, rows),
    "windows in Python": (IN_PYTHON, list),
    "joins of records": (JOINS, list),
    "process": (PROCESSES, list),
    "before": (BEFORE, list),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_of_another_meaning_are_refused(family: str) -> None:
    programs, batch = FAMILIES[family]
    plans = {
        name: logical_graph(job(Halves(RECORDS, FIRST, batch), each)).operators
        for name, each in programs.items()
    }
    for name, then in programs.items():
        ((identities, _, _),) = told = tasks(plans[name])
        kept = SnapshotEntry("task", 0, 1, False, 1, (), tuple(identities), {"kept": 3})
        manifest = Manifest("job", 7, 1, (kept,), meanings=meanings(plans[name]))
        for other, now in programs.items():
            if then.meaning == now.meaning:
                plan_restore(manifest, told, meanings=meanings(plans[other]))
                continue
            with pytest.raises(CheckpointError, match=r"^operator 'kept' kept something else"):
                plan_restore(manifest, told, meanings=meanings(plans[other]))


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_of_one_meaning_go_on_from_each_other(tmp_path: Path, family: str) -> None:
    programs, batch = FAMILIES[family]
    groups: dict[str, list[str]] = {}
    for name, each in programs.items():
        groups.setdefault(each.meaning, []).append(name)
    for names in groups.values():
        # A ring: from each to the next.
        for name, other in zip(names, (*names[1:], names[0]), strict=True):
            if name == other:
                continue
            records, folder = Halves(RECORDS, FIRST, batch), tmp_path / name
            run_half(job(records, programs[name]), folder, records, parallelism=2)
            rest = job(Halves(RECORDS, FIRST, batch), programs[other])
            found = last_of_each(run_rest(rest, folder, parallelism=3)["collect"])
            whole = job(Halves(RECORDS, 0, batch), programs[other])
            expected = last_of_each(engine.testing.run(whole)["collect"])
            wrong = {key for key in expected if found.get(key) != expected[key]}
            assert not wrong, f"{name} -> {other}: {wrong}"


def largest(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The last row of each key."""
    places = {key: at for at, key in enumerate(rows.column("k").to_pylist())}
    return rows.take(pa.array(sorted(places.values())))


EMITS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "count of records": (lambda it, emit: it.count(emit=emit), list),
    "count of columns": (lambda it, emit: it.count(emit=emit), rows),
    "reduce": (lambda it, emit: it.reduce(_sum, emit=emit), list),
    "reduce_batches": (lambda it, emit: it.reduce_batches(largest, emit=emit), rows),
    **{
        f"{name} windows of {of}": (
            lambda it, emit, build=build: build(
                it.window(Tumbling(10 * SECOND), time="t", unit="s", emit=emit)
            ),
            batch,
        )
        for name, build, kinds in [
            ("native", count, {"records": list, "columns": rows}),
            ("Python", lambda it: it.reduce(_sum), {"records": list}),
        ]
        for of, batch in kinds.items()
    },
}


@pytest.mark.parametrize("kind", EMITS)
def test_updates_become_final_results_and_not_the_other_way(tmp_path: Path, kind: str) -> None:
    build, batch = EMITS[kind]
    # The last key has no record behind the savepoint.
    halves = [*RECORDS[:FIRST], *(each for each in RECORDS[FIRST:] if each["k"] != "c")]

    def program(records: Halves, emit: str) -> Any:
        return job(records, Program("", by(lambda it: build(it, emit))))

    for emit in ("final", "updates"):
        records = Halves(halves, FIRST, batch)
        run_half(program(records, emit), tmp_path / emit, records, parallelism=2)
    with pytest.raises(CheckpointError, match=r"it had emit 'final', and has no emit now"):
        run_rest(program(Halves(halves, FIRST, batch), "updates"), tmp_path / "final")
    rest = program(Halves(halves, FIRST, batch), "final")
    found = last_of_each(run_rest(rest, tmp_path / "updates", parallelism=3)["collect"])
    whole = engine.testing.run(program(Halves(halves, 0, batch), "final"))["collect"]
    expected = last_of_each(whole)
    assert {key: found.get(key) for key in expected} == expected


def job(records: Halves, program: Program) -> Any:
    return program.build(source(records)).sink(Collect())


def tasks(operators: Sequence[LogicalOperator]) -> list[tuple[list[str], int, int]]:
    """The one task that has all of these."""
    return [([each.identity for each in operators], 0, 1)]


def test_a_refused_program_says_what_it_was_and_is(tmp_path: Path) -> None:
    then, now = AGGREGATES["n, s"], AGGREGATES["n, s of w"]
    records = Halves(RECORDS, FIRST)
    run_half(job(records, then), tmp_path, records)
    before = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(CheckpointError) as told:
        run_rest(job(records, now), tmp_path)
    assert told.value.message == (
        "operator 'kept' kept something else until epoch 1: it had value {'n': 'count()', 's': "
        "\"sum('v')\"}, and has value {'n': 'count()', 's': \"sum('w')\"} now"
    )
    assert told.value.hint is not None
    assert "drop_state=['kept']" in told.value.hint
    # It begins anew under another name; the first goes on all the same.
    anew = now.build(source(Halves(RECORDS, FIRST))).named("anew").sink(Collect())
    shutil.copytree(tmp_path, tmp_path.parent / "again")
    found = last_of_each(run_rest(anew, tmp_path, drop_state=["kept"])["collect"])
    assert sum(dict(value)["n"] for value in found.values()) == len(RECORDS) - FIRST
    assert before
    run_rest(job(Halves(RECORDS, FIRST), then), tmp_path.parent / "again")


def test_a_process_function_may_get_more_states_and_not_fewer(tmp_path: Path) -> None:
    counts, more = (
        Program("", by(lambda it, kind=kind: it.process(kind()))) for kind in (Counts, More)
    )
    for name, program in (("counts", counts), ("more", more)):
        records = Halves(RECORDS, FIRST)
        run_half(job(records, program), tmp_path / name, records)
    with pytest.raises(CheckpointError, match=r"had state 'kept' 'ListState', and has no state"):
        run_rest(job(Halves(RECORDS, FIRST), counts), tmp_path / "more")
    output = run_rest(job(Halves(RECORDS, FIRST), more), tmp_path / "counts")["collect"]
    assert last_of_each(output) == {"a": 20, "b": 20, "c": 20}


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (Collection(range(9)), RandomWords(count=9)),
        (RandomWords(count=9), RandomWords(count=10)),
        (RandomWords(count=9), RandomWords(count=9, seed=1)),
        (Function(lambda context, position: []), Collection(range(9))),
    ],
)
def test_the_position_of_another_source_is_refused(tmp_path: Path, then: Any, now: Any) -> None:
    config = {"checkpoints": str(tmp_path), "checkpoint_interval_seconds": 3600.0}
    engine.testing.run(source(then).named("kept").sink(Collect()), **config)
    with pytest.raises(CheckpointError, match=r"^operator 'kept' kept something else"):
        engine.testing.run(source(now).named("kept").sink(Collect()), **config, resume="latest")


def test_what_says_nothing_of_its_meaning_is_read_as_ever(tmp_path: Path) -> None:
    """Manifests of former formats."""
    records = Halves(RECORDS, FIRST)
    run_half(job(records, AGGREGATES["n, s"]), tmp_path, records)
    (entry,) = (tmp_path / "log").glob("*2")
    told = unseal("entry", entry.read_bytes())
    assert told.pop("meanings")
    entry.write_bytes(seal(told.pop("kind"), told))
    output = run_rest(job(Halves(RECORDS, FIRST), AGGREGATES["n, s"]), tmp_path)["collect"]
    whole = engine.testing.run(job(Halves(RECORDS, 0), AGGREGATES["n, s"]))["collect"]
    assert last_of_each(output) == last_of_each(whole)
