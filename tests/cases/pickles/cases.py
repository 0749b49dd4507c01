# ruff: noqa: B018, B019, PIE796, PTH118, PTH123, RUF012, RUF023, UP007, UP033, UP045
"""What functions of a script refer to: the cases of cloudpickle's own suite, and those beside them.

It is run as a script, by `oka run`, and as a module of a package. `CASES` has a function without
arguments for each, which gives a value that tells whether all is there, and `OBJECTS` what travels
in records. `REFUSED` has functions that no other process can be given, with what the error names.
`python cases.py FILE` writes the pickles of the cases, and what each gives here.
"""

import abc
import asyncio
import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import logging
import operator
import os.path
import random
import re
import sqlite3
import string
import sys
import tempfile
import threading
import types
import typing
import weakref
import xml.etree.ElementTree
from collections import OrderedDict, defaultdict, namedtuple
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np

from operators import source
from operators.sinks import Collect
from operators.sources import Collection, HttpSource

CASES = {}
T = TypeVar("T")
N = TypeVar("N", bound=int)


def case(function):
    CASES[function.__name__] = function
    return function


# Functions


def plus_one(n):
    return n + 1


CASES["a_lambda"] = lambda: plus_one(1)


@case
def nested_lambdas():
    a, b = 1, 2
    first = lambda x: x + a  # noqa: E731
    return (lambda x: first(x) // b)(3)


def made(base):
    def inner(n):
        return base if n <= 1 else n * inner(n - 1)

    return inner


factorial = made(2)


@case
def a_recursive_closure():
    return factorial(5)


def unbound():
    if False:
        cell = None

    def inner():
        try:
            return cell
        except NameError:
            return "no value"

    return inner


empty_cell = unbound()


@case
def an_empty_cell():
    return empty_cell()


def closed_over():
    numbers = {1, 2}
    return lambda: len(numbers)


unhashable = closed_over()


@case
def an_unhashable_closure():
    return unhashable()


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@case
def mutual_recursion():
    return is_even(10), is_odd(10)


@functools.lru_cache
def cached(n):
    return n * 2


@functools.lru_cache(maxsize=3, typed=True)
def fibonacci(n):
    """Of n."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.cache
def constant():
    return object()


cached(1)


@case
def an_lru_cache():
    cached(3), cached(3)
    return cached(4), cached.cache_info().hits >= 1, cached.__name__, cached.__wrapped__(1)


@case
def a_recursive_lru_cache():
    typed = fibonacci.cache_parameters()
    return fibonacci(20), typed, fibonacci.__doc__, constant() is constant()


@functools.singledispatch
def kind(value):
    return "any"


@kind.register
def _(value: int):
    return f"int {value}"


@kind.register(str)
@kind.register(bytes)
def _(value):
    return "text"


@case
def a_singledispatch():
    return kind(1), kind("a"), kind(b"a"), kind(True), kind(1.5), kind.dispatch(int)(3)


def shouted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs).upper()

    return wrapper


@shouted
def said(word: str = "a", *, twice: bool = False) -> str:
    """What was said."""
    return word * (2 if twice else 1)


@case
def a_decorator_with_wraps():
    return said("b", twice=True), said.__name__, said.__doc__, sorted(said.__annotations__)


times_three = functools.partial(operator.mul, 3)
of_partial = functools.partial(said, "p", twice=True)


@case
def partials():
    return times_three(4), of_partial(), functools.partial(min, 1)(4)


@case
def a_partialmethod():
    return Methods(3).added_two()


def positional(a, /, b=1, *rest, c, d=2, **more):
    return a, b, rest, c, d, more


@case
def kinds_of_arguments():
    return positional(1, 2, 3, c=4, e=5), positional.__kwdefaults__


def numbers(n):
    yield from range(n)


@case
def a_generator():
    return list(numbers(3)), sum(n for n in numbers(4))


async def awaited(n):
    await asyncio.sleep(0)
    return n + 1


async def many(n):
    for each in range(n):
        yield await awaited(each)


async def collected():
    return [each async for each in many(3)]


@case
def coroutines():
    return asyncio.run(awaited(1)), asyncio.run(collected())


@contextmanager
def entered(word):
    yield word + "!"


@case
def a_context_manager():
    with entered("in") as word:
        return word


def attributed():
    return attributed.calls


attributed.calls = 7


@case
def attributes_of_a_function():
    return attributed()


counter = 0


@case
def a_global_that_changes():
    global counter
    counter += 1
    return counter >= 1


@case
def nested_functions():
    def outer():
        def inner():
            return plus_one(len(string.ascii_lowercase))

        return inner

    return outer()()


if __name__ == "__main__":

    def conditional():
        return "defined under an if"

else:

    def conditional():
        return "defined under an else"


@case
def a_function_under_an_if():
    return conditional()


exec("def executed(n):\n    return plus_one(n) * 2\n")


@case
def a_function_of_exec():
    return executed(1)  # noqa: F821


namespace = {"k": 5}
exec("import zlib\ndef elsewhere(n):\n    return n + k + len(zlib.compress(b''))\n", namespace)
elsewhere = namespace["elsewhere"]


@case
def a_function_of_a_namespace_of_its_own():
    return elsewhere(1)


evaluated = eval("lambda n: n * 3")


@case
def a_function_of_eval():
    return evaluated(2)


# Of Python and its library


@case
def getters():
    get = operator.itemgetter(1), operator.attrgetter("real"), operator.methodcaller("upper")
    return get[0]("ab"), get[1](3), get[2]("a")


item, items = operator.itemgetter(1), operator.itemgetter(0, 2)
attribute, nested_attribute = operator.attrgetter("n"), operator.attrgetter("inner.n", "n")
call = operator.methodcaller("split", ",", maxsplit=1)


@case
def getters_of_the_module():
    holder = types.SimpleNamespace(n=1, inner=types.SimpleNamespace(n=2))
    return item("abc"), items("abc"), attribute(holder), nested_attribute(holder), call("a,b,c")


upper, zipped, hexadecimal, represented = str.upper, zip, (1.5).hex, (1.5).__repr__
from_hex, translation, new = float.fromhex, str.maketrans, list.__new__
appended, real, in_dict = [].append, float.real, {"a": 1}.get


@case
def builtin_functions_and_methods():
    made = translation("a", "b"), new(list), list(zipped("ab", "cd"))
    return upper("a"), hexadecimal(), represented(), from_hex("0x1"), made, real is float.real


@case
def methods_of_builtin_objects():
    appended(1)
    return in_dict("a"), in_dict("b")


special = None, ..., NotImplemented, type(None), type(...), type(NotImplemented)


@case
def singletons():
    return special[1] is ..., special[2] is NotImplemented, [each.__name__ for each in special[3:]]


plain, ordered = {"a": 1, "b": 2}, OrderedDict(a=1, b=2)
views = plain.keys(), plain.values(), plain.items()
ordered_views = ordered.keys(), ordered.values(), ordered.items()
proxy = types.MappingProxyType({"a": 1})


@case
def views_of_dicts():
    return [sorted(each) for each in (*views, *ordered_views)], dict(proxy)


viewed = memoryview(b"Hello!" * 3)[2:15:2]


@case
def a_memoryview():
    return bytes(viewed)


pattern = re.compile(r"(?P<word>\w+)-(\d+)", re.IGNORECASE)


@case
def a_regular_expression():
    found = pattern.match("ab-12")
    return found["word"], found[2]


@case
def submodules():
    return xml.etree.ElementTree.fromstring("<a><b/></a>")[0].tag, os.path.join("a", "b")


def local_import():
    import json.encoder as encoder

    return lambda: encoder.JSONEncoder().encode({"a": [1]})


encoding = local_import()


@case
def a_module_in_a_closure():
    return encoding()


module = types.ModuleType("made_here")
exec(
    "x = 1\ndef f(y):\n    return x + y\nclass C:\n    def m(self, y):\n        return f(y)\n",
    vars(module),
)


@case
def a_module_that_was_made_here():
    return module.x, module.f(5), module.C().m(6)


logger = logging.getLogger("some.logger")
root = logging.getLogger()


@case
def loggers():
    logger.debug("nobody reads it")
    return logger.name, logger is logging.getLogger(logger.name), root is logging.getLogger()


@case
def numpy_functions_and_arrays():
    return (
        ufunc(array, 1).tolist(),
        vectorized(array).tolist(),
        str(dtype),
        random_numbers.integers(1),
    )


ufunc, array, dtype = np.add, np.arange(3), np.dtype([("a", "i4"), ("b", "f8")])
random_numbers = np.random.default_rng(0)
vectorized = np.vectorize(plus_one)


@case
def values_of_the_library():
    return (
        times[0].isoformat(),
        str(times[1]),
        price + 1,
        ratio * 2,
        where.name,
        next(counted),
        rng.random(),
    )


times, price, ratio = (
    (datetime(2026, 1, 1, tzinfo=timezone.utc), timedelta(1)),
    Decimal("1.10"),
    Fraction(1, 3),
)
where, counted, rng = Path("a") / "b", itertools.count(5), random.Random(3)


@case
def type_hints():
    return typing.get_type_hints(hinted)["return"] == list[int], str(union), T.__name__, N.__bound__


def hinted(n: "int", more: typing.Optional[str] = None) -> list[int]: ...


union = typing.Union[list, int]
standard_error = sys.stderr


@case
def standard_streams():
    return standard_error.fileno() == 2


# Classes


class Methods:
    """Has methods of each kind."""

    made = 0

    def __init__(self, n):
        self.n = n

    def add(self, k):
        return self.n + k

    added_two = functools.partialmethod(add, 2)

    @classmethod
    def named(cls, n):
        return cls.__name__, cls(n).n

    @staticmethod
    def static(n):
        return n * 2

    @property
    def double(self):
        return self.n * 2

    @double.setter
    def double(self, value):
        self.n = value // 2

    @functools.cached_property
    def costly(self):
        return self.n * 100

    @functools.lru_cache(maxsize=None)
    def remembered(self, k):
        return self.n * k

    @functools.singledispatchmethod
    def shown(self, value):
        return "any"

    @shown.register
    def _(self, value: int):
        return "int"


bound, bound_class, static = Methods(4).add, Methods.named, Methods.static
unbound_method = Methods.add
instance = Methods(1)
instance.costly


@case
def methods():
    changed = Methods(1)
    changed.double = 8
    return (
        bound(1),
        bound_class(2),
        static(3),
        unbound_method(Methods(5), 1),
        changed.n,
        Methods.__doc__,
    )


@case
def a_cached_property():
    return Methods(3).costly, instance.costly, vars(instance)


@case
def an_lru_cache_of_a_method():
    return Methods(3).remembered(4), Methods.remembered.cache_parameters()


@case
def a_singledispatchmethod():
    return Methods(1).shown(3), Methods(1).shown("a")


class Base:
    registered: typing.ClassVar[list] = []

    def __init_subclass__(cls, tag=None, **settings):
        super().__init_subclass__(**settings)
        cls.tag = tag
        Base.registered.append(cls.__name__)

    def method(self):
        return 1


class Derived(Base, tag="d"):
    "Derived."

    def method(self):
        return super().method() + 1


@case
def super_and_init_subclass():
    return (
        Derived().method(),
        Derived.tag,
        Derived.__doc__,
        Base.registered,
        Derived.__mro__[1] is Base,
    )


class Meta(type):
    def __new__(mcs, name, bases, namespace, **settings):
        made = super().__new__(mcs, name, bases, namespace)
        made.settings = settings
        return made

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.by_meta = True
        return made

    def __len__(cls):
        return 42


class WithMeta(metaclass=Meta, size=3):
    def __init__(self, n):
        self.n = n


@case
def a_metaclass():
    return WithMeta(1).by_meta, len(WithMeta), WithMeta.settings, type(WithMeta) is Meta


class Abstract(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @classmethod
    @abc.abstractmethod
    def named(cls): ...

    @property
    @abc.abstractmethod
    def name(self): ...


class Concrete(Abstract):
    def area(self):
        return 2

    @classmethod
    def named(cls):
        return cls.__name__

    @property
    def name(self):
        return "concrete"


Abstract.register(tuple)


@case
def abstract_classes():
    try:
        Abstract()
    except TypeError:
        refused = True
    made = Concrete()
    return (
        refused,
        made.area(),
        made.name,
        Concrete.named(),
        issubclass(tuple, Abstract),
        isinstance(made, Abstract),
    )


class HasArea(Protocol):
    def area(self) -> int: ...


@typing.runtime_checkable
class Checkable(Protocol):
    n: int

    def area(self) -> int: ...


@case
def protocols():
    return isinstance(Concrete(), Checkable), isinstance(Square(2), Checkable), HasArea.__name__


class Box(Generic[T]):
    def __init__(self, content: T) -> None:
        self.content = content


class IntBox(Box[int]):
    pass


of_int = Box[int]


@case
def generic_classes():
    return (
        Box[int](3).content,
        IntBox(4).content,
        of_int(5).content,
        IntBox.__orig_bases__[0] == Box[int],
        Box.__parameters__ == (T,),
    )


class Slotted:
    __slots__ = ("a", "__weakref__", "b")

    def __init__(self, a):
        self.a = a


class SlottedToo(Slotted):
    __slots__ = "c"

    def __init__(self, a, c):
        super().__init__(a)
        self.c = c


slotted = SlottedToo(1, 2)


@case
def slots():
    try:
        SlottedToo(1, 2).d = 3
    except AttributeError:
        return slotted.a, slotted.c, hasattr(slotted, "b"), SlottedToo.__slots__


class Described:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner=None):
        return self if obj is None else obj.__dict__.get(self.name, "unset")

    def __set__(self, obj, value):
        obj.__dict__[self.name] = value


class HasDescriptor:
    field = Described()


@case
def descriptors():
    has = HasDescriptor()
    before, has.field = has.field, 3
    return before, has.field, HasDescriptor.field.name


class Outer:
    class Inner:
        class Innermost:
            n = 3

        def outer(self):
            return Outer.Inner.Innermost.n, __class__.__qualname__

    me = None


Outer.me, Outer.instance = Outer, Outer()


@case
def nested_classes_and_cycles():
    names = Outer.Inner.__qualname__, Outer.Inner.Innermost.__qualname__, Local.__qualname__
    return Outer.Inner().outer(), Outer.me is Outer, type(Outer.instance) is Outer, names


def local_class(k):
    class Local:
        def __init__(self, n):
            self.n = n

        def sum(self):
            return self.n + k

    return Local


Local = local_class(10)


@case
def a_local_class():
    return Local(1).sum(), isinstance(Local(1), Local)


Dynamic = type("Dynamic", (Methods,), {"extra": lambda self: self.n + 1})


@case
def a_class_that_type_made():
    return Dynamic(1).extra(), Dynamic.named(2)


class Failure(Exception):
    def __init__(self, code, *, detail=""):
        super().__init__(code)
        self.detail = detail


failure = Failure(3, detail="d")


@case
def exceptions():
    try:
        raise Failure(4, detail="more")
    except Failure as error:
        return error.args, error.detail, failure.args, failure.detail


class Text(str):
    def loud(self):
        return self.upper()


class Numbers(list):
    total = property(sum)


class Defaults(dict):
    def __missing__(self, key):
        return key * 2


text, subclassed, missing = Text("a"), Numbers([1, 2]), Defaults(a=1)


@case
def subclasses_of_builtin_types():
    return text.loud(), subclassed.total, missing["b"], missing["a"], Text("b").loud()


class Reduced:
    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return Reduced, (self.n + 1,)


class Stateful:
    def __init__(self):
        self.lock = threading.Lock()
        self.n = 3

    def __getstate__(self):
        return {"n": self.n}

    def __setstate__(self, state):
        self.__dict__.update(state, lock=threading.Lock())


reduced, stateful = Reduced(1), Stateful()


@case
def pickling_of_ones_own():
    return reduced.n >= 1, stateful.n, stateful.lock.acquire(blocking=False)


class Greedy:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


greedy = Greedy()


@case
def getattr_that_gives_all():
    return greedy.anything


class Callable:
    def __init__(self):
        self.calls = 0

    def __call__(self, n):
        self.calls += 1
        return n, self.calls >= 1


callable_object = Callable()


@case
def a_callable_object():
    return callable_object(3)


class Tracked:
    all: ClassVar[Any] = weakref.WeakSet()

    def __init__(self):
        Tracked.all.add(self)


tracked = Tracked()


@case
def a_weakset():
    return tracked in Tracked.all


# Data classes and the like


@dataclass
class Point:
    x: int
    y: int = 2
    tags: list = field(default_factory=list)
    kind: ClassVar[str] = "point"
    scale: InitVar[int] = 1

    def __post_init__(self, scale):
        self.x *= scale

    @property
    def length(self):
        return self.x + self.y

    @functools.cached_property
    def squared(self):
        return self.x**2


@dataclass(frozen=True, order=True)
class Frozen:
    n: int
    word: str = "w"


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    n: int


@dataclass(slots=True, kw_only=True)
class SlotsOnly:
    n: int
    more: tuple = ()


@dataclass(kw_only=True)
class Child(Point):
    z: int = 3


@dataclass
class Square(Generic[T]):
    n: T

    def area(self):
        return self.n**2


Made = dataclasses.make_dataclass(
    "Made", [("x", int), ("y", int, 5)], namespace={"sum": lambda self: self.x + self.y}
)


@case
def dataclass_forms():
    made = (
        Point(3, scale=2),
        Frozen(1),
        FrozenSlots(2),
        SlotsOnly(n=3),
        Child(x=1, z=4),
        Square(3),
        Made(1),
    )
    return (
        [repr(each) for each in made],
        made[0].length,
        made[0].squared,
        made[5].area(),
        made[6].sum(),
        Point.kind,
    )


@case
def dataclass_tools():
    point = Point(3, tags=[1])
    names = [(each.name, each.default is dataclasses.MISSING) for each in dataclasses.fields(Child)]
    frozen = dataclasses.replace(Frozen(1), n=5)
    return (
        dataclasses.asdict(point),
        names,
        frozen < Frozen(6),
        hash(frozen) == hash(Frozen(5)),
        point == Point(3, tags=[1]),
    )


class Pair(NamedTuple):
    a: int
    b: str = "b"

    def joined(self):
        return f"{self.a}{self.b}"


Old = namedtuple("Old", "x y", defaults=[0])


@case
def named_tuples():
    return (
        Pair(1).joined(),
        Pair(1)._replace(b="c"),
        Old(1),
        Old._fields,
        Pair(1) == (1, "b"),
        type(Pair(1)) is Pair,
    )


class Movie(TypedDict, total=False):
    title: str
    year: int


@case
def a_typed_dict():
    return Movie(title="a"), sorted(Movie.__annotations__), Movie.__total__


@dataclass
class Ask:
    n: int
    more: "Frozen | None" = None
    words: list["str"] = field(default_factory=list)


asks = HttpSource(schema=Ask)


@case
def a_dataclass_as_a_schema():
    return asks._adapter.validate_json(b'{"n": 3, "more": {"n": 4}}')


# Enums


class Color(enum.Enum):
    """Of things."""

    RED = 1
    BLUE = "b"
    CRIMSON = 1

    @property
    def title(self):
        return self.name.title()

    @classmethod
    def default(cls):
        return cls.RED


class Planet(enum.Enum):
    EARTH = (5.97, 6.37)
    MARS = (0.642, 3.39)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    @property
    def density(self):
        return round(self.mass / self.radius, 3)


class Coordinate(bytes, enum.Enum):
    def __new__(cls, value, label):
        made = bytes.__new__(cls, [value])
        made._value_ = value
        made.label = label
        return made

    def __repr__(self):
        return self.label

    PX = (0, "x")
    PY = (1, "y")


class Labelled(enum.IntEnum):
    def __new__(cls, value, label):
        made = int.__new__(cls, value)
        made._value_ = value
        made.label = label
        return made

    LOW = 1, "low"
    HIGH = 2, "high"


class Numbered(enum.Enum):
    def __new__(cls):
        made = object.__new__(cls)
        made._value_ = len(cls.__members__) + 10
        return made

    FIRST = ()
    SECOND = ()


class Lower(str, enum.Enum):
    @staticmethod
    def _generate_next_value_(name, start, count, last_values):
        return name.lower()

    ONE = enum.auto()
    TWO = enum.auto()

    @classmethod
    def _missing_(cls, value):
        return cls.ONE if value == "eins" else None


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 3


class Permission(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Mode(enum.IntFlag):
    R = 4
    W = 2
    X = 1
    RWX = 7


class Operation(enum.Enum):
    ADD = {"by": plus_one}
    SUBTRACT = [1, 2]

    def __str__(self):
        return f"op {self.name}"


@enum.unique
class Unique(enum.Enum):
    A = 1


class Mixin:
    def greet(self):
        return f"I am {self.name}"


class Mixed(Mixin, enum.Enum):
    ME = 1


Functional = enum.Enum("Functional", "A B C")
FunctionalInt = enum.IntEnum("FunctionalInt", {"RED": 1, "GREEN": 2})
Empty = enum.Enum("Empty", [])


class DerivedEnum(Mixin, enum.Enum):
    def shout(self):
        return self.value.upper()


class OfDerived(DerivedEnum):
    X = "x"


@dataclass(frozen=True)
class Weights:
    mass: int


class OfDataclass(Weights, enum.Enum):
    LIGHT = 1
    HEAVY = 9


@case
def enums():
    members = Color.RED, Color("b"), Color["CRIMSON"], Color.default(), Color.RED.title
    return (
        [str(each) for each in members],
        Color.CRIMSON is Color.RED,
        list(Color.__members__),
        len(Color),
        Color.__doc__,
    )


@case
def an_enum_with_init():
    return (
        Planet.EARTH.mass,
        Planet.MARS.density,
        Planet((0.642, 3.39)) is Planet.MARS,
        Planet.MARS.value,
    )


@case
def enums_with_new():
    made = (
        Coordinate.PY.label,
        Coordinate(1) is Coordinate.PY,
        bytes(Coordinate.PY),
        Labelled.HIGH.label,
    )
    return (
        made,
        Labelled(2) is Labelled.HIGH,
        Labelled.HIGH + 1,
        Numbered.SECOND.value,
        Numbered(11) is Numbered.SECOND,
    )


@case
def an_enum_of_generated_values():
    return Lower.TWO.value, Lower("eins") is Lower.ONE, Lower.ONE == "one", Lower.ONE.upper()


@case
def int_enums():
    return (
        Size.LARGE > Size.SMALL,
        Size(3) is Size.LARGE,
        Size.SMALL + 1,
        int(FunctionalInt.GREEN),
        isinstance(Size.SMALL, int),
    )


@case
def flags():
    both = Permission.READ | Permission.WRITE
    return (
        both is Permission.BOTH,
        Permission.READ in both,
        (~Permission.READ).value,
        Permission(0).value,
        (both & Permission.READ).name,
    )


@case
def int_flags():
    return (
        int(Mode.R | Mode.W),
        Mode.R in Mode.RWX,
        Mode(6).value,
        Mode.RWX.name,
        int(Mode(8)),
        int(~Mode.R),
        (Mode.RWX ^ Mode.X) == Mode.R | Mode.W,
    )


@case
def enums_of_any_value():
    return (
        Operation.ADD.value["by"](1),
        Operation.SUBTRACT.value,
        str(Operation.ADD),
        Operation([1, 2]) is Operation.SUBTRACT,
    )


@case
def enums_of_other_kinds():
    return (
        Unique.A.value,
        Mixed.ME.greet(),
        Functional.B.value,
        list(Empty),
        OfDerived.X.shout(),
        OfDerived.X.greet(),
    )


@case
def an_enum_of_a_dataclass():
    return OfDataclass.HEAVY.mass, OfDataclass.LIGHT.name, isinstance(OfDataclass.LIGHT, Weights)


# What travels in records: of these classes, each the key of another

OBJECTS = {
    "frozen": (lambda n: Frozen(n % 3), True),
    "frozen_slots": (lambda n: FrozenSlots(n % 3), True),
    "point": (lambda n: Point(n, tags=[n]), False),
    "slots": (lambda n: SlotsOnly(n=n), False),
    "child": (lambda n: Child(x=n), False),
    "generic": (lambda n: Square[int](n), False),
    "made": (lambda n: Made(n), False),
    "pair": (lambda n: Pair(n % 3), True),
    "old": (lambda n: Old(n % 3), True),
    "color": (lambda n: (Color.RED, Color.BLUE)[n % 2], True),
    "planet": (lambda n: (Planet.EARTH, Planet.MARS)[n % 2], True),
    "coordinate": (lambda n: (Coordinate.PX, Coordinate.PY)[n % 2], False),
    "labelled": (lambda n: (Labelled.LOW, Labelled.HIGH)[n % 2], True),
    "numbered": (lambda n: (Numbered.FIRST, Numbered.SECOND)[n % 2], True),
    "lower": (lambda n: (Lower.ONE, Lower.TWO)[n % 2], True),
    "size": (lambda n: (Size.SMALL, Size.LARGE)[n % 2], True),
    "permission": (lambda n: Permission(n % 4), True),
    "mode": (lambda n: Mode(n % 8), True),
    "operation": (lambda n: (Operation.ADD, Operation.SUBTRACT)[n % 2], True),
    "mixed": (lambda n: Mixed.ME, True),
    "functional": (lambda n: (Functional.A, Functional.B)[n % 2], True),
    "weights": (lambda n: (OfDataclass.LIGHT, OfDataclass.HEAVY)[n % 2], False),
    "defaults": (lambda n: defaultdict(Point, {n: Point(n)}), False),
}
"""What makes one of a number, and whether it is a key."""

# What cannot be sent

lock, reentrant, condition, event = (
    threading.Lock(),
    threading.RLock(),
    threading.Condition(),
    threading.Event(),
)
local_data, thread = threading.local(), threading.Thread(target=plus_one)
variable = contextvars.ContextVar("variable", default=3)
opened, database = open(os.devnull, "w"), sqlite3.connect(":memory:")  # noqa: SIM115
generator, weak, frame = numbers(3), weakref.ref(tracked), sys._getframe()


class HasLock:
    def __init__(self):
        self.guard = threading.Lock()


has_lock = HasLock()
binary, temporary = open(os.devnull, "rb"), tempfile.TemporaryFile()  # noqa: SIM115

REFUSED = {
    "lock": (lambda n: lock, "variable 'lock' (lock)"),
    "reentrant": (lambda n: reentrant, "variable 'reentrant' (RLock)"),
    "condition": (lambda n: condition, "variable 'condition' (Condition)"),
    "event": (lambda n: event, "variable 'event' (Event)"),
    "local_data": (lambda n: local_data, "variable 'local_data' (_local)"),
    "thread": (lambda n: thread, "variable 'thread' (Thread)"),
    "opened": (lambda n: opened, "variable 'opened' (TextIOWrapper)"),
    "binary": (lambda n: binary, "variable 'binary' (BufferedReader)"),
    "temporary": (lambda n: temporary, "variable 'temporary' (BufferedRandom)"),
    "database": (lambda n: database, "variable 'database' (Connection)"),
    "generator": (lambda n: generator, "variable 'generator' (generator)"),
    "weak": (lambda n: weak(), "variable 'weak' (ReferenceType)"),
    "frame": (lambda n: frame, "variable 'frame' (frame)"),
    "variable": (lambda n: variable.get(), "variable 'variable' (ContextVar)"),
    "has_lock": (lambda n: has_lock, "variable 'guard' (lock) of variable 'has_lock' (HasLock)"),
}


def told(value):
    """The value as a text that is the same in each process."""
    return (
        re.sub(r" at 0x[0-9a-f]+", "", repr(value))
        .replace(__name__ + ".", "")
        .replace("__main__.", "")
    )


def expected():
    return {name: told(function()) for name, function in CASES.items()}


def pipeline():
    """All cases in one job: functions behind a shuffle, and objects as records and as keys."""
    names = source(Collection(list(CASES)))
    found = names.rebalance().map(lambda name: (name, told(CASES[name]()))).sink(Collect())
    numbers = source(Collection([(name, n) for name in OBJECTS for n in range(6)]))
    objects = numbers.map(lambda each: (each[0], each[1], OBJECTS[each[0]][0](each[1])))
    there = objects.rebalance().map(lambda each: (*each, OBJECTS[each[0]][0](each[1]) == each[2]))
    keys = objects.filter(lambda each: OBJECTS[each[0]][1]).key_by(lambda each: (each[0], each[2]))
    return [
        found.named("cases"),
        there.rebalance().sink(Collect()).named("objects"),
        keys.reduce(lambda a, b: (*a[:2], a[2])).sink(Collect()).named("reduced"),
        keys.count(emit="final").sink(Collect()).named("counted"),
    ]


def check(outputs):
    """Raise AssertionError with what differs."""
    found, right = dict(outputs["cases"]), expected()
    differ = {
        name: (found.get(name), right[name]) for name in right if found.get(name) != right[name]
    }
    assert not differ, differ
    wrong = [
        each
        for each in outputs["objects"]
        if not each[3] or OBJECTS[each[0]][0](each[1]) != each[2]
    ]
    assert len(outputs["objects"]) == 6 * len(OBJECTS), outputs["objects"]
    assert not wrong, wrong
    counts = collections.Counter(
        (name, make(n)) for name, (make, is_key) in OBJECTS.items() if is_key for n in range(6)
    )
    assert dict(outputs["counted"]) == counts, outputs["counted"]


if __name__ == "__main__":
    import pickle

    import engine
    from engine.record import code_pickle

    if len(sys.argv) > 1:
        pickles = {name: code_pickle.dumps((function, told)) for name, function in CASES.items()}
        Path(sys.argv[1]).write_bytes(pickle.dumps((pickles, expected())))
    else:
        check(engine.execute(pipeline(), parallelism=2, progress="none").outputs)
        print("equal")
