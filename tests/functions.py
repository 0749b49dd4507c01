"""Functions of users at random, as source text, and values for them: for tests of what is lifted.

    function = generate(Random(7))
    print(function.source)
    f = function.compiled()
    f(*function.values(Random(8)))

Most functions are ones that `lift` takes, and most values have the shape that the function expects:
the others are of any kind, and at the edges of what Rust and Arrow hold.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from tests.writing import Writer

Shape: TypeAlias = Any
"""Of a value: "number", "text", "flag", "any", ("tuple", …), ("list", …) or ("dict", {…})."""


@dataclass(frozen=True)
class Function:
    """A function that was made at random."""

    source: str
    shapes: tuple[Shape, ...]

    @property
    def arguments(self) -> int:
        return len(self.shapes)

    def compiled(self) -> Callable[..., Any]:
        """The function itself."""
        names: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as `is` with a literal
            exec(compile(self.source, "<generated>", "exec"), names)
        function: Callable[..., Any] = names["function"]
        return function

    def values(self, random: Random) -> tuple[Any, ...]:
        """Arguments for one call."""
        if random.random() < 0.1:
            return tuple(value(random) for _ in self.shapes)
        return tuple(of_shape(random, shape) for shape in self.shapes)


def generate(random: Random, arguments: int = 1) -> Function:
    """A function of so many arguments, which all have one shape."""
    shape = random.choice(_SHAPES) if random.random() < 0.7 else _random_shape(random, 2)
    return Function(Writer(random, (shape,) * arguments).source(), (shape,) * arguments)


def of_shape(random: Random, shape: Shape) -> Any:
    """A value of a shape; rarely a part of it is something else."""
    if random.random() < 0.02:
        return value(random)
    match shape:
        case "number":
            return number(random)
        case "text":
            return text(random)
        case "flag":
            return random.random() < 0.5
        case "any":
            return value(random)
        case ("tuple", shapes):
            return tuple(of_shape(random, of) for of in shapes)
        case ("list", of):
            return [of_shape(random, of) for _ in range(random.choice((0, 1, 2, 2, 3, 5)))]
        case ("dict", fields):
            names = list(fields)
            if random.random() < 0.1:
                random.shuffle(names)
            if random.random() < 0.03 and names:
                names.pop()
            return {name: of_shape(random, fields[name]) for name in names}
    raise AssertionError(shape)


def number(random: Random) -> Any:
    """An int or a float, many at an edge."""
    kind = random.random()
    if kind < 0.45:
        return random.randint(-3, 120)
    if kind < 0.7:
        return random.choice((0.5, 1.0, -2.5, 99.99, random.random() * 100, random.gauss(0, 1e3)))
    return random.choice(_INTS if kind < 0.85 else _FLOATS)


def text(random: Random) -> str:
    """A text, many with letters that Rust and Python must see the same way."""
    kind = random.random()
    if kind < 0.5:
        return random.choice(_WORDS)
    if kind < 0.75:
        return " ".join(random.choices(_WORDS, k=random.randrange(5)))
    return "".join(random.choices(_LETTERS, k=random.randrange(7)))


def value(random: Random, depth: int = 2) -> Any:
    """Any value."""
    kind = random.randrange(12 if depth else 7)
    if kind < 2:
        return number(random)
    if kind < 4:
        return text(random)
    if kind == 4:
        return random.random() < 0.5
    if kind == 5:
        return None
    if kind == 6:
        return random.choice(_OTHERS)(random)
    items = [value(random, depth - 1) for _ in range(random.randrange(4))]
    if kind < 9:
        return tuple(items)
    if kind < 10:
        return items
    keys: list[Any] = [random.choice(_KEYS) for _ in items]
    return dict(zip(keys, items, strict=True))


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same for everybody: types, order, signs of zeros and all."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(map(same, left.items(), right.items()))
    return repr(left) == repr(right)


class Text(str):
    """A text with methods of its own."""

    def lower(self) -> str:
        return "mine"

    def __len__(self) -> int:
        return 77


class Number(int):
    """A number that adds otherwise."""

    def __add__(self, other: Any) -> Any:
        return "added"


class Mapping(dict[Any, Any]):
    """A dict that has every key."""

    def __missing__(self, key: Any) -> Any:
        return key


class Pair(tuple[Any, ...]):
    """A tuple with items of its own."""

    def __getitem__(self, at: Any) -> Any:
        return at


def _random_shape(random: Random, depth: int) -> Shape:
    kind = random.randrange(8 if depth else 4)
    if kind < 4:
        return ("number", "text", "number", "flag")[kind]
    if kind < 6:
        return (
            "tuple",
            tuple(_random_shape(random, depth - 1) for _ in range(random.randint(1, 3))),
        )
    if kind == 6:
        return ("list", _random_shape(random, depth - 1))
    names = random.sample("abcdef", random.randint(1, 4))
    return ("dict", {name: _random_shape(random, depth - 1) for name in names})


_BID: Shape = ("dict", {"a": "number", "b": "number", "c": "text", "d": "number", "e": "flag"})
_SHAPES: tuple[Shape, ...] = (
    "number",
    "text",
    ("tuple", ("text", "number")),
    ("tuple", ("number", "number", "text")),
    ("tuple", ("text", ("tuple", ("number", "number")))),
    ("list", "number"),
    ("list", "text"),
    _BID,
    _BID,
    ("dict", {"a": "text", "b": ("dict", {"a": "number", "c": "text"}), "d": ("list", "number")}),
    "any",
)
_INTS = (
    *(0, -1, 1, 2, 3, 7, 10, 100, True, False, 2**53, 2**53 + 1, -(2**53) - 1, 10**18),
    *(2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, -(2**64) + 1, 3 * 2**61),
)
_FLOATS = (
    *(0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e16, 1e-5, 1e22, 5e-324, 2.5, 3.5),
    *(
        9007199254740993.0,
        1.7976931348623157e308,
        0.1 + 0.2,
        2.0**63,
        -(2.0**63),
        1.005,
        123456.789,
    ),
)
_WORDS = (
    *(
        "a",
        "b",
        "the",
        "Oka",
        "word count",
        "",
        " ",
        "  padded ",
        "12",
        "-7",
        "3.5",
        "1_000",
        "x,y",
    ),
    *("UPPER", "lower", "Title Case", "a,b,c", "nan", "inf", "1e5", " 42 ", "+8", "tab\there"),
)
_LETTERS = (
    *("a", "Z", " ", "1", ",", "İ", "ß", "ẞ", "é", "Σ", "σς", "ΑΣ", "²", "\uff11", "٣", "\u00a0"),
    *(
        "\u2003",
        "\x1c",
        "\x1f",
        "\n",
        "\r\n",
        "\t",
        "\ud800",
        "\udfff",
        "😀",
        "ﬁ",
        "ŉ",
        "ǅ",
        "ͅ",
        "e\u0301",
    ),
)
_KEYS: tuple[Any, ...] = (*"abcdef", 1, 1.0, True, 0, None, "key", 2, (1, 2))
_OTHERS: tuple[Callable[[Random], Any], ...] = (
    lambda random: b"bytes",
    lambda random: "text".encode("utf-16"),
    lambda random: {1, 2},
    lambda random: frozenset(("a",)),
    lambda random: Text(text(random)),
    lambda random: Number(random.randrange(9)),
    lambda random: Mapping(a=1),
    lambda random: Pair((1, 2)),
    lambda random: defaultdict(int, a=1),
    lambda random: OrderedDict(b=1, a=2),
    lambda random: 1j,
)
