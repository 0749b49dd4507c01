"""What functions are lifted to, what is refused and why, and when one holds no more."""

import functools
import json
import operator
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import pytest

from engine.expression.lift import Lifted, Refusal, lift
from engine.expression.tree import Return
from tests.expressions import GaveUp, compare, evaluate

RATE = 0.908
NAMES = ("a", "b")
TABLE = {"a": 1}
RANKS = {"low": (0, 10), "high": (10, 100)}
NESTED = {"a": []}
STOP_WORDS = {"the", "of"}
LISTED = [1]
NAN = float("nan")


class Rates:
    euro = 0.9


CALLED = {"scale": lambda number: number * 2}


def scale(number, by=2):
    return number * by if number else by


def by_name(*, number, more=1):
    return number + more


def clean(text):
    text = text.strip()
    if not text:
        return None
    return text.lower()


def category(record):
    price = record["price"]
    if price > 100:
        return "high"
    elif price > 10:
        return "middle"
    return "low"


def matched(value):
    match value:
        case 1 | 2:
            return "few"
        case "a":
            return "text"
        case None:
            return "none"
        case _:
            return "other"


def swapped(pair):
    left, right = pair
    left, right = right, left
    return (left, right)


def checked(number):
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def counted(number):
    total = 0
    total += number
    return total


def without(record, *names):
    return {name: value for name, value in record.items() if name not in names}


def starred(*numbers, **more):
    return numbers, more


def one_of(number, other):
    return number or other


ASSERTING: dict[str, Any] = {}  # as text, since Pytest writes asserts in another way
exec("def asserted(number):\n    assert number > 0, 'no'\n    return number", ASSERTING)


def make(k):
    return lambda number: [number * k + n for n in range_of(number)]


def increased(record):
    number = record["a"]
    number += len(record)
    number *= 2
    return number


def range_of(number):
    return (number, k_of(number))


def k_of(number):
    return number + 1


LIFTED: list[tuple[Callable[..., Any], list[Any]]] = [
    (lambda word: (word, 1), ["a", 1, None]),
    (lambda pair: pair[0], [(1, 2), [], {0: 1}]),
    (lambda record: record["a"] * RATE, [{"a": 1}, {"a": 0.5}, {}]),
    (lambda record: {"a": record["a"], "b": record["a"] + 1}, [{"a": 1}]),
    (lambda record: {**record, "a": 0}, [{"a": 1, "b": 2}, {"b": 2}, {}]),
    (lambda record: record | {"a": 0}, [{"a": 1, "b": 2}, 7]),
    (lambda record: {record: 1, 1: 2, True: 3}, [1.0, "a", []]),  # noqa: F601
    (lambda record: record.get("a"), [{"a": 1}, {}]),
    (lambda record: record.get("a", 0) or 1, [{"a": 1}, {}]),
    (lambda word: word and word.upper(), ["a", ""]),
    (lambda word: word or "none", ["a", "", None]),
    (lambda number: 0 < number <= 10, [0, 1, 10, 11, 0.5, "a"]),
    (lambda number: not number, [0, 1, ""]),
    (lambda number: not not number, [0, 1, ""]),  # noqa: SIM208
    (lambda number: number is None, [None, 0]),
    (lambda number: number is not None, [None, 0]),
    (lambda number: "none" if number is None else number, [None, 0]),
    (lambda number: number is True, [True, 1]),
    (lambda number: number in (1, 2.0, True), [1, 2, 2.0, "a"]),
    (lambda number: number not in NAMES, ["a", "c"]),
    (lambda word: word in {"a", "b"}, ["a", "c", []]),
    (lambda number: number in [1, 2], [1, 3]),
    (lambda number: -number + +number - ~number, [1, True, 0.5]),
    (lambda number: (number // 3, number % 3, number**2, number / 2), [7, -7, -0.5, 0]),
    (lambda number: (number << 1, number >> 1, number & 3, number | 4, number ^ 1), [7, -7, 0.5]),
    (lambda word: word[1:], ["abc", (1, 2), [1, 2], {}]),
    (lambda word: (word[:-1], word[::2], word[1:2], word[:], word[len(word) :]), ["abc", [1, 2]]),
    (lambda number: f"{number}", [1, "a", None, 1e16, -0.0]),
    (lambda number: f"{number:.2f} {number!r} {number!s:>5} {number!a}", [1, 0.125, "a"]),
    (lambda number: f"{RATE:.1f}{NAMES[0]}{number}", [1]),
    (lambda number: (len(f"{number:,}"), str(number), repr(number)), [1000]),
    (lambda word: [w.lower() for w in word.split()], ["A b", ""]),
    (lambda word: [(w, n) for w in word.split() if w != "b" for n in ()] and 1, []),
    (lambda word: [(w, len(w)) for w in word.split() if w != "b"], ["A b", ""]),
    (lambda pairs: [(b, a) for a, b in pairs], [[(1, 2)], ["ab"], [1]]),
    (lambda lists: [[n + 1 for n in one if n] for one in lists if one], [[[1, 0], []]]),
    (lambda numbers: sum(n * 2 for n in numbers if n), [[1, 0, 2], ["a"]]),
    (lambda numbers: (tuple(n for n in numbers), list(n for n in numbers)), [[1, 2]]),  # noqa: C400
    (lambda words: ",".join(w.strip() for w in words), [["a ", "b"], [1]]),
    (lambda words: any(w == "a" for w in words), [["a", "b"], []]),
    (lambda number: [number + n for n in (1, 2)], [1, "a"]),
    (lambda items: [*items, 1], [[1], "ab", 1]),
    (lambda items: (*items, 1), [[1], (2,)]),
    (lambda items: [1, 2, 3, items], [1]),
    (lambda items: [1, *items, *items], [[1]]),
    (lambda number: min(number, 3) + max(1, number, 2) + abs(number), [1, 5, "a"]),
    (lambda number: (round(number), round(number, 1), int(number), float(number)), [0.55, 2.5]),
    (lambda number: divmod(number, 3), [7, -7, 0.5]),
    (lambda number: (bool(number), bool(), int(), str(), list(), tuple(), dict()), [0]),  # noqa: C408, UP018
    (lambda record: dict(record), [{"a": 1}]),
    (lambda number: dict(a=number, b=1), [1]),  # noqa: C408
    (lambda pair: dict(zip(NAMES, pair)), [(1, 2), "xy"]),  # noqa: B905
    (lambda pair: dict(zip(NAMES, pair, strict=True)), [(1, 2), "xy"]),
    (lambda number: isinstance(number, int), [1, True, "a"]),
    (lambda number: isinstance(number, (int, str)), [1, True, "a", 0.5]),
    (lambda number: scale(number) + scale(number, 3) + scale(by=4, number=number), [1, 0]),
    (lambda number: by_name(number=number), [1]),
    (lambda number: operator.add(number, 1), [1]),
    (lambda number: (lambda other: other + number)(number), [1, "a"]),
    (lambda number, by=RATE: number * by, [2]),
    (lambda number: (twice := number * 2) + twice, [2]),
    (lambda record: record.real, [1]),
    (lambda word: (str.lower(word), str.strip(word, "a")), ["aB"]),
    (lambda record: {k: v for k, v in record.items() if k != "a"}, [{"a": 1, "b": 2}, {}, []]),
    (
        lambda record: (list(record.values()), tuple(record.keys()), sorted(record.keys())),
        [{"a": 1}],
    ),
    (lambda record: {name: record[name] for name in NAMES}, [{"b": 2, "a": 1}, {"a": 1}]),
    (lambda record: [record[name] for name in ("a", "b")], [{"b": 2, "a": 1}, {"a": 1}]),
    (lambda record: [record[name] for name in NAMES if record[name]], [{"b": 2, "a": 0}]),
    (lambda record: [record[name] for name in NAMES if name != "a"], [{"b": 2}]),
    (lambda record: [(at, n) for at, n in enumerate(record, 1)], [["a", "b"], "ab"]),
    (lambda record: [a + b for a, b in zip(record, (1, 2))], [[3, 4, 5], [3]]),  # noqa: B905
    (lambda record: dict(zip(record, [1, 2])), ["ab", "abc"]),  # noqa: B905
    (lambda number: [number for _ in range(3)], [1]),
    (lambda items: list(reversed(items)), [[1, 2], "ab"]),
    (lambda pair: min(pair, (1, 2), key=lambda of: (-of[0], *(of[at] for at in (1,)))), [(1, 1)]),
    (lambda pair: max(pair, (1, 2), key=operator.itemgetter(1)), [(1, 1), (5, 2), (0, 3)]),
    (lambda pair: without({"a": pair, "b": 1, "c": 2}, "b", "c"), [1]),
    (lambda pair: starred(pair, *(pair, 1)), [1]),
    (lambda pair: one_of(*pair), [(1, 2)]),
    (lambda items: list(map(str, items)), [[1, None], "ab", 1]),
    (lambda items: ",".join(map(str.lower, items)), [["A", "b"], [1]]),
    (lambda items: [n + 1 for n in filter(None, items)], [[1, 0, 2]]),
    (lambda items: sum(map(lambda n: n * 2, filter(lambda n: n > 1, items))), [[1, 0, 2]]),  # noqa: C417
    (lambda number: (format(number), format(number, ".2f")), [1, 0.125, "a"]),
    (ASSERTING["asserted"], [1, -1]),
    (lambda word: (word in STOP_WORDS, word not in LISTED), ["the", "a", 1, 1.0]),
    (lambda number: number * Rates.euro, [2]),
    (lambda number: number in TABLE, [1, "a", []]),
    (lambda number: number * TABLE["a"] + TABLE.get("b", 3) + len(TABLE), [1, "a"]),
    (lambda number: {name: low <= number < high for name, (low, high) in RANKS.items()}, [1, "a"]),
    (lambda number: [number + n for n in LISTED] + [number for _ in TABLE], [1, "a"]),
    (lambda number: CALLED["scale"](number), [1]),
    (lambda number: 8 <= number <= 18, [1, 8, 18.0, 19, NAN, "a", None]),
    (lambda number: 1 if 0 < number < RATE else 2, [0, 0.5, 1, "a"]),
    (lambda number: (not 1 < number < 3, 0.5 < number != 2), [0, 2, 3, "a"]),
    (lambda number: 0 < number < number + 1, [0, 2, "a"]),
    (lambda number: "a" < number < "b", [0, "ab", "c"]),
    (lambda number: 0 < number < 10 < number, [0, 2, 11]),
    (lambda numbers: (min(numbers), max(n for n in numbers)), [[1, 2], []]),
    (functools.partial(scale, by=4), [3]),
    (make(3), [2]),
    (clean, [" A ", " "]),
    (category, [{"price": 101}, {"price": 11}, {"price": 1}, {"price": "a"}]),
    (swapped, [(1, 2), [1, 2]]),
    (matched, [1, 2.0, True, "a", None, ()]),
    (checked, [1, -1]),
    (counted, [1, 0.5, "a"]),
    (increased, [{"a": 1}, {"a": "b"}, {"a": [1]}]),
    (lambda number: (1 == number < 3, 0 != number >= 5), [1, 3, 7, "a"]),
    (str.lower, ["A"]),
    (str, ["A", 1]),
    (int, ["12", 1.5, "a"]),
    (len, ["A", [1]]),
    (operator.itemgetter(1), [(1, 2), (1,)]),
    (operator.itemgetter("a", "b"), [{"a": 1, "b": 2}, {}]),
    (operator.attrgetter("real"), [1]),
    (operator.attrgetter("real.imag", "imag"), [1]),
    (operator.methodcaller("split", ","), ["a,b"]),
    (operator.neg, [1]),
    (functools.partial(scale, 4), [3]),
    (functools.partial(max, 4), [3, 5]),
    (", ".join, [["a", "b"], [1]]),
]


@pytest.mark.parametrize(("function", "values"), LIFTED, ids=range(len(LIFTED)))
def test_lifted(function: Callable[..., Any], values: list[Any]) -> None:
    if not values:  # two loops in one comprehension
        assert "has a loop" in reason(function)
        return
    lifted = lift(function, 1)
    assert isinstance(lifted, Lifted), lifted
    assert lifted.holds()
    outcomes = [compare(lifted, function, value) for value in values]
    assert {"equal", "failed"} & set(outcomes)


def test_two_arguments() -> None:
    lifted = lift(lambda a, b: (a[0], a[1] + b[1]), 2)
    assert isinstance(lifted, Lifted)
    assert evaluate(lifted.expression, ("a", 1), ("a", 2)) == ("a", 3)
    assert isinstance(lift(operator.add, 2), Lifted)
    assert isinstance(lift(max, 2), Lifted)


def looped(numbers):
    total = 0
    for number in numbers:
        total += number
    return total


def waited(number):
    while number > 10:
        number = number - 1
    return number


def tried(text):
    try:
        return int(text)
    except ValueError:
        return 0


def opened(name):
    with name:
        return 1


def stored(record):
    record["a"] = 1
    return record


def set_attribute(record):
    record.a = 1
    return record


def deleted(record):
    del record["a"]
    return record


def imported(record):
    import math

    return math.floor(record)


def grown(items):
    items += [1]
    return items


def grown_by_text(items):
    items += "text"
    return items


def doubled(items):
    items *= 2
    return items


def merged(record):
    other = record["a"]
    other |= record["b"]
    return other


def generated(numbers):
    yield numbers


async def awaited(number):
    return number


def recursive(number):
    return 1 if number == 0 else recursive(number - 1)


def maybe(number):
    if number:
        result = 1
    return result


def calls_looped(numbers):
    return looped(numbers)


def global_stored(number):
    global RATE
    RATE = number
    return number


def stores_outside():
    count = 0

    def function(number):
        nonlocal count
        count += number
        return count

    return function


class Echo:
    rate = 3
    other: ClassVar[list[Any]] = []

    def __call__(self, value: Any) -> Any:
        return value

    def method(self, value: Any) -> Any:
        return value


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (lambda line: json.loads(line), "calls json.loads"),
    (lambda line: print(line), "calls print"),
    (lambda items: items.append(1), "calls .append()"),
    (lambda record: TABLE[record], "reads TABLE, a dict"),
    (lambda record: LISTED[record], "reads LISTED, a list"),
    (lambda record: TABLE.get(record), "reads TABLE, a dict"),
    (lambda record: TABLE["missing"], "reads TABLE, a dict"),
    (lambda record: {**TABLE, "b": record}, "reads TABLE, a dict"),
    (lambda record: record in NESTED.values(), "reads NESTED, a dict"),
    (lambda record: record in [TABLE], "reads TABLE, a dict"),
    (lambda record: Echo.other + record, "reads Echo.other of a type"),
    (lambda record: unknown(record), "reads unknown, which is not defined"),  # noqa: F821
    (lambda record: record == other, "reads other, which is not defined"),  # noqa: F821
    (lambda record: sys.maxsize in record.a.pop(), "calls .pop()"),
    (lambda words: sorted(words, key=len), "calls sorted with arguments by name"),
    (lambda word: word.split(sep=","), "calls .split() with arguments by name"),
    (lambda words: print(*words), "has a call with *"),
    (lambda words: scale(*words), "has a call with *"),
    (lambda words: scale(**words), "has a call with **"),
    (lambda words: {w for w in words}, "makes a set"),  # noqa: C416
    (lambda words: (w for w in words), "uses a generator as a value"),
    (lambda word: {word, "a"}, "makes a set"),
    (lambda word: lambda: word, "uses a function that it makes as a value"),
    (lambda word: word is word, "has `is` of something other than None, True and False"),
    (lambda word: f"{word:{word}}", "formats by a specification that is not constant"),
    (lambda word: word @ word, "has the operator @"),
    (lambda word: word[0](1), "calls a function that is computed"),
    (lambda word: int(word, 16), "calls int with 2 arguments"),
    (lambda word: scale(), "calls scale, which takes 2 arguments, with 0"),
    (lambda word: by_name(), "calls by_name without its argument number"),
    (lambda word: scale(1, 2, word), "calls scale, which takes 2 arguments, with 3"),
    (lambda word: scale(1, nothing=word), "calls scale with a wrong argument nothing"),
    (lambda word: isinstance(word, Echo), "calls isinstance with Echo"),
    (lambda word: (words := (w for w in word), list(words), list(words)), "an iterator twice"),
    (lambda word: word.items(), "uses the view of .items() as a value"),
    (looped, "has a loop"),
    (waited, "has a loop"),
    (tried, "has a try statement"),
    (opened, "has a "),
    (stored, "stores an item"),
    (set_attribute, "stores an attribute"),
    (deleted, "deletes an item"),
    (imported, "has an import"),
    (grown, "has +=, which may change a list or a dict"),
    (grown_by_text, "has +=, which may change a list or a dict"),
    (doubled, "has *=, which may change a list or a dict"),
    (merged, "has |=, which may change a list or a dict"),
    (generated, "is a generator"),
    (awaited, "is a coroutine function"),
    (recursive, "calls recursive, which calls itself"),
    (maybe, "reads result, which may have no value"),
    (global_stored, "stores a global variable"),
    (stores_outside(), "count"),
    (Echo(), "an object of class Echo"),
    (Echo().method, "a method of an object of class Echo"),
    (print, "calls print"),
    (functools.partial(looped), "has a loop"),
    (functools.lru_cache(scale), "an object of class _lru_cache_wrapper"),
    (lambda word: isinstance(word, ()), "calls isinstance with a tuple"),
    (TABLE.get, "calls dict.get"),
    (lambda a, b: a, "which takes 2 arguments, with 1"),
    (lambda: 1, "which takes 0 arguments, with 1"),
]


def reason(function: Callable[..., Any]) -> str:
    refusal = lift(function, 1)
    assert isinstance(refusal, Refusal), refusal
    return refusal.reason


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_refused(function: Callable[..., Any], why: str) -> None:
    assert why in reason(function)


def test_a_reason_has_the_line_of_the_function_and_of_those_it_calls() -> None:
    line = calls_looped.__code__.co_firstlineno + 1
    inside = looped.__code__.co_firstlineno + 2
    assert reason(calls_looped) == f"calls looped, line {line}: has a loop, line {inside}"
    line = stored.__code__.co_firstlineno + 1
    assert reason(stored) == f"stores an item, line {line}"


def test_a_span_of_numbers_needs_no_branch() -> None:
    lifted = lift(lambda number: 1 if 0 < number < 10 else 2, 1)
    assert isinstance(lifted, Lifted)
    assert [step.operation for step in lifted.expression.body.steps] == [
        *("constant", "<", "constant", "<", "&"),
    ]
    lifted = lift(
        lambda number: {name: low <= number < high for name, (low, high) in RANKS.items()}, 1
    )
    assert isinstance(lifted, Lifted)
    assert isinstance(lifted.expression.body.end, Return)


def test_what_a_builtin_calls_is_named_with_the_line_of_the_builtin() -> None:
    function = eval("lambda lines:\\\n list(map(json.loads, lines))", {"json": json})
    assert reason(function) == "calls json.loads, line 2"
    function = eval("lambda lines:\\\n min(lines, 1, key=lambda line: print(line))")
    assert reason(function) == "calls print, line 2"


def test_what_explodes_is_refused() -> None:
    ways = " + ".join(f"(1 if x[{n}] else 2)" for n in range(12))
    assert "too many ways" in reason(eval(f"lambda x: {ways}"))
    names: dict[str, Any] = {}
    exec("def long(x):\n" + "    x = x + 1\n" * 3000 + "    return x", names)
    assert "too long" in reason(names["long"])
    several = " and ".join(f"x[{n}]" for n in range(300))  # jumps of more than 255
    assert "too many ways" in reason(eval(f"lambda x: {several}"))
    some = " and ".join(f"x[{n}]" for n in range(90))
    lifted = lift(eval(f"lambda x: {some}"), 1)
    assert isinstance(lifted, Lifted)
    assert evaluate(lifted.expression, [1] * 90) == 1
    assert evaluate(lifted.expression, [1] * 80 + [0]) == 0


# Guards


def module(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    return names


MODULE = """
import types
LIMIT = 10
other = types.ModuleType("other")
other.limit = 3
def helper(x, by=2): return x * by
def make():
    k = 3
    def function(x): return len(x) + k
    def change(): nonlocal k; k = 4
    def empty(): nonlocal k; del k
    return function, change, empty
closure, change, empty = make()
def constant(x): return x + LIMIT
def calls(x): return helper(x)
def named(x, *, by=7): return x * by
def by_module(x): return x + other.limit
table = {"a": 1}
def looked_up(x): return x * table["a"]
def gone_through(x): return [x + n for n in table.values()]
def measured(x): return x % len(table)
stop_words, stopped_list = {"the"}, ["the"]
def stopped(x): return x in stop_words
def listed(x): return x in stopped_list
class Rates: euro = 1.5
def classed(x): return x * Rates.euro
"""


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("constant", "LIMIT = 11"),
        ("constant", "del LIMIT"),
        ("constant", "LIMIT = 10.0"),
        ("closure", "len = sum"),
        ("closure", "change()"),
        ("closure", "empty()"),
        ("calls", "helper = lambda x: x"),
        ("calls", "helper.__code__ = (lambda x, by: x).__code__"),
        ("calls", "helper.__defaults__ = (3,)"),
        ("calls", "calls.__code__ = (lambda x: x).__code__"),
        ("named", "named.__kwdefaults__ = {'by': 8}"),
        ("named", "named.__kwdefaults__['by'] = 8"),
        ("looked_up", "table['a'] = 2"),
        ("looked_up", "del table['a']"),
        ("gone_through", "table['a'] = True"),
        ("gone_through", "table['b'] = 1"),
        ("measured", "table['b'] = 1"),
        ("stopped", "stop_words.add('a')"),
        ("stopped", "stop_words.clear()"),
        ("stopped", "stop_words = {'the'}"),
        ("listed", "stopped_list.append('a')"),
        ("classed", "Rates.euro = 1"),
        ("classed", "class Rates: euro = 1.5"),
        ("by_module", "other = 1"),
        ("by_module", "other.limit = 4"),
    ],
)
def test_a_function_whose_surroundings_change_holds_no_more(name: str, change: str) -> None:
    names = module(MODULE)
    lifted = lift(names[name], 1)
    assert isinstance(lifted, Lifted)
    assert lifted.holds()
    names["unused"] = 1
    assert lifted.holds()
    exec(change, names)
    assert not lifted.holds()


def test_a_builtin_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    lifted = lift(lambda word: len(word), 1)
    assert isinstance(lifted, Lifted)
    assert lifted.holds()
    with monkeypatch.context() as patch:
        patch.setattr("builtins.len", lambda word: 7)
        assert not lifted.holds()
    assert lifted.holds()


def test_nothing_holds_while_somebody_watches_functions() -> None:
    lifted = lift(lambda word: word, 1)
    assert isinstance(lifted, Lifted)
    trace, profile = sys.gettrace(), sys.getprofile()
    try:
        sys.settrace(lambda *of: None)
        assert not lifted.holds()
        sys.settrace(None)
        sys.setprofile(lambda *of: None)
        assert not lifted.holds()
        sys.setprofile(None)
        assert lifted.holds()
    finally:
        sys.settrace(trace)
        sys.setprofile(profile)
    if sys.version_info >= (3, 12):
        sys.monitoring.use_tool_id(3, "test")
        try:
            assert not lifted.holds()
        finally:
            sys.monitoring.free_tool_id(3)
        assert lifted.holds()


def test_a_module_with_attributes_of_its_own_is_no_module() -> None:
    class Special(ModuleType):
        pass

    special = Special("special")
    vars(special)["limit"] = 1
    names = {"special": special}
    assert "reads special.limit" in reason(eval("lambda x: x + special.limit", names))


def test_a_step_that_fails_is_there_though_nobody_uses_its_value() -> None:
    def function(record):
        record["missing"]
        ignored = 1 // record["zero"]  # noqa: F841
        return record["a"]

    lifted = lift(function, 1)
    assert isinstance(lifted, Lifted)
    assert evaluate(lifted.expression, {"missing": 1, "zero": 1, "a": 2}) == 2
    for record in ({"zero": 1, "a": 2}, {"missing": 1, "zero": 0, "a": 2}):
        with pytest.raises((KeyError, ZeroDivisionError)):
            evaluate(lifted.expression, record)


def test_another_number_of_items_than_names_gives_up() -> None:
    lifted = lift(swapped, 1)
    assert isinstance(lifted, Lifted)
    with pytest.raises(GaveUp):
        evaluate(lifted.expression, (1, 2, 3))
