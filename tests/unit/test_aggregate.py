"""Native aggregates: paths to key and value, and what is said about records that do not fit."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from engine.network import Aggregate, AggregateError, Batch


def one(kind: str, key: list[int | str], value: list[int | str] | None = None) -> Aggregate:
    return Aggregate([key], [(kind, value or [])])


def update(aggregate: Aggregate, *records: Any) -> list[tuple[Any, Any]]:
    return aggregate.update(Batch.from_list(list(records)))


def test_a_batch_gives_each_key_once_with_its_value_after_the_batch() -> None:
    count = one("count", [])
    assert update(count, "b", "a", "b") == [("b", 2), ("a", 1)]
    assert update(count, "a") == [("a", 2)]
    assert update(count) == []
    assert update(count, "b") == [("b", 3)]
    assert len(count) == 2


@pytest.mark.parametrize(
    ("key", "value", "record"),
    [
        ([0], [1], ("k", 3)),
        ([1], [0], (3, "k")),
        ([-1], [-2], (3, "k")),
        ([0], [1], ["k", 3]),
        (["key"], ["value"], {"value": 3, ("other",): [1], "key": "k"}),
        ([0], [1, "value"], ("k", {"value": 3})),
        ([0], [1, 2], ("k", (1, 2, 3))),
        ([0, 0], [1], (("k",), 3)),
        ([0, "key"], [1, 0], [{"key": "k"}, [3]]),
    ],
)
def test_paths_lead_to_key_and_value(
    key: list[int | str], value: list[int | str], record: Any
) -> None:
    aggregate = one("sum", key, value)
    assert update(aggregate, record, record) == [("k", 6)]


def test_the_record_can_be_key_and_value() -> None:
    assert update(one("sum", [], []), 3, 3, 4) == [(3, 6), (4, 4)]


def test_equal_keys_are_one_and_keep_the_first_spelling() -> None:
    counted = update(one("count", [0]), (1.0,), (True,), (1,), ((1, 2.0),), ((1.0, 2),))
    assert repr(counted) == "[(1.0, 3), ((1, 2.0), 2)]"


def test_sums_are_exact_and_become_floats_with_a_float() -> None:
    assert update(one("sum", [0], [1]), ("a", 2**63), ("a", 2**63)) == [("a", 2**64)]
    result = update(one("sum", [0], [1]), ("a", True), ("a", 1), ("a", 0.5))
    assert repr(result) == "[('a', 2.5)]"


def test_minimum_and_maximum_keep_the_type() -> None:
    records = [("i", 2), ("i", 1), ("f", 2.5), ("f", 1), ("s", "ü"), ("s", "z"), ("b", b"b")]
    records += [("b", b"a"), ("t", True), ("t", False)]
    least = {"i": 1, "f": 1, "s": "z", "b": b"a", "t": False}
    assert repr(dict(update(one("min", [0], [1]), *records))) == repr(least)
    greatest = {"i": 2, "f": 2.5, "s": "ü", "b": b"b", "t": True}
    assert repr(dict(update(one("max", [0], [1]), *records))) == repr(greatest)


def test_first_keeps_any_value_and_does_not_come_again() -> None:
    first = one("first", [0])
    assert update(first, ("a", [1]), ("a", [2])) == [("a", ("a", [1]))]
    assert update(first, ("a", [3])) == []


@pytest.mark.parametrize(
    ("kind", "records", "message"),
    [
        (
            "sum",
            [("a", 1), ("a", "x")],
            "record 1 of the batch, ('a', 'x'): its value 'x' is no number",
        ),
        ("sum", [("a", None)], "record 0 of the batch, ('a', None): its value None is no number"),
        ("sum", [("a", [1])], "its value [1] is no number"),
        ("min", [("a", 1), ("a", "x")], "not of the same kind"),
        ("max", [("a", {})], "its value {} is no number, text or byte string"),
        ("max", [("a", 1j)], "'<' not supported between instances of 'complex' and 'complex'"),
        (
            "max",
            [("a", (1,)), ("a", 1)],
            "'<' not supported between instances of 'tuple' and 'int'",
        ),
        ("mean", [("a", Decimal(1)), ("a", 1.5)], "'decimal.Decimal' and 'float'"),
        ("count", [5], "record 0 of the batch, 5: its key is item 0 of something"),
        ("count", [()], "its key is item 0 of a sequence of 0"),
        ("sum", [("a",)], "its value is item 1 of a sequence of 1"),
        ("count", [({}, 1)], "a dict cannot be a key"),
        ("count", [(np.timedelta64(1, "s"), 1)], "numpy.timedelta64 cannot be a key"),
        ("count_distinct", [("a", [1])], "its value cannot be told from others: a list cannot"),
    ],
)
def test_a_record_that_does_not_fit_is_named(kind: str, records: list[Any], message: str) -> None:
    with pytest.raises(AggregateError) as raised:
        update(one(kind, [0], [1]), *records)
    assert message in str(raised.value)
    assert "\n\nhint: " in str(raised.value)


def test_an_unknown_aggregation_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of count, sum, min, max, mean, first"):
        one("median", [0])


def test_large_batches_are_counted_the_same() -> None:
    records = [(f"{number % 1000}", number) for number in range(50_000)]
    totals: dict[str, int] = {}
    for key, number in records:
        totals[key] = totals.get(key, 0) + number
    assert dict(update(one("sum", [0], [1]), *records)) == totals


def test_texts_with_lone_surrogates_are_in_the_order_of_code_points() -> None:
    texts = ["\ud800", "\ue000", "z", "\U00010000", "\udfff"]
    records = [("k", text) for text in texts]
    assert update(one("min", [0], [1]), *records) == [("k", min(texts))]
    assert update(one("max", [0], [1]), *records) == [("k", max(texts))]
    lone = [("k", "\udfff"), ("k", "\ud800"), ("k", "a\ud800")]
    assert update(one("max", [0], [1]), *lone) == [("k", "\udfff")]
    assert update(one("min", [0], [1]), *lone[:2]) == [("k", "\ud800")]
