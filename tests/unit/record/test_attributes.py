"""Objects that have arrived are as if their class had made them, whatever becomes of them then."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import pickle
import sys
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from engine.network import Batch, DecodeError
from engine.record import registry as record_registry


@dataclass
class Plain:
    user: Any = "ann"
    items: Any = 3
    amount: Any = 2.5


@dataclass(frozen=True)
class Frozen:
    user: Any = "ann"
    items: Any = 3
    amount: Any = 2.5


@dataclass(slots=True)
class Slotted:
    user: Any = "ann"
    items: Any = 3
    amount: Any = 2.5


@dataclass(kw_only=True)
class Keywords:
    user: Any = "ann"
    items: Any = 3
    amount: Any = 2.5


@dataclass
class Sub(Plain):
    note: Any = None


@dataclass
class Behind(Slotted):
    """Some of its fields are in slots, one in a dict."""

    note: Any = None


@dataclass
class Late:
    """Its first field is set last."""

    total: Any = dataclasses.field(init=False)
    user: Any = "ann"
    items: Any = 3
    amount: Any = 2.5

    def __post_init__(self) -> None:
        self.total = self.items


def crowded(name: str, fields: int) -> type:
    names = ["user", "items", "amount", *(f"f{index}" for index in range(fields - 3))]
    described = [(each, object, dataclasses.field(default=each)) for each in names]
    return dataclasses.make_dataclass(name, described, namespace={"__module__": __name__})


Thirty = crowded("Thirty", 30)
ThirtyOne = crowded("ThirtyOne", 31)
Hundred = crowded("Hundred", 100)

CLASSES = [Plain, Frozen, Slotted, Keywords, Sub, Behind, Late, Thirty, ThirtyOne, Hundred]


def put(value: Any, name: str, to: object) -> None:
    object.__setattr__(value, name, to)  # also of one that is frozen


def put_again(value: Any) -> None:
    object.__delattr__(value, "user")
    put(value, "user", 1)


def delete_all(value: Any) -> None:
    for each in dataclasses.fields(value):
        object.__delattr__(value, each.name)


def put_many(value: Any) -> None:
    for number in range(40):
        put(value, f"other{number}", number)


def change_dict(value: Any) -> None:
    vars(value).pop("items", None)
    vars(value)["also"] = 1
    put(value, "user", "bob")


def replace_dict(value: Any) -> None:
    value.__dict__ = {"note": 1, "also": 2}


def other_class(value: Any) -> None:
    object.__setattr__(value, "__class__", type("Other", type(value).__bases__, {}))
    put(value, "also", 1)


CHANGES: list[Callable[[Any], object]] = [
    lambda value: None,
    lambda value: put(value, "items", [1]),
    lambda value: object.__delattr__(value, "items"),
    put_again,
    delete_all,
    lambda value: (delete_all(value), put(value, "amount", 1), put(value, "user", 2)),
    lambda value: put(value, "extra", 1),
    lambda value: (put(value, "extra", 1), object.__delattr__(value, "user")),
    put_many,
    change_dict,
    replace_dict,
    lambda value: (vars(value), put(value, "extra", 1)),
    other_class,
]


def seen(value: Any) -> tuple[list[tuple[str, Any]], dict[str, Any], str]:
    """What can be seen of an object: its attributes in their order, those in slots, its class."""
    names = {each.name for each in dataclasses.fields(Hundred)} | {"total", "note", "also", "extra"}
    found = {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}
    return list(getattr(value, "__dict__", {}).items()), found, type(value).__name__


def outcome(change: Callable[[Any], object], value: Any) -> object:
    try:
        change(value)
    except (AttributeError, TypeError) as error:
        return type(error)
    return seen(value)


def roundtrip(*records: Any) -> list[Any]:
    return Batch.from_list(list(records)).to_list()


def made(kind: type) -> Any:
    """One as it arrives: what `__post_init__` set comes where its field is."""
    value = object.__new__(kind)
    source = kind()
    for each in dataclasses.fields(kind):
        put(value, each.name, getattr(source, each.name))
    return value


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_object_that_arrived_changes_as_others_do(
    kind: Any, change: Callable[[Any], object]
) -> None:
    first, *_, last = roundtrip(*[kind() for _ in range(40)])  # so many that no place is left over
    for arrived in (first, last):
        assert outcome(change, arrived) == outcome(change, made(kind))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("change", CHANGES[:-1], ids=range(len(CHANGES) - 1))
def test_an_object_that_changed_arrives_as_it_is(
    kind: Any, change: Callable[[Any], object]
) -> None:
    for value in [kind(), *roundtrip(kind(), kind())]:
        outcome(change, value)
        (arrived,) = roundtrip(value)
        attributes, slots, name = seen(arrived)
        expected, in_slots, expected_name = seen(value)
        assert (dict(attributes), slots, name) == (dict(expected), in_slots, expected_name)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_copies_of_an_object_that_arrived(kind: Any) -> None:
    (arrived,) = roundtrip(kind())
    for each in (
        copy.copy(arrived),
        copy.deepcopy(arrived),
        dataclasses.replace(arrived) if kind is not Late else arrived,
        pickle.loads(pickle.dumps(arrived)) if kind.__name__ in globals() else arrived,
        *roundtrip(arrived),
    ):
        assert seen(each) == seen(arrived)
        assert each == arrived


@pytest.mark.parametrize("kind", [Plain, Frozen, Sub, Keywords], ids=lambda kind: kind.__name__)
def test_a_cycle_through_an_object_that_arrived_is_collected(kind: Any) -> None:
    arrived = roundtrip(kind(), kind(user=[1]))
    assert all(gc.is_tracked(each) for each in arrived)
    gone = [weakref.ref(each) for each in arrived]
    for each in arrived:
        put(each, "user", each)
    del arrived, each
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_objects_that_arrived_go_with_all_that_is_theirs(kind: Any) -> None:
    batch = Batch.from_list([kind(user=[index]) for index in range(200)])
    batch.to_list()
    classes = sys.getrefcount(kind)
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(20):
        batch.to_list()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    assert sys.getrefcount(kind) == classes


def test_an_object_that_cannot_be_finished_goes_with_what_it_has() -> None:
    parts = [record_registry.reference(Plain), [1.5], Late()]
    payload = b"\x94" + b"".join(_encoded(part) for part in parts) + b"\xc1"
    del parts
    broken = Batch.from_bytes(b"\xc7" + bytes([len(payload), 7]) + payload, 1)
    for _ in range(3):
        with pytest.raises(DecodeError):
            broken.to_list()
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) in (Plain, Late)]


def _encoded(value: object) -> bytes:
    return Batch.from_list([value]).__reduce__()[1][0][0][1]  # type: ignore[no-any-return]


def fresh(name: str, fields: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A new class, of which nobody has made an object."""
    module = types.ModuleType("fresh")
    monkeypatch.setitem(sys.modules, "fresh", module)
    exec(f"from dataclasses import dataclass\n@dataclass\nclass {name}: {fields}", vars(module))
    return vars(module)[name]


@pytest.mark.parametrize("order", ["cba", "bac", "acb", "c", "xabc", "abcx", "x"])
def test_a_class_whose_first_object_got_its_attributes_in_another_order(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = fresh("Event", "a: int; b: int; c: int", monkeypatch)
    first = object.__new__(kind)
    for number, name in enumerate(order):
        setattr(first, name, number)
    records = [first, *(kind(number, 2, 3) for number in range(50))]
    arrived = roundtrip(*records)
    assert [vars(each) for each in arrived] == [vars(each) for each in records]
    assert all(list(vars(each)) == ["a", "b", "c"] for each in arrived[1:])


def test_a_class_that_has_no_place_for_more_names(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = fresh("Event", "a: int; b: int; c: int", monkeypatch)
    others = [object.__new__(kind) for _ in range(100)]
    for number, each in enumerate(others):
        setattr(each, f"other{number}", number)
    (first, *rest) = roundtrip(*others, *[kind(1, 2, 3)] * 50)
    assert vars(first) == {"other0": 0}
    assert all(list(vars(each).items()) == [("a", 1), ("b", 2), ("c", 3)] for each in rest[99:])


def test_a_class_that_changes_after_its_first_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = fresh("Event", "a: int; b: int; c: int = 0", monkeypatch)
    roundtrip(kind(1, 2, 3), kind(1, 2, 3))
    kind.a = kind.other = 5
    kind.__setattr__ = lambda self, name, value: pytest.fail(name)
    kind.total = lambda self: self.a + self.b + self.c
    value = object.__new__(kind)
    for number, name in enumerate("abc"):
        put(value, name, number)
    for each in roundtrip(value, *roundtrip(value, value)):
        assert vars(each) == {"a": 0, "b": 1, "c": 2}
        assert each.total() == 3


def test_classes_made_anew_by_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for fields in ["a: int; b: int", "b: int; a: int", "a: int; b: int; c: int = 3"] * 3:
        kind = fresh("Event", fields, monkeypatch)
        for _ in range(3):
            for each in roundtrip(*[kind(1, 2)] * 40):
                assert type(each) is kind
                assert vars(each) == vars(kind(1, 2))
        del kind, each
        gc.collect()


class Meddling:
    """Does something to the object that is being made while this arrives."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return meddle, (self.number,)


def meddle(number: int) -> int:
    for each in gc.get_objects():
        if type(each) is Plain:
            MEDDLING[number](each)
    return number


def take_user(value: Any) -> None:
    with contextlib.suppress(AttributeError):
        object.__delattr__(value, "user")


MEDDLING: list[Callable[[Any], object]] = [
    lambda value: None,
    lambda value: put(value, "items", 5),
    lambda value: put(value, "extra", 5),
    take_user,
    lambda value: value.__dict__.update(amount=1, extra=2),
    put_many,
    replace_dict,
]


@pytest.mark.parametrize("number", range(len(MEDDLING)))
@pytest.mark.parametrize("place", ["user", "items", "amount"])
def test_an_object_that_others_find_before_it_is_whole(
    place: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_registry, "is_trusted", lambda: True)
    batch = Batch.from_list([Plain(**{place: Meddling(number)})], pickle=True)
    (arrived,) = batch.to_list()
    expected = object.__new__(Plain)
    for name, value in {"user": "ann", "items": 3, "amount": 2.5, place: number}.items():
        if name == place:
            MEDDLING[number](expected)
        put(expected, name, value)
    assert list(vars(arrived).items()) == list(vars(expected).items())
