"""One result per key at the end: input list, flow, expected list, at every parallelism."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import engine.testing
from engine import GraphError
from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Count, First, Max, Mean, Min, Stream, Sum, source
from operators.sinks import Collect, Discard
from operators.sources import Collection
from tests.waiting import wait_until

SALES = [("tea", 2), ("cup", 5), ("tea", 4), ("pot", 30), ("cup", 6), ("tea", 3)]
DICTS = [{"item": item, "day": n % 2, "price": price} for n, (item, price) in enumerate(SALES)]

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
pytestmark = pytest.mark.usefixtures("nothing_left")


def collected(stream: Stream[Any], **settings: Any) -> list[Any]:
    found: list[Any] = engine.testing.run(stream.sink(Collect()), **settings)["collect"]
    return found


def sales() -> Stream[Any]:
    return source(Collection(SALES))


def add(a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
    return a[0], a[1] + b[1]


@pytest.mark.table(3)
@parallelism
@pytest.mark.parametrize("batch_size", [1, 4, 1000])
@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (lambda s: s.key_by(0).reduce(add, emit="final"), {"tea": 9, "cup": 11, "pot": 30}),
        (
            lambda s: s.key_by(lambda sale: sale[0][0]).reduce(add, emit="final"),
            {"tea": 9, "cup": 11, "pot": 30},
        ),
        (lambda s: s.key_by(0).count(emit="final"), {"tea": 3, "cup": 2, "pot": 1}),
        (lambda s: s.key_by(0).sum(1, emit="final"), {"tea": 9, "cup": 11, "pot": 30}),
        (lambda s: s.key_by(0).min(1, emit="final"), {"tea": 2, "cup": 5, "pot": 30}),
        (lambda s: s.key_by(0).max(1, emit="final"), {"tea": 4, "cup": 6, "pot": 30}),
        (lambda s: s.key_by(0).mean(1, emit="final"), {"tea": 3.0, "cup": 5.5, "pot": 30.0}),
        (
            lambda s: s.key_by(lambda sale: sale[0]).first(1, emit="final"),
            {"tea": 2, "cup": 5, "pot": 30},
        ),
    ],
)
def test_each_key_comes_once(
    flow: Callable[[Stream[Any]], Stream[Any]],
    expected: dict[str, Any],
    parallelism: int,
    batch_size: int,
) -> None:
    found = collected(flow(sales()), parallelism=parallelism, batch_size=batch_size)
    assert len(found) == len(expected)
    if parallelism == 1 or expected["tea"] != 2:  # else which record is first is not determined
        assert dict(found) == expected


def test_records_come_in_the_order_of_their_keys_first_ones() -> None:
    assert collected(sales().key_by(0).sum(1, emit="final")) == [
        ("tea", 9),
        ("cup", 11),
        ("pot", 30),
    ]
    reduced = sales().key_by(0).reduce(add, emit="final")
    assert collected(reduced) == [("tea", 9), ("cup", 11), ("pot", 30)]


@parallelism
def test_what_is_final_goes_through_all_that_follows(parallelism: int) -> None:
    counts = sales().key_by(0).count(emit="final").filter(lambda pair: pair[1] > 1)
    again = counts.key_by(1).reduce(lambda a, b: (min(a[0], b[0]), a[1]), emit="final").map(list)
    assert sorted(collected(again, parallelism=parallelism)) == [["cup", 2], ["tea", 3]]


@parallelism
def test_several_aggregations_at_once(parallelism: int) -> None:
    # One source task: which of the tasks' records is the first of its key is not determined.
    totals = source(Collection(DICTS)).with_parallelism(1).key_by("item", "day")
    found = collected(
        totals.aggregate(
            n=Count(),
            total=Sum("price"),
            least=Min("price"),
            most=Max("price"),
            mean=Mean("price"),
            first=First("price"),
            emit="final",
        ),
        parallelism=parallelism,
    )
    one = {"n": 1, "total": 5, "least": 5, "most": 5, "mean": 5.0, "first": 5}
    assert dict(found)["cup", 1] == one
    assert dict(found)["tea", 0] == one | {
        "n": 2,
        "total": 6,
        "least": 2,
        "most": 4,
        "mean": 3.0,
        "first": 2,
    }
    assert len(found) == 5


def test_updates_of_several_aggregations_have_the_last_of_each_key() -> None:
    stream = sales().key_by(0).aggregate(n=Count(), first=First(1))
    assert dict(collected(stream, batch_size=4)) == {
        "tea": {"n": 3, "first": 2},
        "cup": {"n": 2, "first": 5},
        "pot": {"n": 1, "first": 30},
    }


@parallelism
def test_nothing_gives_nothing(parallelism: int) -> None:
    empty: Stream[Any] = source(Collection([]))
    assert collected(empty.key_by(0).count(emit="final"), parallelism=parallelism) == []
    assert collected(empty.key_by().reduce(max, emit="final"), parallelism=parallelism) == []


def test_results_leave_in_batches_that_are_no_larger_than_others() -> None:
    numbers = source(Collection(range(1000)))
    sizes = numbers.key_by().count(emit="final").map_batches(lambda batch: [len(batch)])
    assert collected(sizes, batch_size=64) == [64] * 15 + [40]
    reduced = numbers.key_by().reduce(max, emit="final").map_batches(lambda batch: [len(batch)])
    assert collected(reduced, batch_size=64) == [64] * 15 + [40]


def test_a_failure_at_the_end_names_the_operator() -> None:
    broken = sales().key_by(0).count(emit="final").map(lambda pair: 1 // (pair[1] - 1))
    with pytest.raises(engine.OperatorError, match=r"operator 'map' .* on record \('pot', 1\)"):
        collected(broken)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (lambda s: s.count(emit="last"), "count() got emit='last', expected 'updates' or 'final'"),
        (lambda s: s.reduce(max, emit=True), "reduce() got emit=True"),
        (
            lambda s: s.aggregate(),
            "aggregate() got nothing, expected aggregations or accumulators by name",
        ),
        (lambda s: s.aggregate(n=Count("n")), "Count() got 'n', expected nothing"),
        (lambda s: s.aggregate(n=Count), "aggregate() got n=Count, expected an aggregation"),
        (lambda s: s.aggregate(n="count"), "aggregate() got n='count', expected an aggregation"),
        (lambda s: s.aggregate(item=Count()), "the name 'item', which is the key's"),
        (lambda s: s.mean(-1), "mean() got -1, expected an index >= 0 or a field name"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_said(
    flow: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(GraphError) as raised:
        flow(source(Collection(DICTS)).key_by("item"))
    assert message in str(raised.value)


def test_a_class_in_place_of_an_aggregation_has_a_hint() -> None:
    with pytest.raises(GraphError, match=r"hint: n=Count\(\) is one"):
        sales().key_by(0).aggregate(n=Count)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"Sum\(\) got -1, expected an index >= 0"):
        Sum(-1)


def test_a_job_is_cancelled_while_it_emits_what_is_final() -> None:
    numbers = source(Collection(range(10_000))).key_by()
    slow = numbers.count(emit="final").filter(lambda pair: time.sleep(0.02))
    config = JobConfig.of({"progress": "none", "batch_size": 10})
    handle = JobHandle(Plan.of(slow.sink(Discard()), config), ThreadLauncher())

    def emitted() -> int:
        return sum(
            each.records_out for each in handle.statistics().operators if each.name == "count"
        )

    wait_until(lambda: emitted() > 10)
    handle.cancel()
    handle.wait_stopped()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished()
    assert emitted() < 10_000
