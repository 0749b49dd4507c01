"""Aggregates without a key: records that fail, as they do behind `key_by`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.columns import is_columns, rows
from engine.errors import OperatorError
from engine.graph.context import TaskContext
from engine.network import Batch
from engine.state import KeyedState
from engine.testing import run
from operators import (
    Accumulator,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Mean,
    Min,
    Sum,
    Top,
    source,
)
from operators.aggregates.native import NativeAggregate
from operators.aggregates.whole import Parts, Whole
from operators.sinks import Collect
from operators.sources import Collection

KINDS: list[Any] = [3, "a", 1, b"b", "c", None, 2.5, Decimal(1), [1], True, {}, 9]
"""Values that have no order, or no sum, with each other."""


class Least(Accumulator[Any, Any, Any]):
    """The least value, in Python."""

    def create(self) -> Any:
        return None

    def add(self, least: Any, value: Any) -> Any:
        return value if least is None or value < least else least

    def merge(self, one: Any, other: Any) -> Any:
        return one if other is None else self.add(one, other)

    def finish(self, least: Any) -> Any:
        return least


AGGREGATES: dict[str, Callable[..., Any]] = {
    "min": lambda s, **how: s.min(**how),
    "max": lambda s, **how: s.max(**how),
    "sum": lambda s, **how: s.sum(**how),
    "mean": lambda s, **how: s.mean(**how),
    "several": lambda s, **how: s.aggregate(n=Count(), low=Min(), high=Max(), **how),
    "distinct": lambda s, **how: s.aggregate(n=Count(), different=CountDistinct(), **how),
    "accumulator": lambda s, **how: s.aggregate(least=Least(), **how),
}


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
@pytest.mark.parametrize("name", AGGREGATES)
def test_records_that_fail_do_as_with_a_key(name: str, batch_size: int, parallelism: int) -> None:
    def outputs(given: Any) -> tuple[list[Any], list[Any]]:
        result = AGGREGATES[name](given, emit="final", on_error="side")
        found = run(
            [result.sink(Collect()), result.side("errors").sink(Collect())],
            parallelism=parallelism,
            batch_size=batch_size,
        )
        return found["collect"], sorted(repr(record) for record, _ in found["collect-2"])

    given = source(Collection(KINDS)).with_parallelism(1)
    found, errors = outputs(given)
    of_key, errors_of_key = outputs(given.key_by(lambda _: "all"))
    assert found == [value for _, value in of_key]
    assert errors == errors_of_key != []


TEXTS = ["to", "be", None, "or", "not", "to", "a text that is longer than a view", "be", None]
TYPES = {
    "string": pa.string(),
    "large string": pa.large_string(),
    "string view": pa.string_view(),
    "binary": pa.binary(),
    "binary view": pa.binary_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("name", TYPES)
def test_columns_of_all_layouts_come_to_the_same_as_with_a_key(name: str, parallelism: int) -> None:
    numbers = [None if at % 4 == 3 else at for at in range(len(TEXTS))]
    columns = {
        "k": pa.array(["one"] * len(TEXTS)),
        "text": pa.array(TEXTS).cast(TYPES[name]),
        "n": pa.array(numbers),
        "x": pa.array([None if n is None else n / 4 for n in numbers]),
        "b": pa.array([n is not None for n in numbers]),
    }
    whole = pa.record_batch(columns)
    batches = [whole.slice(1, 4), whole.slice(3, 0), whole.slice(4), whole.slice(0, 1)]
    wanted = {
        "rows": Count(),
        "first": First("text"),
        "last": Last("text"),
        "least": Min("text"),
        "different": CountDistinct("text"),
        "most": Top("text", 2),
        "sum": Sum("n"),
        "mean": Mean("x"),
        "some": Count(where="b"),
    }
    given = source(Collection(batches)).with_parallelism(1)
    streams = [given.aggregate(**wanted, emit="final")]
    streams.append(given.key_by("k").aggregate(**wanted, emit="final"))
    found = run([each.sink(Collect()) for each in streams], parallelism=parallelism)
    rows, of_key = (
        [row for batch in found[sink] for row in batch.to_pylist()]
        for sink in ("collect", "collect-2")
    )
    assert [{"k": "one"} | row for row in rows] == of_key


ROWS = pa.record_batch({"n": [1, None, 3]})
COUNTED: dict[str, list[Any]] = {
    "records": [[("a", 1), object()], [None]],
    "columns": [ROWS, ROWS.slice(1, 1), ROWS.slice(0, 0)],
    "empty columns first": [ROWS.slice(0, 0), ROWS],
    "other types": [ROWS, pa.record_batch({"n": pa.array([1], pa.int8())}), ROWS],
    "other columns": [ROWS, pa.record_batch({"m": [1], "n": ["a"]}), ROWS],
    "columns behind records": [[{"n": 1}], ROWS, ROWS, [{"n": 2}]],
    "records behind columns": [ROWS, [{"n": 1}, {"n": None}], ROWS],
}


@pytest.mark.parametrize("counts", [Count(), {"n": Count(), "m": Count()}], ids=["one", "two"])
@pytest.mark.parametrize("name", COUNTED)
def test_a_count_takes_the_number_of_rows_or_records(name: str, counts: Any) -> None:
    of_all = NativeAggregate.of(counts, (), "final", paired=False)
    context = TaskContext("t", 0, 1, 100, "job")
    part, whole = Parts(of_all).open(context), Whole(of_all).open(context)
    for batch in COUNTED[name]:
        whole.process(part.process(batch))
    (given,) = whole.on_end()
    count = sum(map(len, COUNTED[name]))
    expected: Any = {"n": count, "m": count}
    if isinstance(counts, Count):
        expected = {"count": count} if is_columns(given) else count
    assert (rows(given) if is_columns(given) else given) == [expected]


@pytest.mark.parametrize("name", AGGREGATES)
def test_a_job_goes_on_with_another_treatment_of_records_that_fail(name: str) -> None:
    empty = source(Collection([]))
    ways: list[Any] = [
        AGGREGATES[name](empty, emit="final", on_error=on) for on in ("skip", "fail")
    ]
    operators: list[Any] = [way.inputs[0].source.operator for way in ways]
    assert operators[0].properties.meaning == operators[1].properties.meaning
    context = TaskContext("t", 0, 1, 100, "job")
    first, other = (operator.open(context) for operator in operators)
    encode: Any = Batch.from_list if operators[0].properties.accepts_encoded else list
    first.process(encode([3, 1, 2]))
    other.restore(KeyedState.share([first.snapshot()], 0, 1))
    again = operators[0].open(context)
    again.restore(KeyedState.share([other.snapshot()], 0, 1))
    given = [[each for batch in function.on_end() for each in batch] for function in (first, again)]
    assert given[0] == given[1] != []


def test_other_kinds_in_other_tasks_fail_the_job() -> None:
    mixed = source(Collection([3, "a"])).with_parallelism(1).min(emit="final")
    with pytest.raises(OperatorError, match="its value is not of the same kind as") as error:
        run(mixed.sink(Collect()), parallelism=1, batch_size=1)
    assert "hint: on_error='skip' leaves out" in str(error.value)
