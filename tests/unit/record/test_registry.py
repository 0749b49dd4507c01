"""References to classes in jobs that go on from state of earlier ones."""

from collections import Counter
from dataclasses import dataclass, make_dataclass
from pathlib import Path

import pytest

from engine.record import registry as record_registry
from engine.record.registry import RecordClass, announce, record_class


@dataclass
class Importable:
    """One that any process can import."""

    number: int


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own."""
    own = {~at: kind for at, kind in enumerate(record_registry.OWN)}
    monkeypatch.setattr(record_registry, "_classes", own)
    monkeypatch.setattr(record_registry, "_numbers", {kind: n for n, kind in own.items()})
    for name in ("_unloaded", "_known", "_kept"):
        monkeypatch.setattr(record_registry, name, {})


def made(name: str, *fields: str) -> type:
    kind = make_dataclass(name, fields)
    kind.__module__ = "shop"
    return kind


def test_a_class_that_is_as_it_was_keeps_its_number_in_whatever_order() -> None:
    seen, other = made("Seen", "a"), made("Other", "b")
    first = announce([seen, other])
    kept = {number: record_class(kind) for number, kind in first.items()}
    again = announce([made("New"), made("Other", "b"), made("Seen", "a")], kept)
    assert [record_class(again[number]) for number in kept] == [*kept.values()]
    assert len(again) == 3


def test_a_class_that_has_changed_has_a_number_that_nothing_had() -> None:
    kept = {8: RecordClass("shop:Seen", ("a", "b")), 40: RecordClass("shop:Gone", ())}
    (number,) = announce([made("Seen", "a", "c")], kept)
    assert number == 41


def test_a_class_of_this_process_makes_room_for_one_in_state() -> None:
    mine = made("Mine")
    (number,) = announce([mine])
    kept = {number: RecordClass("shop:Seen", ("a",))}
    seen = made("Seen", "a")
    found = announce([mine, seen], kept)
    assert found[number] is seen
    assert len(found) == 2
    assert announce([mine, seen], kept) == found


def test_two_classes_of_one_name_stay_two() -> None:
    first = announce([made("Seen", "a"), made("Seen", "a")])
    kept = {number: record_class(kind) for number, kind in first.items()}
    for before in (kept, {8: record_class(made("Seen", "a"))}):
        assert len(announce([made("Seen", "a"), made("Seen", "a")], before)) == 2


def test_a_class_that_state_has_by_its_name_keeps_that() -> None:
    name = record_registry.name_of(Importable)
    assert announce([Importable, Counter], {name: record_class(Importable)}) == {
        record_registry.number(Counter): Counter
    }
    assert record_registry.reference(Importable) == name


def test_a_class_that_state_has_by_a_number_keeps_that() -> None:
    """Though the pipeline no longer mentions it, but a function of a module that makes it."""
    record_registry.accept({}, {}, {9: record_class(Importable)})
    assert record_registry.changed() == []
    assert record_registry.reference(Importable) == 9
    assert record_registry.find(9) is Importable
    assert record_registry.known() == {9: record_class(Importable)}


@pytest.mark.parametrize(
    ("described", "told"),
    [
        (RecordClass(record_registry.name_of(Importable), ("n",)), r"\(n\), .*\(number\) by now"),
        (RecordClass("shop:Seen", ("a",)), r"shop\.Seen\(a\), which is gone \("),
        (RecordClass("shop:Other", ()), r"shop\.Other\(\), which is shop\.Other\(b\) by now"),
    ],
)
@pytest.mark.parametrize("by", ["number", "name"])
def test_a_class_that_is_not_as_it_was_is_refused(
    described: RecordClass, told: str, by: str
) -> None:
    reference = 50 if by == "number" else described.name
    record_registry.accept({10: made("Other", "b")}, {}, {reference: described})
    assert record_registry.changed() == [described]
    with pytest.raises(LookupError, match=told + r"(?s:.*)\n\nhint: objects keep their fields"):
        record_registry.find(reference)
    assert reference not in record_registry.known()


def test_paths_are_never_in_state_by_another_reference() -> None:
    assert record_registry.reference(type(Path())) < 0
    assert record_registry.known() == {}


def test_a_class_that_several_tasks_mention_has_one_number() -> None:
    first = announce([Importable, Importable])
    assert len(first) == 1
    assert announce([Importable, Importable]) == first
