"""Objects of people's classes go into a channel and come out the same; equal ones are one key."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import pathlib
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from engine.network import Aggregate, Batch, DecodeError, partition
from engine.record import registry as record_registry


@dataclasses.dataclass
class Anything:
    first: Any
    second: Any = None


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: Any


class Pair(NamedTuple):
    key: Any
    value: Any


class Color(enum.Enum):
    RED = "r"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


members = (
    st.sampled_from(Color)
    | st.sampled_from(Level)
    | st.integers(0, 3).map(Access)
    | st.sampled_from([pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("A\\b")])
)
plain = st.integers() | st.text(max_size=3) | st.booleans() | st.none() | members
hashable = st.recursive(
    plain | st.floats(allow_nan=False),
    lambda inner: (
        st.builds(Point, inner, inner)
        | st.builds(Slotted, inner)
        | st.builds(Pair, inner, inner)
        | st.tuples(inner, inner)
        | st.frozensets(inner, max_size=1)
    ),
    max_leaves=6,
)
objects = st.recursive(
    hashable | st.floats(),
    lambda inner: (
        st.builds(Anything, inner, inner)
        | st.lists(inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3).map(collections.OrderedDict)
        | st.dictionaries(hashable, inner, max_size=3).map(
            lambda content: collections.defaultdict(list, content)
        )
        | st.lists(inner, max_size=3).map(lambda items: collections.deque(items, 5))
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=10,
)


@given(st.lists(objects, max_size=4))
def test_objects_arrive_as_they_were_sent(batch: list[Any]) -> None:
    encoded = Batch.from_list(batch)
    for _ in range(2):
        arrived = encoded.to_list()
        assert repr(arrived) == repr(batch)
        assert list(map(kinds, arrived)) == list(map(kinds, batch))


def kinds(value: Any) -> Any:
    """The types of a value and of all in it."""
    if dataclasses.is_dataclass(value):
        return type(value), [kinds(getattr(value, f.name)) for f in dataclasses.fields(value)]
    if isinstance(value, dict):
        return type(value), [(kinds(key), kinds(each)) for key, each in value.items()]
    if isinstance(value, tuple | list | collections.deque):
        return type(value), [kinds(each) for each in value]
    return type(value)


@given(hashable, st.integers(1, 1 << 60))
def test_equal_objects_go_to_one_task(key: Any, channels: int) -> None:
    (arrived,) = Batch.from_list([key]).to_list()
    assert arrived == key
    assert hash(arrived) == hash(key)
    assert partition([key], channels) == partition([arrived], channels)


comparable = st.recursive(
    st.sampled_from([0, 1, True, 1.0, 2, "a", "b", None, *Color, *Level, *map(Access, range(4))]),
    lambda inner: (
        st.builds(Point, inner, inner) | st.builds(Pair, inner, inner) | st.tuples(inner, inner)
    ),
    max_leaves=3,
)


@given(st.lists(comparable, max_size=30))
def test_native_aggregates_and_partitions_compare_as_python_does(keys: list[Any]) -> None:
    counts = Aggregate([[]], [("count", [])])
    assert dict(counts.update(Batch.from_list(keys))) == collections.Counter(keys)
    targets: dict[Any, int] = {}
    for key, target in zip(keys, partition(keys, 1 << 60), strict=True):
        assert targets.setdefault(key, target) == target
    assert len(set(targets.values())) == len(targets)


@given(
    st.sampled_from([5, 6, 7, 39, 40, 41]),
    st.sampled_from([Anything, Point, Slotted, Pair, Color, Level, Access, *record_registry.OWN]),
    st.lists(objects, max_size=3),
    st.binary(max_size=4),
)
def test_any_parts_are_an_object_or_an_error(
    code: int, kind: type, parts: list[Any], rest: bytes
) -> None:
    head = [record_registry.reference(kind), *parts]
    content = b"".join(Batch.from_list([part]).__reduce__()[1][0][0][1] for part in head)
    payload = bytes([0x90 | len(head)]) + content + rest
    data = b"\xc8" + len(payload).to_bytes(2, "big") + bytes([code]) + payload
    with contextlib.suppress(DecodeError):
        (made,) = Batch.from_bytes(data, 1).to_list()
        assert type(made) in (kind, collections.deque) or isinstance(made, kind)


@given(st.sampled_from([5, 6, 7, 39, 40, 41]), st.binary(max_size=40))
def test_any_bytes_are_an_object_or_an_error(code: int, payload: bytes) -> None:
    data = b"\xc7" + bytes([len(payload), code]) + payload
    with contextlib.suppress(DecodeError):
        Batch.from_bytes(data, 1).to_list()


NAMES = ("first", "second", "third")
changes = st.lists(
    st.sampled_from(
        [
            *(("set", name) for name in (*NAMES, "more", "other")),
            *(("delete", name) for name in (*NAMES, "more")),
            ("look at the dict", ""),
            ("become another", ""),
        ]
    ),
    max_size=10,
)


@given(st.lists(st.tuples(st.permutations(NAMES), changes), min_size=1, max_size=5), st.booleans())
def test_attributes_arrive_in_whatever_way_they_came(
    histories: list[tuple[list[str], list[tuple[str, str]]]], other: bool
) -> None:
    # New classes each time: where an object has its attributes depends on all others of its class.
    classes = [
        dataclasses.make_dataclass(name, NAMES, namespace={"__module__": __name__}, eq=False)
        for name in ("Varied", "Another")
    ]
    globals().update({kind.__name__: kind for kind in classes})
    record_registry.announce(classes)
    objects = []
    for order, history in histories:
        made = object.__new__(classes[other])
        for name in order:
            setattr(made, name, object_of(name))
        for change, name in history:
            if change == "set":
                setattr(made, name, object_of(name, len(objects)))
            elif change == "delete" and hasattr(made, name):
                delattr(made, name)
            elif change == "look at the dict":
                assert isinstance(vars(made), dict)
            elif change == "become another":
                made.__class__ = classes[not other]
        objects.append(made)
    arrived = Batch.from_list([*objects, *objects[::-1]]).to_list()
    sent = [*objects, *objects[::-1]]
    assert [type(each) for each in arrived] == [type(each) for each in sent]
    assert [vars(each) for each in arrived] == [vars(each) for each in sent]


def object_of(name: str, number: int = 0) -> tuple[str, int]:
    return name, number
