"""reduce, keys, and what the native aggregates are told."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from engine.errors import OperatorError
from engine.graph import BatchOperator, TaskContext
from engine.network import partition
from engine.task.rescue import Rescuer
from operators import Count, Max, Mean, Stream, Sum, source
from operators.aggregates import NativeAggregate
from operators.reduce import Reduce
from operators.sources import Collection

Emitted = Callable[..., list[Any]]
Task = Callable[..., TaskContext]


def records(*items: Any) -> Stream[Any]:
    return source(Collection(items))


def test_reduce_by_index(emitted: Emitted) -> None:
    stream = records(("a", 1), ("b", 5), ("a", 2), ("a", 3)).key_by(0)
    assert emitted(stream.reduce(lambda a, b: (a[0], a[1] + b[1]))) == [
        ("a", 1),
        ("b", 5),
        ("a", 3),
        ("a", 6),
    ]


def test_reduce_by_field(emitted: Emitted) -> None:
    stream = records({"k": "a", "n": 1}, {"k": "a", "n": 2}).key_by("k")
    reduced = stream.reduce(lambda a, b: {"k": a["k"], "n": a["n"] + b["n"]})
    assert emitted(reduced) == [{"k": "a", "n": 1}, {"k": "a", "n": 3}]


def test_reduce_by_record(emitted: Emitted) -> None:
    assert emitted(records("a", "b", "a").key_by().reduce(lambda a, b: a + b)) == ["a", "b", "aa"]


def test_reduce_by_function(emitted: Emitted) -> None:
    stream = records(1, 2, 3, 4, 5).key_by(lambda n: n % 2)
    assert emitted(stream.reduce(lambda a, b: a + b)) == [1, 2, 4, 6, 9]


@pytest.mark.parametrize("key", [0, None, lambda record: record])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_state_outlives_a_batch(emitted: Emitted, key: Any, batch_size: int) -> None:
    stream = records((1,), (1,), (2,), (1,)).key_by(key).reduce(lambda a, b: (*a, *b))
    assert emitted(stream, batch_size=batch_size) == [(1,), (1, 1), (2,), (1, 1, 1)]


def test_a_value_of_none_or_false_is_a_value(emitted: Emitted) -> None:
    stream = records(("a", None), ("a", 0), ("a", None)).key_by(0)
    assert emitted(stream.reduce(lambda a, b: ("a", b[1]))) == [("a", None), ("a", 0), ("a", None)]


def test_keys_are_equal_as_in_python(emitted: Emitted) -> None:
    nan = float("nan")
    keys = [True, 1, 1.0, "a", b"a", None, (1, 2), (1, 2), nan, nan]
    stream = records(*((key, 1) for key in keys)).key_by(0)
    counts = emitted(stream.reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda pair: pair[1]))
    assert counts == [1, 2, 3, 1, 1, 1, 1, 2, 1, 2]


NANS: list[Callable[[], Any]] = [
    lambda: float("nan"),
    lambda: -float("nan"),
    lambda: np.float16("nan"),
    lambda: np.float32("nan"),
    lambda: np.float64("nan"),
    lambda: np.longdouble("nan"),
    lambda: Decimal("NaN"),
    lambda: Decimal("-NaN123"),
    lambda: Decimal("sNaN"),
    lambda: complex("nan"),
    lambda: complex(1, float("nan")),
    lambda: np.complex64(complex(float("nan"), 1)),
]


@pytest.mark.parametrize(
    "wrap", [lambda key: key, lambda key: (1, (key,)), lambda key: frozenset([key])]
)
@pytest.mark.parametrize("key", [0, lambda record: record[0], None])
def test_all_nan_are_one_key(wrap: Callable[[Any], Any], key: Any, task: Task) -> None:
    if wrap(0) == frozenset([0]):  # a set of a signaling NaN cannot be
        nans = [nan for nan in NANS if not (type(nan()) is Decimal and nan().is_snan())]
    else:
        nans = NANS
    records = [(wrap(nan()), 1) for nan in nans for _ in range(2)]
    if key is None:
        records = [(wrap(nan()),) for nan in nans for _ in range(2)]
        reduce = Reduce(lambda a, b: (*a, 1), key=None).open(task()).process
        sizes = [len(record) for batch in (records[:3], records[3:]) for record in reduce(batch)]
    else:
        paired = callable(key)
        reduce = Reduce(lambda a, b: (a[0], a[1] + b[1]), key=0, paired=paired).open(task()).process
        given = [(key(record), record) for record in records] if paired else records
        sizes = [count for batch in (given[:3], given[3:]) for _, count in reduce(batch)]
    assert sizes == list(range(1, 2 * len(nans) + 1))
    assert len({partition([wrap(nan())], 7)[0] for nan in nans}) == 1


@pytest.mark.parametrize("key", [0, (0, 2), (2, 0)])
@pytest.mark.parametrize("rescue", [None, Rescuer(None)])
def test_all_nan_are_one_key_of_any_reduce(key: Any, rescue: Rescuer | None, task: Task) -> None:
    reduce = Reduce(lambda a, b: (a[0], a[1] + b[1], a[2]), key=key, emit="final")
    run = reduce.open(replace(task(), rescue=rescue))
    for nan in NANS:
        run.process([(nan(), 1, "a"), (nan(), 1, "a")])
    (((_, count, _),),) = run.on_end()
    assert count == 2 * len(NANS)


def test_nan_is_one_key_beside_others_and_keeps_its_spelling(task: Task) -> None:
    add = Reduce(lambda a, b: (a[0], a[1] + b[1]), key=0).open(task()).process
    records = [(1.0, 1), (np.float64("nan"), 1), (True, 1), (Decimal("NaN"), 1), ("nan", 1)]
    counts = add(records) + add(records)
    assert [count for _, count in counts] == [1, 1, 2, 2, 1, 3, 3, 4, 4, 2]
    assert type(counts[1][0]) is np.float64


def test_an_unhashable_key_is_refused(task: Task) -> None:
    with pytest.raises(TypeError, match="is a list, which is not hashable"):
        Reduce(lambda a, b: a, key=0).open(task()).process([([1], 1)])


def test_tasks_share_no_state(task: Task) -> None:
    operator = Reduce(lambda a, b: a + b, key=None)
    first, second = operator.open(task(0, 2)), operator.open(task(1, 2))
    assert first.process(["a"]) == ["a"]
    assert second.process(["a"]) == ["a"]
    assert first.process(["a"]) == ["aa"]


def test_a_key_error_of_the_function_is_not_swallowed(emitted: Emitted) -> None:
    values: dict[str, str] = {}
    with pytest.raises(OperatorError, match="on record 'a': KeyError: 'missing'"):
        emitted(records("a", "a").key_by().reduce(lambda a, b: values["missing"]))


@pytest.mark.parametrize(
    ("operator", "batch", "record"),
    [
        (Reduce(lambda a, b: 1 // 0, key=0), [("a", 1), ("a", 2)], ("a", 2)),
        (Reduce(lambda a, b: 1 // 0, key=None), ["a", "b", "a"], "a"),
        (Reduce(lambda a, b: 1 // 0, key=0, paired=True), [("k", 5), ("k", 6)], 6),
    ],
)
def test_the_failing_record_is_told(
    task: Task, operator: BatchOperator, batch: list[Any], record: Any
) -> None:
    context = task()
    with pytest.raises(ZeroDivisionError):
        operator.open(context).process(batch)
    assert context.failing.record == (record,)


def aggregate(stream: Stream[Any]) -> NativeAggregate:
    operator = stream.inputs[0].source.operator
    assert isinstance(operator, NativeAggregate)
    return operator


def test_native_aggregates_are_told_where_key_and_value_are() -> None:
    def one(
        kind: str, key: tuple[Any, ...], value: tuple[Any, ...], *, paired: bool = False
    ) -> NativeAggregate:
        return NativeAggregate((key,), ((kind, value),), paired=paired)

    pairs = records(("a", 1))
    assert aggregate(pairs.key_by(0).count()) == one("count", (0,), ())
    assert aggregate(pairs.key_by(0).sum(1)) == one("sum", (0,), (1,))
    assert aggregate(pairs.key_by("k").min("n")) == one("min", ("k",), ("n",))
    assert aggregate(pairs.key_by().max()) == one("max", (), ())
    by_function = pairs.key_by(lambda pair: pair[0])
    assert aggregate(by_function.first(1)) == one("first", (0,), (1, 1), paired=True)
    assert aggregate(by_function.sum()) == one("sum", (0,), (1,), paired=True)
    several = pairs.key_by("a", 2).aggregate(n=Count(), most=Max("x"), emit="final")
    assert aggregate(several) == NativeAggregate(
        (("a",), (2,)), (("count", ()), ("max", ("x",))), ("n", "most"), "final"
    )
    of_pairs = by_function.aggregate(total=Sum(), mean=Mean("x"))
    wanted = (("sum", (1,)), ("mean", (1, "x")))
    assert aggregate(of_pairs) == NativeAggregate(((0,),), wanted, ("total", "mean"), paired=True)


def test_native_aggregates_take_the_encoded_batch_and_merge_updates() -> None:
    properties = aggregate(records(1).key_by().count()).properties
    assert properties.accepts_encoded
    assert properties.compacts
    assert Reduce(max, None).properties.accepts_encoded
    assert not Reduce(lambda a, b: print(a), None).properties.accepts_encoded
