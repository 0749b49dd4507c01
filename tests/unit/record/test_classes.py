"""Objects of classes as records: what arrives, what runs meanwhile, and what is refused."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import gc
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pytest

from engine.network import Aggregate, Batch, DecodeError, EncodeError, KeyExtractError, partition
from engine.record import registry as record_registry

T = TypeVar("T")
MANY = 1 << 60
"""So many channels that two keys go to one only if they have one hash."""


@dataclass
class Order:
    user: str
    amount: float = 1.0
    tags: list[str] = field(default_factory=list)
    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        Order.made += 1


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    y: object = None


@dataclass
class Keywords:
    _: KW_ONLY
    first: int
    second: int = 2


@dataclass
class Scaled:
    """Its total is set last, though it is not the last field, and once."""

    total: float = field(init=False)
    base: float
    scale: InitVar[float]

    def __post_init__(self, scale: float) -> None:
        self.total = self.base * scale


@dataclass
class Rush(Order):
    hours: int = 0


class Undecorated(Order):
    pass


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Noting:
    content: object
    note: int


@dataclass
class More:
    """Keeps what is no field."""

    name: str

    def __post_init__(self) -> None:
        self.length = len(self.name)


@dataclass(slots=True)
class Base:
    a: int


@dataclass
class SlotsAndDict(Base):
    b: int


class Hiding(Base):
    """Its slot is there, and the name of it leads elsewhere."""

    __slots__ = ()

    a = property(lambda self: Base.a.__get__(self) + 1, lambda self, a: Base.a.__set__(self, a))  # type: ignore[attr-defined,assignment]


class Doubled:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, value: Any, owner: type) -> Any:
        return 1 if value is None else getattr(value, self.name)

    def __set__(self, value: Any, number: int) -> None:
        setattr(value, self.name, 2 * number)


@dataclass
class Described:
    number: Any = Doubled()


@dataclass(frozen=True)
class Lazy:
    n: int

    @functools.cached_property
    def square(self) -> object:
        return object()  # nothing that could travel


class Pair(NamedTuple):
    key: object
    value: object = None


Old = collections.namedtuple("Old", "a b")


class OldWithDict(Old):
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = ("b", [2])
    CRIMSON = 1  # noqa: PIE796 - another name of RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):
    MOON = "moon"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Mode(enum.IntFlag):
    A = 1
    B = 2


class Animal(Order, enum.Enum):
    DOG = ("dog",)


class Open(enum.Enum):
    """Has a member for whatever is asked for."""

    KNOWN = 1

    @classmethod
    def _missing_(cls, value: object) -> Open:
        if value == 2:
            return cls.KNOWN
        made = object.__new__(cls)
        made._name_, made._value_ = "KNOWN" if value == 3 else str(value), value
        return made


def roundtrip(*records: Any) -> list[Any]:
    return Batch.from_list(list(records)).to_list()


def test_a_member_that_is_none_of_its_class_is_refused() -> None:
    assert roundtrip(Open(1), Open(2)) == [Open.KNOWN] * 2
    for value in (3, "new"):
        with pytest.raises(
            EncodeError, match=r"is no member of its class.*\n\nhint: emit its value"
        ):
            Batch.from_list([Open(value)])


@pytest.mark.parametrize(
    "record",
    [
        Order("a", 2.5, ["x"]),
        Point(1, 2.5),
        Slotted(1, (2, "b")),
        Keywords(first=1),
        Scaled(2.0, 3.0),
        Rush("a", hours=3),
        Undecorated("a"),
        Box[int](3),
        More("long"),
        SlotsAndDict(1, 2),
        Described(4),
        Lazy(3),
        Pair(1, [2]),
        Old(1, 2),
        OldWithDict(1, 2),
        Color.RED,
        Color.BLUE,
        Color.CRIMSON,
        Level.HIGH,
        Word.MOON,
        Access.READ | Access.WRITE,
        Access(0),
        Mode.A | Mode.B,
        Mode(8),
        Animal.DOG,
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=[1]),
        collections.defaultdict(None, a=1),
        collections.defaultdict(Order),
        collections.defaultdict(collections.Counter),
        collections.Counter("moon"),
        collections.deque([1, 2], 3),
        Path("/a") / "b",
        PurePosixPath("."),
        PureWindowsPath("C:\\a"),
        {Point(1, 2): Pair(1), Color.RED: 1, Pair(1, 2): 2, Access.READ: 3},
        [Order("a", tags=["b"])],
        (Point(1, 1), {Level.LOW}),
        frozenset([Point(1, 1)]),
        Order("a", tags=[Order("b")]),  # type: ignore[list-item]
        Pair(Pair(Color.RED), Slotted(1, Word.MOON)),
    ],
    ids=lambda record: repr(record)[:40],
)
def test_an_object_arrives_as_it_was_sent(record: Any) -> None:
    made = Order.made
    arrived, again = roundtrip(record, record)
    assert Order.made == made
    for each in (arrived, again):
        assert type(each) is type(record)
        assert each == record
        assert repr(each) == repr(record)


def test_attributes_that_are_no_fields_travel_too() -> None:
    (arrived,) = roundtrip(More("long"))
    assert arrived.length == 4
    order = Order("a")
    order.note = "b"  # type: ignore[attr-defined]
    del order.amount
    (arrived,) = roundtrip(order)
    assert vars(arrived) == {"user": "a", "tags": [], "note": "b"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there each object has a dict")
def test_sending_makes_no_dict_for_an_object() -> None:
    def dicts() -> int:
        found = [each for each in gc.get_objects() if type(each) is dict]
        return sum(each.get("tags") is order.tags for each in found)

    order = Order("a")
    (arrived,) = roundtrip(order)
    assert dicts() == 0
    roundtrip(arrived)
    order = arrived
    assert dicts() == 0
    assert vars(order)["tags"] == []
    assert dicts() == 1  # as it would be seen


class Meddling:
    """Does something to its owner while it is pickled."""

    def __init__(self, meddle: Callable[[Any], object]) -> None:
        self.owner: Any = None
        self.meddle = meddle

    def __reduce__(self) -> tuple[type, tuple[()]]:
        self.meddle(self.owner)
        return int, ()


@pytest.mark.parametrize(
    ("meddle", "arrives"),
    [
        (vars, {"content": 0, "note": 1}),
        (lambda owner: owner.__dict__.pop("note", 0), {"content": 0}),
        (lambda owner: hasattr(owner, "note") and delattr(owner, "note"), {"content": 0}),
    ],
)
def test_an_object_that_changes_while_it_is_sent(
    meddle: Callable[[Any], object], arrives: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_registry, "is_trusted", lambda: True)
    meddling = Meddling(meddle)
    meddling.owner = Noting(meddling, 1)
    (arrived,) = Batch.from_list([meddling.owner], pickle=True).to_list()
    assert vars(arrived) == arrives


def test_what_is_cached_is_made_anew() -> None:
    lazy = Lazy(3)
    assert lazy.square is lazy.square
    (arrived,) = roundtrip(lazy)
    assert vars(arrived) == {"n": 3}


def test_a_slot_that_was_never_set_stays_so() -> None:
    slotted = object.__new__(Slotted)
    object.__setattr__(slotted, "x", 1)
    (arrived,) = roundtrip(slotted)
    assert arrived.x == 1
    assert not hasattr(arrived, "y")


def test_a_slot_that_a_subclass_hides_arrives() -> None:
    (arrived,) = roundtrip(Hiding(1))
    assert (type(arrived), arrived.a) == (Hiding, 2)


def test_members_are_the_objects_they_were() -> None:
    sent = [Color.RED, Level.HIGH, Word.MOON, Access.READ | Access.WRITE]
    for _ in range(2):
        assert all(arrived is one for arrived, one in zip(roundtrip(*sent), sent, strict=True))


def test_a_frozen_object_stays_frozen() -> None:
    point, slotted = roundtrip(Point(1, 2), Slotted(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        slotted.x = 3


def test_a_default_dict_goes_on_making_defaults() -> None:
    orders, lists = roundtrip(collections.defaultdict(Point), collections.defaultdict(list, a=[1]))
    assert orders.default_factory is Point
    assert lists["b"] == []


class Locked(Order):
    def __reduce__(self) -> Any:
        return Locked, ("a",)


@dataclass
class Closing:
    a: int

    def __del__(self) -> None:
        pass


@dataclass
class Listed(list):  # type: ignore[type-arg]
    a: int


class SlottedTuple(tuple):  # type: ignore[type-arg]
    __slots__ = ()


def inside() -> Any:
    @dataclass
    class Inner:
        a: int

    return Inner(1)


def with_an_attribute() -> OldWithDict:
    old = OldWithDict(1, 2)
    old.c = 3
    return old


@pytest.mark.parametrize(
    ("record", "reason", "hint"),
    [
        (Locked("a"), "it has __reduce__", ".with_pickle()"),
        (Closing(1), "it has __del__", ".with_pickle()"),
        (Listed(1), "object.__new__", "with_pickle"),
        (SlottedTuple(), "cannot travel", "tuple(value)"),
        (inside(), "cannot import it", "at the top of a module"),
        (with_an_attribute(), "beside its items, c", ".with_pickle()"),
        (collections.defaultdict(lambda: 1), "a defaultdict of <function", "dict(value)"),
        (collections.UserDict(), "collections.UserDict cannot travel", ".with_pickle()"),
        (Order(object()), "object cannot travel", "its parts"),  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_arrive_as_it_was_sent_is_refused(
    record: Any, reason: str, hint: str
) -> None:
    with pytest.raises(EncodeError) as raised:
        roundtrip("fine", record)
    told, _, hints = str(raised.value).partition("\n\nhint: ")
    assert told.startswith("record 1 of the batch, ")
    assert reason in told
    assert hint in hints


@pytest.mark.parametrize(
    "equal",
    [
        [Pair(1, 2), (1, 2), Pair(True, 2.0), Old(1, 2), OldWithDict(1, 2)],
        [Level.HIGH, 2, 2.0],
        [Mode.A | Mode.B, 3],
        [Word.MOON, "moon"],
        [Point(1, 2), Point(1.0, 2.0), Point(True, 2)],
        [Path("a/b"), PurePosixPath("a//b")],
        [PureWindowsPath("A\\b"), PureWindowsPath("a/B")],
    ],
    ids=repr,
)
def test_equal_objects_are_one_key(equal: list[Any]) -> None:
    arrived = roundtrip(*equal)
    assert all(key == equal[0] for key in arrived)
    assert len(set(partition([*equal, *arrived], MANY))) == 1


def test_different_objects_are_different_keys() -> None:
    keys = [
        Point(1, 2), Point(2, 1), Slotted(1, 2), Color.RED, Color.BLUE, Access.READ, Access.WRITE,
        Path("a"), PureWindowsPath("a"), Pair(1, 2), Pair(2, 1), Level.LOW, Word.MOON,
    ]  # fmt: skip
    assert len(set(partition(keys, MANY))) == len(keys)


@dataclass(frozen=True)
class Noted:
    name: str
    note: str = field(default="", compare=False)


def test_fields_that_do_not_compare_are_no_part_of_a_key() -> None:
    assert len(set(partition([Noted("a", "x"), Noted("a", "y")], MANY))) == 1


@dataclass(frozen=True)
class CaseBlind:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaseBlind) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        (Order("a"), "frozen=True"),
        (CaseBlind("a"), "key_by(lambda"),
        (Animal.DOG, "key_by(lambda"),
        (collections.OrderedDict(), "key_by(lambda"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_key(key: Any, hint: str) -> None:
    with pytest.raises(KeyExtractError, match=r"cannot be a key") as raised:
        partition([key], 2)
    assert hint in str(raised.value)
    assert roundtrip(key) == [key]


def test_native_aggregates_take_objects_as_keys() -> None:
    records = [
        (Point(1, 2), 1), (Point(1.0, 2), 1), (Color.RED, 1), (Pair(1, 2), 1), ((1, 2), 1),
        (Level.HIGH, 1), (2, 1), (Word.MOON, 1), ("moon", 1), (Color.BLUE, 1),
    ]  # fmt: skip
    counts = Aggregate([[0]], [("count", [])])
    updates = counts.update(Batch.from_list(records))
    expected = collections.Counter(key for key, _ in records)
    assert dict(updates) == expected
    assert [type(key) for key, _ in updates] == [Point, Color, Pair, Level, Word, Color]
    assert Aggregate([[0]], [("sum", [1])]).update(Batch.from_list([Pair("a", 2)])) == [("a", 2)]
    assert Aggregate([[0]], [("first", [-1])]).update(Batch.from_list([Pair("a", Color.RED)])) == [
        ("a", Color.RED)
    ]


def test_items_of_a_named_tuple_are_keys() -> None:
    sums = Aggregate([[0]], [("sum", [1])])
    assert sums.update(Batch.from_list([Pair("a", 1), ("a", 2), Old("b", 3)])) == [
        ("a", 3),
        ("b", 3),
    ]


@pytest.fixture
def untrusted() -> Iterator[None]:
    before = record_registry.is_trusted()
    record_registry.trust(False)
    yield
    record_registry.trust(before)


def named(code: int, *parts: Any) -> bytes:
    """An object as any sender could write it."""
    content = b"".join(Batch.from_list([part]).__reduce__()[1][0][0][1] for part in parts)
    payload = bytes([0x90 | len(parts)]) + content
    return b"\xc7" + bytes([len(payload), code]) + payload


@pytest.mark.usefixtures("untrusted")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (named(7, "antigravity:fly"), "not imported here"),
        (named(7, "tests.no_such:Thing", 1), "leave encryption on"),
        (named(7, "builtins:eval", "1"), "not imported here"),
        (named(7, "builtins:object"), "expected a dataclass"),
        (named(39, "subprocess:Popen", ["true"]), "expected a dataclass"),
        (named(40, "subprocess:Popen", {"args": "true"}), "expected a dataclass"),
        (named(7, "datetime:date", 1, 2, 3), "expected a dataclass"),
        (named(7, 123_456), "was not told of"),
        (named(7, -100), "was not told of"),
        (named(7, None), "without a name"),
        (named(7, ("a", "b")), "without a name"),
        (named(7), "without a class"),
        (b"\xc7\x01\x07\x01", "without a class"),
        (b"\xc7\x03\x29abc", "not encrypted"),
        (named(41), "not encrypted"),
    ],
)
def test_bytes_make_no_objects_of_classes_that_nobody_told_of(data: bytes, reason: str) -> None:
    modules = set(sys.modules)
    with pytest.raises(DecodeError, match=reason):
        Batch.from_bytes(data, 1).to_list()
    assert set(sys.modules) <= modules | {"engine.record.pickles"}


@pytest.mark.parametrize(
    ("code", "kind", "parts"),
    [
        (7, Point, ()),
        (7, Point, (1,)),
        (7, Point, (1, 2, 3)),
        (39, Point, (1, 2)),
        (40, Point, (1,)),
        (40, Point, ({1: 2},)),
        (40, Point, ()),
        (7, Order, ("a", 1.0, [])),
        (5, Pair, (1,)),
        (6, Pair, (1, 2)),
        (39, OldWithDict, (1, 2)),
        (7, Color, ("GREEN",)),
        (7, Color, (["GREEN"],)),
        (7, Color, ()),
        (6, Level, (3, 3)),
        (7, Access, ("x",)),
        (39, collections.deque, (1, 2)),
        (39, collections.defaultdict, ("object", {})),
        (39, collections.defaultdict, (("os:system",), {})),
        (39, collections.OrderedDict, (5,)),
        (39, PurePosixPath, (5,)),
        (39, PurePosixPath, (None,)),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_parts_that_a_class_does_not_have_are_refused(
    code: int, kind: type, parts: tuple[Any, ...]
) -> None:
    with pytest.raises(DecodeError):
        Batch.from_bytes(named(code, record_registry.reference(kind), *parts), 1).to_list()


def test_a_member_that_came_in_other_bytes_goes_in_its_own() -> None:
    reference = record_registry.reference(Level)
    (arrived,) = Batch.from_bytes(named(6, reference, "HIGH", 77), 1).to_list()
    assert arrived is Level.HIGH
    counts = Aggregate([[]], [("count", [])])
    assert counts.update(Batch.from_list([Level.HIGH, 2])) == [(2, 2)]


def test_a_class_that_takes_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = types.ModuleType("cell")
    monkeypatch.setitem(sys.modules, "cell", cell)
    for fields in ["a: int", "b: int", "a: int; b: int = 2"]:
        exec(f"from dataclasses import dataclass\n@dataclass\nclass Event: {fields}", vars(cell))
        (arrived,) = roundtrip(cell.Event(1))
        assert type(arrived) is cell.Event
        assert arrived == cell.Event(1)
