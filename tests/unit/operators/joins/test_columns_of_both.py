"""What columns a join of columns gives depends on the streams, not on what rows have come where."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.config import JobConfig
from engine.errors import JobStopped, OperatorError
from engine.graph import TaskContext
from engine.job import JobHandle
from engine.plan import Plan
from engine.state import KeyedState
from engine.testing import run
from engine.testing.threads import ThreadLauncher
from operators import Session, Sliding, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import At, Collection, Function
from tests.joining import Encoded
from tests.waiting import wait_until

SECOND = timedelta(seconds=1)
LEFT = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("v", pa.int64())])
RIGHT = pa.schema([("at", pa.int64()), ("v", pa.int64()), ("of", pa.int64()), ("w", pa.string())])
NAMES = ["id", "at", "v", "at_right", "v_right", "of", "w"]
"""Of all results, whatever comes."""

KINDS: dict[str, Callable[[Any, Any, Any], Stream[Any]]] = {
    "interval": lambda left, right, how: left.interval_join(
        right, between=(-SECOND, 2 * SECOND), how=how
    ),
    "before": lambda left, right, how: left.interval_join(
        right, between=(-9 * SECOND, -8 * SECOND), how=how
    ),
    "tumbling": lambda left, right, how: left.window_join(right, Tumbling(5 * SECOND), how=how),
    "sliding": lambda left, right, how: left.window_join(
        right, Sliding(4 * SECOND, 2 * SECOND), how=how
    ),
    "session": lambda left, right, how: left.window_join(right, Session(2 * SECOND), how=how),
    "temporal": lambda left, right, how: left.temporal_join(right, how=how),
}
JOINS = [
    (kind, how)
    for kind in KINDS
    for how in (("left",) if kind == "temporal" else ("left", "right", "full"))
]


def batches(schema: pa.Schema, rows: str) -> list[pa.RecordBatch]:
    """Of twenty seconds; which of them have rows, and for which keys."""
    key = "id" if schema is LEFT else "of"
    found = []
    for second in range(0, 20, 2):
        keys = {
            "all": [second % 6, (second + 1) % 6],
            "one": [1],
            "none": [],
            "late": [second % 6] if second > 14 else [],
        }[rows]
        found.append(
            pa.RecordBatch.from_pylist(
                [
                    {key: each, "at": second + at, "v": 100 + each, "w": str(each)}
                    for at, each in enumerate(keys)
                ],
                schema,
            )
        )
    return found


def keyed(schema: pa.Schema, rows: str, *, of_records: bool = False) -> Any:
    given: list[Any] = batches(schema, rows)
    if of_records:
        given = [row for batch in given for row in batch.to_pylist()]
    timed = source(Collection(given)).with_parallelism(1).with_event_time("at", unit="s")
    return timed.key_by("id" if schema is LEFT else "of")


def expected(kind: str, how: str, left: str, right: str) -> list[str]:
    """The rows that pairs of records make."""
    joined = KINDS[kind](
        keyed(LEFT, left, of_records=True), keyed(RIGHT, right, of_records=True), how
    )
    return in_order(
        [
            *(None if one is None else one[name] for name in LEFT.names),
            *(None if other is None else other[name] for name in RIGHT.names),
        ]
        for one, other in run(joined.sink(Collect()))["collect"]
    )


def in_order(rows: Any) -> list[str]:
    return sorted(map(repr, rows))


def checked(found: list[pa.RecordBatch]) -> list[str]:
    """The rows of results, which have the same columns in all batches."""
    assert all(batch.schema.names == NAMES for batch in found)
    return in_order(list(row.values()) for batch in found for row in batch.to_pylist())


@pytest.mark.table(10)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize(("kind", "how"), JOINS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("all", "all"),
        ("all", "none"),
        ("none", "all"),
        ("all", "one"),
        ("one", "all"),
        ("all", "late"),
        ("late", "all"),
        ("late", "one"),
        ("one", "late"),
        ("none", "none"),
    ],
)
def test_in_a_job(kind: str, how: str, left: str, right: str, parallelism: int) -> None:
    joined = KINDS[kind](keyed(LEFT, left), keyed(RIGHT, right), how)
    found = run(joined.sink(Collect()), parallelism=parallelism, batch_size=2)["collect"]
    assert checked(found) == expected(kind, how, left, right)


@pytest.mark.table(3)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize(("kind", "how"), JOINS)
@pytest.mark.parametrize("is_left", [True, False])
def test_a_stream_that_is_declared_and_never_comes(
    kind: str, how: str, is_left: bool, parallelism: int
) -> None:
    def never(schema: pa.Schema) -> Any:
        nothing: Stream[Any] = source(Collection([])).to_columns(schema)
        return nothing.with_event_time("at", unit="s").key_by("id" if schema is LEFT else "of")

    left, right = ("none", "all") if is_left else ("all", "none")
    joined = KINDS[kind](
        never(LEFT) if is_left else keyed(LEFT, left),
        keyed(RIGHT, right) if is_left else never(RIGHT),
        how,
    )
    found = run(joined.sink(Collect()), parallelism=parallelism)["collect"]
    assert checked(found) == expected(kind, how, left, right)


def nothing(key: str) -> Any:
    return source(Collection([])).with_event_time("at", unit="s").key_by(key)


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(("kind", "how"), JOINS)
def test_a_stream_that_is_not_declared_and_never_comes(
    kind: str, how: str, parallelism: int
) -> None:
    joined = KINDS[kind](nothing("id"), keyed(RIGHT, "all"), how)
    if how == "left":
        assert run(joined.sink(Collect()), parallelism=parallelism)["collect"] == []
    else:
        told = r"of the right stream without partners .*hint: \.to_columns\(schema\) in front of"
        with pytest.raises(OperatorError, match=f"(?s){told}"):
            run(joined.sink(Collect()), parallelism=parallelism)
    joined = KINDS[kind](keyed(LEFT, "all"), nothing("of"), how)
    found = run(joined.sink(Collect()), parallelism=parallelism)["collect"]
    assert all(batch.schema.names == LEFT.names for batch in found)
    assert sum(map(len, found)) >= (0 if how == "right" else 20)


def test_a_join_of_joins_knows_what_columns_there_are() -> None:
    none = keyed(LEFT, "all").interval_join(keyed(RIGHT, "all"), between=(90 * SECOND, 99 * SECOND))
    both = none.key_by("id").window_join(
        keyed(RIGHT, "all"), Tumbling(5 * SECOND), how="full", time="at", unit="s"
    )
    for parallelism in (1, 2):
        found = run(both.sink(Collect()), parallelism=parallelism)["collect"]
        names = [*NAMES, "at_right_right", "v_right_right", "of_right", "w_right"]
        assert {tuple(batch.schema.names) for batch in found} == {tuple(names)}
        assert sum(map(len, found)) == 20


@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("kind", ["interval", "tumbling", "session"])
def test_tasks_that_go_on_know_what_other_tasks_have_seen(kind: str, how: str) -> None:
    """Each side came to one of three tasks, and none comes any more."""
    joined = KINDS[kind](keyed(LEFT, "one"), keyed(RIGHT, "one"), how)
    operator: Any = joined.inputs[0].source.operator
    for seen in ([0, 1], [1, 0], [2, 1]):
        states = []
        for index in range(3):
            function = operator.open(TaskContext("t", index, 3, 100, "job"))
            for side, at in enumerate(seen):
                if at == index:
                    batch = batches((LEFT, RIGHT)[side], "all")[0]
                    assert len(function.process(Encoded(side, batch))) == 0
            states.append(function.snapshot())
        for parallelism in (1, 2, 3):
            found = []
            for index in range(parallelism):
                function = operator.open(TaskContext("t", index, parallelism, 100, "job"))
                function.restore(KeyedState.share(states, index, parallelism))
                found += [*function.on_watermark(10**9), *function.on_end()]
            assert {tuple(batch.schema.names) for batch in found} <= {tuple(NAMES)}
            assert len(checked(found)) >= 2 or how != "full"


def test_a_watermark_waits_for_what_columns_there_are() -> None:
    joined = KINDS["interval"](keyed(LEFT, "one"), keyed(RIGHT, "one"), "full")
    operator: Any = joined.inputs[0].source.operator
    function = operator.open(TaskContext("t", 0, 1, 100, "job"))
    for batch in batches(RIGHT, "all")[:3]:
        assert function.process(Encoded(1, batch)) == []
    assert list(function.on_watermark(60_000_000)) == []
    assert function.watermark is None
    assert function.metrics()["state_records"] == 6
    found = function.process(Encoded(0, batches(LEFT, "none")[0]))
    assert found.schema.names == NAMES
    assert len(found) == 6
    assert function.watermark.time_us == 58_000_000
    assert function.metrics()["state_records"] == 0


# --- a job that goes on -----------------------------------------------------------------------

GOES_ON = threading.Event()


class HalfAndHalf:
    """Gives the second half when the job goes on."""

    def __init__(self, schema: pa.Schema, rows: str) -> None:
        self.batches = batches(schema, rows)

    def __call__(self, _context: TaskContext, position: int | None) -> Iterator[At]:
        for at in range(position or 0, len(self.batches)):
            if at == len(self.batches) // 2 and position is None:
                GOES_ON.wait()
            yield At(at + 1, self.batches[at])


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(("left", "right"), [("late", "all"), ("all", "late"), ("one", "none")])
@pytest.mark.parametrize("kind", ["interval", "tumbling", "session"])
def test_a_job_that_goes_on(
    tmp_path: Path, kind: str, left: str, right: str, parallelism: int
) -> None:
    def stream(schema: pa.Schema, rows: str) -> Any:
        given = source(Function(HalfAndHalf(schema, rows))).with_parallelism(1)
        return given.with_event_time("at", unit="s").key_by("id" if schema is LEFT else "of")

    joined = KINDS[kind](stream(LEFT, left), stream(RIGHT, right), "full").sink(Collect())
    settings: Any = {"checkpoints": str(tmp_path), "progress": "none", "marker_interval": 1}
    GOES_ON.clear()
    config = JobConfig.of({"name": "test", **settings, "parallelism": parallelism})
    handle = JobHandle(Plan.of(joined, config), ThreadLauncher())
    half = sum(len(batch) for of in ((LEFT, left), (RIGHT, right)) for batch in batches(*of)[:5])
    wait_until(lambda: handle.statistics().source_records >= half)
    handle.savepoint("half", stop="now", timeout=300)
    with pytest.raises(JobStopped):
        handle.wait_finished(300)
    GOES_ON.set()
    handle.wait_stopped()
    found = run(joined, **settings, parallelism=4 - parallelism, resume="half")["collect"]
    assert checked(found) == expected(kind, "full", left, right)
