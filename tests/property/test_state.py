"""State goes on in tasks of another number: a run that is cut gives what one alone gives."""

from __future__ import annotations

import datetime as dt
import enum
import math
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.columns import is_columns
from engine.config import JobConfig
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.network import Batch, Network, open_output_gate
from engine.partitioner import Hash
from engine.plan import Plan
from engine.record import comparable_key, dict_key
from engine.state import KeyedState
from engine.task.chain import Chain
from operators import (
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
    ProcessContext,
    ProcessFunction,
    Stream,
    Sum,
    ValueState,
    source,
)
from operators.keys import gives_keys
from operators.sinks import Collect
from operators.sources import Collection
from tests import arrow_types
from tests.part import examples


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Place:
    row: float
    name: str


TWICE = dt.datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
ODD_KEYS = [
    *(None, True, False, 0, 0.0, -0.0, 1, 1.0, -1, math.nan, -math.nan, math.inf, 0.5),
    *(2**63, 2**70, float(2**70), -(2**70), -(2**63), "", "a", "\ud800", b"", b"a"),
    *((), (1, "a"), (True, "a"), (1.0, "a"), (math.nan,), Pair(1, "a"), dt.date(2026, 1, 1)),
    *(Color.RED, Level.LOW, Place(1.0, "a"), Place(1, "a"), Place(-0.0, "b"), Place(0.0, "b")),
    *(
        Decimal(1),
        Decimal("0.50"),
        Fraction(1, 2),
        Fraction(1, 3),
        1j,
        np.int64(1),
        np.float32(0.1),
    ),
    *(frozenset([1, 2]), frozenset([2.0, 1]), dt.time(1), dt.time(1, tzinfo=dt.timezone.utc)),
    *(TWICE, TWICE.replace(fold=1), TWICE.astimezone(dt.timezone.utc), (TWICE, 1)),
    dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=12))),
]
keys = st.sampled_from(ODD_KEYS) | st.integers() | st.floats() | st.text(max_size=3)
numbers = st.integers(-3, 3) | st.integers(-(2**70), 2**70) | st.floats(-1e6, 1e6) | st.booleans()
records = st.lists(st.tuples(keys, numbers), max_size=40)
parallelism = st.sampled_from([1, 2, 3, 5])

FLOWS: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "reduce": lambda s: s.key_by(0).reduce(added),
    "reduce by items": lambda s: s.key_by(0, 1).reduce(lambda a, b: b),
    "reduce records": lambda s: s.key_by().reduce(lambda a, b: b),
    "reduce by function": lambda s: s.key_by(key_of).reduce(added),
    "reduce at the end": lambda s: s.key_by(0).reduce(added, emit="final"),
    "count": lambda s: s.key_by(0).count(),
    "count of records": lambda s: s.key_by().count(emit="final"),
    "count by function": lambda s: s.key_by(key_of).count(emit="final"),
    "sum": lambda s: s.key_by(0).sum(1),
    "sum at the end": lambda s: s.key_by(0).sum(1, emit="final"),
    "min": lambda s: s.key_by(0).min(1, emit="final"),
    "max": lambda s: s.key_by(0).max(1),
    "mean": lambda s: s.key_by(0).mean(1, emit="final"),
    "first": lambda s: s.key_by(0).first(emit="final"),
    "first by items": lambda s: s.key_by(0, 1).first(1, emit="final"),
    "many": lambda s: s.key_by(0).aggregate(**MANY),
    "many at the end": lambda s: s.key_by(0).aggregate(**MANY, emit="final"),
    "own": lambda s: s.key_by(0).then(OwnCount()),
    "process": lambda s: s.key_by(0).process(Kept()),
    "process by function": lambda s: s.key_by(key_of).process(Kept()),
}
KEYED_BY_ALL = ("reduce by items", "reduce records")
MANY = {"n": Count(), "s": Sum(1), "lo": Min(1), "hi": Max(1), "m": Mean(1), "f": First(1)}


def key_of(record: Any) -> Any:
    return record[0]


def added(a: Any, b: Any) -> Any:
    return (a[0], a[1] + b[1])


class OwnCount(BatchOperator):
    """What `count` does, by a dict."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _OwnCount()


def as_key(value: Any) -> Any:
    """As a dict finds it again, whatever else is in it."""
    return comparable_key(dict_key(value))


class _OwnCount(BatchFunction):
    def __init__(self) -> None:
        self.counts: dict[Any, tuple[Any, int]] = {}

    def process(self, batch: list[Any]) -> list[Any]:
        out = []
        for key, _ in batch:
            first, count = self.counts.get(as_key(key), (key, 0))
            self.counts[as_key(key)] = (first, count + 1)
            out.append((first, count + 1))
        return out

    def snapshot(self) -> KeyedState:
        return KeyedState.of(self.counts.values())

    def restore(self, state: KeyedState) -> None:
        self.counts = {dict_key(key): (key, count) for key, count in state.items()}


class Kept(ProcessFunction):
    """All kinds of state, and timers that tell of them at the end, each once."""

    count = ValueState(0)
    numbers = ListState[Any]()
    last = MapState[int, Any]()

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        _, number = record
        self.count += 1
        if self.count % 3:
            self.numbers.append(number)
        else:
            self.numbers.clear()
        self.last[self.count % 2] = number
        context.set_timer(100 - self.count)
        context.set_timer(self.count, str(self.count % 4))
        if self.count % 5 == 0:
            context.delete_timer(str(self.count % 3))
        return [(context.key, self.count, list(self.numbers), sorted(self.last))]

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        self.count += time
        return [(context.key, time, context.name, self.count, list(self.numbers), dict(self.last))]


@pytest.mark.parametrize("name", FLOWS)
@settings(max_examples=examples(8))
@given(before=records, after=records, tasks=parallelism, others=parallelism)
@example([(key, 1) for key in ODD_KEYS], [(key, 2) for key in ODD_KEYS], 3, 5)
@example([(key, 0.5) for key in ODD_KEYS], [], 5, 2)
@example([(Decimal(1), 0), (np.int64(1), 0)], [(np.int64(1), 2), ((np.int8(1), 0), 1)], 1, 2)
def test_records(name: str, before: list[Any], after: list[Any], tasks: int, others: int) -> None:
    flow = planned(FLOWS[name])
    expected = once(flow, [before, after])
    width = 2 if name in KEYED_BY_ALL else 1
    assert shown(cut(flow, [before], [after], tasks, others), width) == shown(expected, width)


columns = st.lists(
    st.fixed_dictionaries(
        {
            "word": st.text("abü", max_size=2) | st.none(),
            "day": st.integers(-2, 2),
            "part": st.sampled_from([0.0, -0.0, math.nan, 0.5, None]),
            "n": st.integers(-(2**40), 2**40) | st.none(),
            "x": st.floats(-1e6, 1e6) | st.none(),
            "at": st.datetimes(dt.datetime(1900, 1, 1)) | st.none(),
            "tags": st.lists(st.integers(0, 3), max_size=2) | st.none(),
        }
    ),
    min_size=1,
    max_size=12,
)
batches = st.lists(columns, max_size=3)
SCHEMA = pa.schema(
    {
        "word": pa.string(),
        "day": pa.int8(),
        "part": pa.float32(),
        "n": pa.int64(),
        "x": pa.float64(),
        "at": pa.timestamp("us"),
        "tags": pa.list_(pa.int8()),
    }
)
OF_COLUMNS = {
    "count": Count(),
    "sum": Sum("n"),
    "total": Sum("x"),
    "least": Min("x"),
    "earliest": Min("at"),
    "word": Max("word"),
    "mean": Mean("n"),
    "average": Mean("x"),
    "first": First("n"),
    "then": First("at"),
    "text": First("word"),
    "tags": First("tags"),
}


@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize("key", [("word",), ("day",), ("part",), ("word", "part", "day")])
@settings(max_examples=examples(8))
@given(before=batches, after=batches, tasks=parallelism, others=parallelism)
def test_columns(
    key: tuple[str, ...], emit: Any, before: Any, after: Any, tasks: int, others: int
) -> None:
    wanted = {name: it for name, it in OF_COLUMNS.items() if name not in key}
    flow = planned(lambda s: s.key_by(*key).aggregate(**wanted, emit=emit))
    before, after = (
        [pa.RecordBatch.from_pylist(rows, SCHEMA) for rows in part] for part in (before, after)
    )
    expected = once(flow, before + after)
    found = cut(flow, before, after, tasks, others)
    assert shown(found, len(key)) == shown(expected, len(key))
    schemas = {batch.schema for batch in [*found, *expected] if is_columns(batch)}
    assert len(schemas) <= 1


OF_ALL_TYPES: dict[str, tuple[Any, Callable[[Stream[Any]], Stream[Any]]]] = {
    "first and last": (
        arrow_types.ALL,
        lambda s: s.key_by("k").aggregate(f=First("x"), l=Last("x"), emit="final"),
    ),
    "least and greatest": (
        arrow_types.ORDERED,
        lambda s: s.key_by("k").aggregate(lo=Min("x"), hi=Max("x"), d=CountDistinct("x")),
    ),
    "sum and mean": (
        arrow_types.SUMMED,
        lambda s: s.key_by("k").aggregate(s=Sum("x"), m=Mean("x"), emit="final"),
    ),
    "key": (arrow_types.KEYS, lambda s: s.key_by("x").aggregate(n=Count(), s=Sum("i"))),
    "key of two": (arrow_types.KEYS, lambda s: s.key_by("x", "k").count(emit="final")),
    "key of windows": (arrow_types.KEYS, lambda s: s.key_by("x").window(CountWindow(3)).count()),
    "windows": (arrow_types.ALL, lambda s: s.key_by("k").window(CountWindow(3)).last("x")),
    "rows by key": (
        arrow_types.KEYS,
        lambda s: s.key_by("x").reduce_batches(lambda rows: rows, emit="final"),
    ),
    "rows": (
        arrow_types.ALL,
        lambda s: s.key_by("k").reduce_batches(lambda rows: rows, emit="final"),
    ),
}


@pytest.mark.table(2)
@pytest.mark.parametrize(
    ("flow", "name"), [(flow, name) for flow, (suits, _) in OF_ALL_TYPES.items() for name in suits]
)
def test_columns_of_all_types(flow: str, name: str) -> None:
    sent, declared = arrow_types.batches(name), planned(OF_ALL_TYPES[flow][1])
    parts = 2 if "rows" in flow else 3  # equal rows may be other bytes
    found = [cut(declared, sent[:2], sent[2:], 3, 2, parts), once(declared, sent)]
    if "rows" in flow or "windows" in flow:
        every = [
            [row for batch in each if is_columns(batch) for row in batch.to_pylist()]
            for each in found
        ]
        assert sorted(map(repr, every[0])) == sorted(map(repr, every[1])) != []
    else:
        width = 2 if flow == "key of two" else 1
        assert shown(found[0], width) == shown(found[1], width) != []


@settings(max_examples=examples(8))
@given(before=records, after=records)
def test_native_tables_go_on_where_dicts_were(before: list[Any], after: list[Any]) -> None:
    own = planned(lambda s: s.key_by(0).then(OwnCount()))
    native = planned(lambda s: s.key_by(0).count())
    states = []
    for flow in (own, native):
        tasks = Tasks(flow, 2)
        tasks.take([before])
        states.append([kept for chain in tasks.chains for kept in chain.snapshot().values()])
    assert states[0] == states[1]
    found = []
    for flow, kept in zip((native, own), states, strict=True):
        tasks = Tasks(flow, 3, [{flow.operator.identity: each} for each in kept])
        found.append(tasks.take([after]))
    assert shown(found[0]) == shown(found[1])


def once(flow: Flow, batches: list[Any]) -> list[Any]:
    """What one task emits that is never cut off."""
    tasks = Tasks(flow, 1)
    return [*tasks.take(batches), *tasks.end()]


def cut(
    flow: Flow, before: list[Any], after: list[Any], tasks: int, others: int, parts: int = 3
) -> list[Any]:
    """What so many tasks emit, and others that go on where those were.

    These have the same entries: the same hashes, keys, and values, or so many parts of each.
    """
    first = Tasks(flow, tasks)
    found = first.take(before)
    snapshots = [chain.snapshot() for chain in first.chains]
    first.take(after)  # as a task does before its snapshot is written
    then = Tasks(flow, others, snapshots)
    placed = [kept for chain in then.chains for kept in chain.snapshot().values()]
    every = [kept for snapshot in snapshots for kept in snapshot.values()]
    assert sorted(e[:parts] for kept in placed for e in kept.entries) == sorted(
        e[:parts] for kept in every for e in kept.entries
    )
    return [*found, *then.take(after), *then.end()]


class Flow(NamedTuple):
    """The operator behind `key_by`, and what divides records, or pairs, among its tasks."""

    operator: LogicalOperator
    partitioner: Hash
    paired: bool


def planned(stream: Callable[[Stream[Any]], Stream[Any]]) -> Flow:
    pipeline = stream(source(Collection([]))).sink(Collect())
    plan = Plan.of(pipeline, JobConfig.of({"name": "test"}))
    (edge,) = (e for e in plan.logical.edges if isinstance(e.partitioner, Hash))
    assert isinstance(edge.partitioner, Hash)
    paired = gives_keys(plan.logical.operators[edge.source].operator)
    return Flow(plan.logical.operators[edge.target], edge.partitioner, paired)


class Tasks:
    """The chains of all tasks of one operator; records come to them over channels."""

    def __init__(self, flow: Flow, parallelism: int, snapshots: Sequence[Any] = ()) -> None:
        self.flow = flow
        self.chains = []
        for index in range(parallelism):
            chain = Chain()
            context = TaskContext(f"task[{index}]", index, parallelism, 7, "job")
            chain.open([flow.operator], context, encoded=True)
            chain.restore(snapshots)
            self.chains.append(chain)

    def take(self, batches: list[Any]) -> list[Any]:
        """What the tasks emit for these batches, each task's in order."""
        if self.flow.paired:
            batches = [[(key_of(record), record) for record in batch] for batch in batches]
        found: list[list[Any]] = [[] for _ in self.chains]
        with tempfile.TemporaryDirectory(prefix="oka-") as folder:
            sender = Network([f"ipc://{folder}/s"])
            receivers = [Network([f"ipc://{folder}/{at}"]) for at in range(len(self.chains))]
            sender.connect([(at, each.endpoints[0]) for at, each in enumerate(receivers)], [])
            for at, each in enumerate(receivers):
                each.connect([], [(at, sender.endpoints[0])])

            def receive(at: int) -> None:
                while (batch := receivers[at].receive()) is not None:
                    found[at].append(self.chains[at].process(batch))

            threads = [threading.Thread(target=receive, args=(at,)) for at in range(len(receivers))]
            for thread in threads:
                thread.start()
            gate = open_output_gate(sender, self.flow.partitioner, list(range(len(receivers))))
            for batch in batches:
                gate.emit(batch)
            sender.finish(timeout_seconds=30)
            for thread in threads:
                thread.join()
            for network in (sender, *receivers):
                network.close()
        return [batch for each in found for batch in each]

    def end(self) -> list[Any]:
        return [batch for chain in self.chains for batch in chain.end()]


def shown(emitted: list[Any], width: int = 1) -> list[str]:
    """The last that was emitted for each key, in an order that does not depend on tasks."""
    last: dict[Any, Any] = {}
    for batch in emitted:
        if is_columns(batch):
            rows = [tuple(row.values()) for row in batch.to_pylist()]
        else:
            rows = batch.to_list() if isinstance(batch, Batch) else batch
        for row in rows:
            last[as_key(row[:width])] = row
    return sorted(map(repr, last.values()))
