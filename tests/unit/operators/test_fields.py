"""Fields of objects, by their names, wherever a record's key, value or time is asked for."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

import engine.testing
from engine.errors import OperatorError
from engine.network import Finder
from operators import Count, Session, Stream, Sum, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection

ROWS = [("a", 1, 1.5), ("b", 2, 2.5), ("a", 3, 1.0), ("b", 14, 5.0), ("a", 25, 0.5)]


@dataclass
class Plain:
    user: str
    at: int
    amount: float


@dataclass(frozen=True)
class Frozen:
    user: str
    at: int
    amount: float


@dataclass(slots=True)
class Slotted:
    user: str
    at: int
    amount: float


@dataclass
class Child(Plain):
    more: int = 7


class Named(NamedTuple):
    user: str
    at: int
    amount: float


class Unlike(Named):
    """Has a dict, and is equal to none."""

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class Model(BaseModel):
    user: str
    at: int
    amount: float


def records(kind: Callable[..., Any]) -> list[Any]:
    return [kind(user=user, at=at, amount=amount) for user, at, amount in ROWS]


def with_more_attributes(**fields: Any) -> Plain:
    made = Plain(**fields)
    if made.at == 2:
        vars(made)["note"] = "it travels by all its attributes"
    return made


TEN, FIVE = timedelta(seconds=10), timedelta(seconds=5)
WAYS: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "sum": lambda s: s.key_by("user").sum("amount", emit="final"),
    "max": lambda s: s.key_by("user").max("amount", emit="final"),
    "min": lambda s: s.key_by("user").min("amount", emit="final"),
    "first": lambda s: s.key_by("at").first("user", emit="final"),
    "several": lambda s: s.key_by("user").aggregate(n=Count(), s=Sum("amount"), emit="final"),
    "count_distinct": lambda s: s.key_by("user").count_distinct("at", emit="final"),
    "top": lambda s: s.key_by("user").top("user", emit="final"),
    "two keys": lambda s: s.key_by("user", "at").count(emit="final"),
    "key of a function": lambda s: s.key_by(lambda _: 0).sum("amount", emit="final"),
    "window": lambda s: timed(s).key_by("user").window(Tumbling(TEN)).sum("amount"),
    "session": lambda s: timed(s).key_by("user").window(Session(FIVE)).mean("amount"),
    "window in Python": lambda s: (
        timed(s).key_by("user").window(Tumbling(TEN)).apply(lambda *found: len(found[1]))
    ),
    "window of pairs": lambda s: (
        timed(s).key_by(lambda _: 0).window(Tumbling(TEN)).apply(lambda *found: len(found[1]))
    ),
    "session in Python": lambda s: (
        timed(s).key_by("user").window(Session(FIVE)).apply(lambda *found: len(found[1]))
    ),
    "reduce": lambda s: s.key_by("user").reduce(lambda a, _: a, emit="final").map(lambda _: 1),
    "reduce by two": lambda s: s.key_by("user", "at").reduce(lambda a, _: a).map(lambda _: 1),
    "on_error": lambda s: s.key_by("user", on_error="skip").sum("amount", emit="final"),
    "interval_join": lambda s: (
        timed(s)
        .key_by("user")
        .interval_join(timed(s).key_by("user"), between=(timedelta(0), FIVE))
        .map(lambda _: 1)
    ),
    "lookup_join": lambda s: s.lookup_join({"a": 1}, "user").map(lambda pair: pair[1]),
}


def timed(stream: Stream[Any]) -> Stream[Any]:
    return stream.with_event_time("at", unit="s")


def outputs(way: str, given: list[Any], parallelism: int) -> list[Any]:
    pipeline = WAYS[way](source(Collection(given))).sink(Collect())
    return sorted(engine.testing.run(pipeline, parallelism=parallelism)["collect"], key=repr)


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_objects_give_what_dicts_give(way: str, parallelism: int) -> None:
    expected = outputs(way, records(dict), parallelism)
    kinds = (Plain, with_more_attributes, Frozen, Slotted, Child, Named, Unlike, Model)
    found = {kind.__name__: outputs(way, records(kind), parallelism) for kind in kinds}
    assert found == dict.fromkeys(found, expected)


@pytest.mark.parametrize("way", ["sum", "window", "window in Python", "reduce", "interval_join"])
def test_records_of_several_kinds_in_one_stream(way: str) -> None:
    given = [
        each for three in zip(*map(records, (dict, Plain, Named)), strict=True) for each in three
    ]
    assert outputs(way, given, 1) == outputs(way, records(dict) * 3, 1) or way == "window in Python"
    assert len(outputs(way, given, 1)) == len(outputs(way, records(dict) * 3, 1))


@pytest.mark.parametrize(
    ("way", "told"),
    [
        (
            lambda s: s.key_by("user").sum("amont"),
            'without the field "amont": it has user, at, amo',
        ),
        (lambda s: s.with_event_time("att").key_by("user").reduce(max), "without the field 'att'"),
        (lambda s: s.rebalance().key_by("usr").count(), "which has no such field"),
        (lambda s: s.key_by("usr").reduce(max), "the record is a Plain"),
        (
            lambda s: s.map(lambda _: [1]).key_by("count").reduce(max),
            "a list, expected a dict or an object",
        ),
    ],
)
def test_a_field_that_is_not_there(way: Callable[[Stream[Any]], Stream[Any]], told: str) -> None:
    with pytest.raises(OperatorError) as caught:
        engine.testing.run(way(source(Collection(records(Plain)))).sink(Collect()), parallelism=2)
    assert told in str(caught.value)


class Priced(Plain):
    @property
    def price(self) -> float:
        return 2 * self.amount


def test_a_property_is_no_field_and_a_function_reads_it() -> None:
    """Records are read in Rust as they travel, with their fields alone."""
    stream = source(Collection(records(Priced)))
    with pytest.raises(OperatorError, match='without the field "price": it has user, at, amount'):
        engine.testing.run(stream.key_by("user").sum("price").sink(Collect()))
    of_it = stream.map(lambda record: (record.user, record.price)).key_by(0).sum(1, emit="final")
    expected = stream.key_by("user").sum("amount", emit="final")
    found = engine.testing.run([of_it.sink(Collect()).named("it"), expected.sink(Collect())])
    assert sorted(found["it"]) == sorted((key, 2 * value) for key, value in found["collect"])


def test_a_class_that_takes_the_name_of_another() -> None:
    def local(*names: str) -> type:
        made = type("Local", (), {"__annotations__": dict.fromkeys(names, int)})
        return dataclass(made)

    first, second = local("n", "other"), local("other", "n")
    for kind in (first, second):
        made = kind(n=1, other=2)  # type: ignore[call-arg]
        pipeline = source(Collection([made, made])).key_by("other").sum("n", emit="final")
        assert engine.testing.run(pipeline.sink(Collect()))["collect"] == [(2, 2)]


def test_a_finder_finds_as_a_gate_does() -> None:
    plain = Plain("a", 1, 2.0)
    assert Finder("at").find(plain) == Finder("at").find({"at": 1}) == 1
    assert Finder(("user", "at")).find(plain) == ("a", 1)
    assert Finder(-1).find((1, 2)) == 2
    assert pickle.loads(pickle.dumps(Finder("at"))).find(plain) == 1
    with pytest.raises(KeyError, match="at"):
        Finder("at").find({})
    with pytest.raises(IndexError):
        Finder(2).find((1,))
    with pytest.raises(TypeError, match="the record is a Plain without the field 'when'"):
        Finder("when").find(plain)
    for other in (1, "text", [1], None):
        with pytest.raises(TypeError, match="expected a dict or an object with fields"):
            Finder("count").find(other)
