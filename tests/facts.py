"""Facts of Python that whoever runs an expression has to meet, or give up: functions and values.

Each function is one that `lift` takes. Of each value, it gives something or raises.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from tests.functions import Mapping, Number, Pair, Text

NAN = float("nan")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
LAZY = re.compile("(?:a|ab)(?:b|c|[x-z]{2,3}?)|\\n")
TABLE = {"a": 1}
INTS = [0, 1, -1, 7, -7, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, True]
FLOATS = [0.0, -0.0, 0.5, 2.5, -7.5, 1e16, 1e-05, 5e-324, float("inf"), float("-inf"), NAN]
NUMBERS = [*INTS, *FLOATS]
PAIRS = [(a, b) for a in NUMBERS for b in (1, 3, -3, 0, 2**53, 2.0**53, -0.0, 0.1, 2**63)]
TEXTS = [
    *("", "a", "Ab c", "  a \t", "a,b,,c", "İ", "ß", "ẞ", "ΑΣ", "ΑΣ ΑΣ", "ǅ", "ﬁ", "é", "e\u0301"),
    *(
        "\x1ca\x1f",
        "\u2003a\u2003b",
        "\u00a0a\u00a0",
        "a\x1cb",
        "a\u2028b",
        "\ud800",
        "a\udfffb",
        "😀a",
    ),
    *("²", "12", "\uff11\uff12", "٣", " 1_000 ", "1__0", "+7", "-0", "1e5", "nan", "0x1", "\x00"),
]

FACTS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "sum": (lambda pair: pair[0] + pair[1], PAIRS),
    "difference": (lambda pair: pair[0] - pair[1], PAIRS),
    "product": (lambda pair: pair[0] * pair[1], PAIRS),
    "quotient": (lambda pair: pair[0] / pair[1], PAIRS),
    "floor division": (lambda pair: pair[0] // pair[1], PAIRS),
    "remainder": (lambda pair: pair[0] % pair[1], PAIRS),
    "quotient and remainder": (lambda pair: divmod(pair[0], pair[1]), PAIRS),
    "less": (lambda pair: pair[0] < pair[1], PAIRS),
    "equal": (lambda pair: (pair[0] == pair[1], pair[0] != pair[1]), PAIRS),
    "greater or equal": (lambda pair: pair[0] >= pair[1], PAIRS),
    "least and greatest": (lambda pair: (min(pair[0], pair[1]), max(pair[0], pair[1])), PAIRS),
    "power": (lambda number: (number**2, number**3), NUMBERS),
    "power of a negative": (lambda number: number**-1, NUMBERS),
    "shifts": (lambda number: (number << 2, number >> 1), NUMBERS),
    "left shift out of 64 bits": (lambda number: number << 63, NUMBERS),
    "bits": (lambda number: (number & 6, number | 6, number ^ 6, ~number), NUMBERS),
    "bits of truths": (lambda number: (number & True, number | False), [True, False, 3, 2]),
    "signs": (lambda number: (-number, +number, abs(number)), NUMBERS),
    "sum of truths": (lambda flag: (flag + flag, -flag, flag * 3, flag / 2), [True, False]),
    "truth": (
        lambda value: (not value, bool(value)),
        [*NUMBERS, "", "a", None, (), [0], {}, {1: 2}],
    ),
    "matches": (lambda text: WORD.findall(text), [*TEXTS, "it's  'a' b''c", 5, None, b"a"]),
    "matches of alternatives": (lambda text: LAZY.findall(text.lower()), ["aab xaby abc", "é\nab"]),
    "round": (lambda number: round(number), [*NUMBERS, 0.5, 1.5, 2.5, -0.5, 2.675]),
    "round to digits": (lambda number: round(number, 2), [*NUMBERS, 2.675, 1.005, 0.125, -1.115]),
    "round to tens": (lambda number: round(number, -1), [*NUMBERS, 15, 25, 15.0, 25.0]),
    "floor and ceiling": (lambda n: (math.floor(n), math.ceil(n)), [*NUMBERS, 1e300, "a", None]),
    "kinds of floats": (
        lambda n: (math.isnan(n), math.isinf(n), math.isfinite(n)),
        [*NUMBERS, 10**400, "nan", None],
    ),
    "int": (lambda value: int(value), [*NUMBERS, 1e22, 0.9, -0.9, *TEXTS, None]),
    "float": (
        lambda value: float(value),
        [*NUMBERS, *TEXTS, " inf ", "1_0.5", "1e400", ".5", "5.", None],
    ),
    "str": (lambda value: str(value), [*NUMBERS, *TEXTS, None, (1, "a"), [0.5], {"a": None}]),
    "repr": (lambda value: repr(value), [*NUMBERS, *TEXTS, None, ("a'b",), ['a"b'], {"a": "a'\""}]),
    "f-string": (lambda value: f"<{value}>", [*NUMBERS, *TEXTS, None, (1,)]),
    "format: digits": (lambda number: f"{number:.2f}", [*NUMBERS, 0.125, 0.375, 2.675, 1e22]),
    "format: no digits": (lambda number: f"{number:.0f}", [0.5, 1.5, 2.5, -0.5, 1e22]),
    "format: width": (
        lambda value: f"{value:8}|{value:>8}|{value:<8}|",
        [1, 0.5, "a", True, "é", None],
    ),
    "format: zeros": (lambda number: f"{number:05}|{number:05d}", [1, -1, True, 10**6, 0.5]),
    "format: thousands": (lambda number: f"{number:,}", [*NUMBERS, 1234567, -1234567.891]),
    "format: repr": (lambda value: f"{value!r}{value!s}{value!a}", ["é", "a'b", 1, None]),
    "text times number": (
        lambda pair: pair[0] * pair[1],
        [("ab", 2), ("ab", -1), (3, "a"), ("a", True)],
    ),
    "tuple times number": (lambda pair: pair[0] * pair[1], [((1,), 2), ([1, 2], 2), (0, (1,))]),
    "sum of others": (
        lambda pair: pair[0] + pair[1],
        [("a", "b"), ((1,), (2,)), ([1], [2]), ("a", 1)],
    ),
    "remainder of a text": (
        lambda pair: pair[0] % pair[1],
        [("%s-%d", ("a", 1)), ("%s", 1), ("a", ())],
    ),
    "dicts as one": (
        lambda pair: pair[0] | pair[1],
        [({"a": 1, "b": 2}, {"a": 3}), ({}, {}), ({}, 1)],
    ),
    "order of others": (
        lambda pair: pair[0] < pair[1],
        [("a", "b"), ((1, 2), (1, 3)), ("Z", "é"), ("a", 1)],
    ),
    "equality of others": (
        lambda pair: pair[0] == pair[1],
        [
            ("a", "a"),
            (1, True),
            (1.0, 1),
            ((1,), [1]),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            (None, 0),
        ],
    ),
    "in a tuple": (
        lambda value: value in (1, 2.5, "a", None),
        [1, 1.0, True, 2.5, "a", None, "b", NAN],
    ),
    "in itself": (lambda value: value in (value,), [1, NAN, "a"]),
    "in a text": (lambda text: ("a" in text, "" in text), [*TEXTS, 1]),
    "in a dict": (lambda record: ("a" in record, 1 in record), [{"a": 1}, {1.0: 1}, {True: 1}, {}]),
    "in a list": (lambda items: 1 in items, [[1], [1.0], [True], [], [NAN]]),
    "set in a dict that is known": (lambda value: value in TABLE, [{1}, "a", [1]]),
    "lower": (lambda text: text.lower(), TEXTS),
    "upper": (lambda text: text.upper(), TEXTS),
    "title": (lambda text: text.title(), [*TEXTS, "they're bill's"]),
    "capitalize": (lambda text: text.capitalize(), TEXTS),
    "casefold": (lambda text: text.casefold(), TEXTS),
    "split": (lambda text: text.split(), TEXTS),
    "split by": (lambda text: text.split(","), TEXTS),
    "split by nothing": (lambda text: text.split(""), TEXTS),
    "split once": (
        lambda text: (text.split(None, 1), text.split(",", 1), text.rsplit(",", 1)),
        TEXTS,
    ),
    "strip": (lambda text: (text.strip(), text.lstrip(), text.rstrip()), TEXTS),
    "strip of": (lambda text: (text.strip("ab"), text.strip("")), TEXTS),
    "digits": (lambda text: (text.isdigit(), text.isdecimal(), text.isnumeric()), TEXTS),
    "letters": (lambda text: (text.isalpha(), text.isalnum(), text.isspace()), TEXTS),
    "case": (lambda text: (text.isupper(), text.islower()), TEXTS),
    "starts and ends": (
        lambda text: (text.startswith("a"), text.endswith(("b", "")), text.startswith("")),
        TEXTS,
    ),
    "replace": (lambda text: (text.replace("a", "bb"), text.replace("", "-")), TEXTS),
    "find": (
        lambda text: (text.find("b"), text.rfind("b"), text.count("a"), text.count("")),
        TEXTS,
    ),
    "join": (lambda items: ",".join(items), [["a", "b"], (), ["a", 1], "ab", ["\ud800"]]),
    "prefix and suffix": (lambda text: (text.removeprefix("a"), text.removesuffix("b")), TEXTS),
    "length": (lambda value: len(value), [*TEXTS, (1,), [], {"a": 1}, 1, None]),
    "character": (lambda text: (text[0], text[-1]), TEXTS),
    "slice": (
        lambda value: (value[1:], value[:-1], value[::-1], value[-2:2]),
        [*TEXTS, (1, 2, 3), [1, 2]],
    ),
    "slice of step 0": (lambda value: value[::0], ["abc", (1,)]),
    "ord": (lambda text: ord(text), TEXTS),
    "chr": (lambda number: chr(number), [65, 0x1F600, 0xD800, 0x110000, -1, True, 1.0]),
    "item": (
        lambda items: items[1],
        [(1, 2), [1], {1: "a"}, {1.0: "a"}, {True: "a"}, "ab", b"ab", None],
    ),
    "key": (lambda record: record["a"], [{"a": 1}, {}, {"a": None}, (1,)]),
    "key of another type": (lambda pair: {1: "a"}[pair], [1, 1.0, True, "1", (1,)]),
    "get": (
        lambda record: (record.get("a"), record.get("a", 0)),
        [{"a": 1}, {}, {"a": None}, (1,)],
    ),
    "and, or": (
        lambda pair: (pair[0] and pair[1], pair[0] or pair[1]),
        [(0, 1), ("", "a"), (NAN, 0)],
    ),
    "chained": (lambda number: 0 < number < 10 != number, [5, 10, -1, "a"]),
    "conditional": (lambda value: 1 if value else 2.0, [0, 1, "", None]),
    "none": (lambda value: (value is None, value is not None, value is True), [None, True, 1, 0]),
    "one key": (lambda value: {1: "a", value: "b"}, [1, 1.0, True, "1", NAN, [1]]),
    "order of keys": (
        lambda pair: {pair[0]: 1, "b": 2, pair[1]: 3},
        [("b", "a"), ("a", "b"), ("c", "c")],
    ),
    "copy with another": (
        lambda record: {**record, "a": 0},
        [{"a": 1, "b": 2}, {"b": 2}, {}, [], None],
    ),
    "copy before": (lambda record: {"a": 0, **record}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
    "instances": (
        lambda value: (isinstance(value, int), isinstance(value, (str, float))),
        [1, True, 0.5, "a"],
    ),
    "unpack": (
        lambda value: (lambda pair: [a for a, b in [pair]])(value),
        [(1, 2), "ab", {1: 2, 3: 4}, 1],
    ),
    "one that is not used": (lambda record: (record["a"], 1)[1], [{"a": 1}, {}]),
    "branch that fails": (lambda number: 1 / number if number else 0, [0, 2, 0.0, "a"]),
    "a subclass's length": (lambda text: (len(text), text.lower()), [Text("A"), "A"]),
    "a subclass's sum": (lambda number: number + 1, [Number(1), 1]),
    "a subclass's items": (lambda items: items[1], [Pair((1, 2)), (1, 2)]),
    "a missing key": (
        lambda record: record["x"],
        [Mapping(), defaultdict(int), OrderedDict(x=1), {"x": 1}],
    ),
    "nested": (lambda pair: ([pair], {"a": pair}, (pair, ())), [(1, NAN), [True], {"b": -0.0}]),
}
"""Functions of one argument, by the fact, and arguments."""
