"""`reduce` by lifted functions, by the functions themselves, and by both in turn: no difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from engine.graph.batch_operator import BatchFunction, NativeFigures
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.network import Batch, partition
from engine.record import dict_key
from engine.state import KeyedState
from engine.task.chain import Chain
from engine.testing import run
from operators import Stream, Tumbling, source
from operators.keys import key_finder
from operators.reduce import Reduce
from operators.sinks import Collect, Counts
from operators.sources import Collection

WAYS = ["lifted", "called", "in turn", "checked"]
NAN = math.nan
WORDS = [
    "a",
    "b",
    b"a",
    None,
    1,
    True,
    1.0,
    0.0,
    -0.0,
    NAN,
    2**70,
    float(2**70),
    (1, "x"),
    (1.0, "x"),
]
SHAPES: dict[str, tuple[Any, Callable[[Any, int], Any], Callable[[Any, Any], Any]]] = {
    "item": (0, lambda key, n: (key, n), lambda a, b: (a[0], a[1] + b[1])),
    "last item": (1, lambda key, n: [n, key], lambda a, b: [a[0] + b[0], b[1]]),
    "field": (
        "k",
        lambda key, n: {"k": key, "n": n, "most": n},
        lambda a, b: {"k": a["k"], "n": a["n"] + b["n"], "most": max(a["most"], b["most"])},
    ),
    "several": (("k", "j"), lambda key, n: {"k": key, "j": 1, "n": n}, lambda a, b: {**a, **b}),
    "replaced": (
        "k",
        lambda key, n: {"k": key, "n": n, "by": [n], "most": n},
        lambda a, b: {**a, "most": max(a["most"], b["n"]), "n": a["n"] + b["n"]},
    ),
    "replaced, in another order at times": (
        "k",
        lambda key, n: {"n": n, "k": key} if n % 3 else {"k": key, "n": n},
        lambda a, b: {**a, "n": a["n"] + b["n"]},
    ),
    "added": (
        "k",
        lambda key, n: {"k": key, "n": n},
        lambda a, b: {**a, "n": a["n"] + b["n"], "last": b["n"]},
    ),
    "of the record": (
        "k",
        lambda key, n: {"k": key, "n": n},
        lambda a, b: {**b, "n": a["n"] + b["n"]},
    ),
    "changed places": (0, lambda key, n: (key, n, n + 1), lambda a, b: (a[0], a[2], a[1])),
    "fewer items": (0, lambda key, n: (key, n, str(n)), lambda a, b: (a[0], a[1] + len(str(b[2])))),
    "another form": (
        0,
        lambda key, n: [key, n] if n % 4 == 3 else (key, n),
        lambda a, b: (a[0], b[1]),
    ),
    "read and kept": (0, lambda key, n: (key, n), lambda a, b: (a[0], b[1] if b[1] % 2 else a[1])),
    "read of what stays": (
        0,
        lambda key, n: (key, 7 * n, n),
        lambda a, b: (a[0], a[1], a[1] + b[2]),
    ),
    "nested": (
        0,
        lambda key, n: (key, (n, [n])),
        lambda a, b: (a[0], (a[1][0] + b[1][0], a[1][1])),
    ),
    "other types": (
        0,
        lambda key, n: (key, n, None if n % 2 else 1.5, "x" * n, n % 2 == 0),
        lambda a, b: (a[0], a[1] / 2 + b[1], b[2], a[3] + b[3], not a[4]),
    ),
    "all of the record": (0, lambda key, n: (key, n), lambda a, b: (a[0], b)),
    "a constant": (0, lambda key, n: (key, n), lambda a, b: (a[0], 1, "x")),
    "nothing of both": (0, lambda key, n: (key, n), lambda a, b: ()),
    "nothing": ((), lambda key, n: (key, n), lambda a, b: b if b[1] > a[1] else a),
    "record": (None, lambda key, n: key, lambda a, b: b),
}


class Way:
    """A task of a `reduce`, which gets its batches in one of the ways."""

    def __init__(self, operator: Reduce, way: str, task: TaskContext) -> None:
        self.way = way
        mode: Any = {"called": "off", "checked": "check"}.get(way, "auto")
        self.function: BatchFunction = operator.open(replace(task, native=mode))
        self.turn = 0

    def process(self, batch: list[Any]) -> list[Any]:
        self.turn += 1
        if self.way == "called" or (self.way == "in turn" and self.turn % 2 == 0):
            return self.function.process(batch)
        out = self.function.process(Batch.from_list(batch))
        return out.to_list() if isinstance(out, Batch) else out

    def end(self) -> list[Any]:
        return [record for batch in self.function.on_end() or () for record in batch]

    @property
    def fallbacks(self) -> tuple[int, str | None]:
        """How many batches fell back, and why the first did."""
        figures = self.function.native or NativeFigures()
        return figures.fallbacks, figures.first_fallback


def batches_of(shape: str, paired: bool) -> list[list[Any]]:
    _, make, _ = SHAPES[shape]
    records = [(key, make(key, n)) for n in range(12) for key in WORDS]
    shown = records if paired else [record for _, record in records]
    return [shown[at : at + 17] for at in range(0, len(shown), 17)]


def oracle(operator: Reduce, batches: Iterable[list[Any]]) -> list[Any]:
    """What comes out, by plain Python."""
    values: dict[Any, Any] = {}
    out: list[Any] = []
    find = key_finder(operator.key) if operator.key != () else lambda _: ()
    for element in (each for batch in batches for each in batch):
        key, record = element if operator.paired else (find(element), element)
        key = repr(key) if key != key else key
        values[key] = operator.function(values[key], record) if key in values else record
        out.append(values[key])
    return out if operator.emit == "updates" else list(values.values())


def context(index: int = 0, parallelism: int = 1) -> TaskContext:
    return TaskContext("reduce", index, parallelism, 5, "job")


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_ways_give_what_python_gives(shape: str, emit: Any, paired: bool) -> None:
    key, _, function = SHAPES[shape]
    operator = Reduce(function, None if paired else key, paired, emit)
    batches = batches_of(shape, paired)
    expected = oracle(operator, batches)
    kept = []
    for way in WAYS:
        task = Way(operator, way, context())
        found = [record for batch in batches for record in task.process(batch)] + task.end()
        assert repr(found) == repr(expected), way
        assert task.fallbacks == (0, None)
        kept.append(list(task.function.snapshot().entries))
    assert all(each == kept[0] != [] for each in kept)


@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize(("before", "after"), [("lifted", "called"), ("called", "lifted")])
@pytest.mark.parametrize("tasks", [(1, 3), (3, 1), (2, 2)])
def test_others_go_on_in_another_way(before: str, after: str, emit: Any, tasks: Any) -> None:
    key, _, function = SHAPES["item"]
    operator = Reduce(function, key, False, emit)
    batches = batches_of("item", False)
    expected = sorted(map(repr, oracle(operator, batches)))
    found, states = [], []
    for half, way, many in zip((batches[:5], batches[5:]), (before, after), tasks, strict=True):
        opened = [Way(operator, way, context(index, many)) for index in range(many)]
        for index, each in enumerate(opened):
            if states:
                each.function.restore(KeyedState.share(states, index, many))
        for batch in half:
            to = partition([record[0] for record in batch], many)
            for index, each in enumerate(opened):
                found += each.process([r for r, at in zip(batch, to, strict=True) if at == index])
        states = [each.function.snapshot() for each in opened]
    found += [record for each in opened for record in each.end()]
    assert sorted(map(repr, found)) == expected


def test_a_batch_that_fails_in_its_middle_has_changed_nothing() -> None:
    operator = Reduce(lambda a, b: (a[0], a[1] + b[1], b[2]), 0)
    reduce = Way(operator, "lifted", context())
    reduce.process([("a", 1, "x"), ("a", 1, "y"), ("b", 1, "x"), ("c", 1, "x"), ("c", 2, "y")])
    before = list(reduce.function.snapshot().entries)
    batch = [*((key, n, "z" * 50) for n in range(70) for key in "abcd"), ("c", None, "z")]
    natively = reduce.function._natively  # type: ignore[attr-defined]
    for _ in range(2):
        assert natively(Batch.from_list(batch)) is None
        assert list(reduce.function.snapshot().entries) == before
    assert reduce.process([("c", 0, "q"), ("b", 0, "q")]) == [("c", 3, "q"), ("b", 1, "q")]


@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize("shape", SHAPES)
def test_small_batches_rest_from_rust_and_large_ones_bring_it_back(shape: str, emit: Any) -> None:
    """Values go from one way to the other in the middle of keys, whatever sizes batches have."""
    key, make, function = SHAPES[shape]
    operator = Reduce(function, key, False, emit)
    records = [make(word, n) for n in range(400) for word in WORDS]
    sizes = [*[1] * 150, *[40] * 5, *[2] * 60, *[1, 30] * 20]
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    batches = [records[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    expected = oracle(operator, batches)
    task = Way(operator, "lifted", context())
    found = [record for batch in batches for record in task.process(batch)]
    assert repr(found + task.end()) == repr(expected)
    natively = task.function.native
    if emit == "updates" and natively is not None:
        assert 0 < natively.native < ends[-1]
        assert natively.fallbacks == 0


@pytest.mark.parametrize("key", ["item", "last item", "another form", "all of the record"])
@pytest.mark.parametrize("mode", ["auto", "off", "check"])
def test_a_sink_of_last_values_gets_the_last_of_each_key(key: str, mode: Any) -> None:
    place, make, function = SHAPES[key]
    keys = [*"abc", 1, True, 1.0, None, (1, "x"), NAN]
    records = [make(each, n) for n in range(30) for each in keys]
    expected: dict[Any, Any] = {}
    for first, second in oracle(Reduce(function, place), [records]):
        expected[dict_key(first)] = second
    for size in (1, 4, 1000):
        chain = Chain()
        operators = (Reduce(function, place), Counts())
        declared = [
            LogicalOperator(at, f"{at}", each, None, {}) for at, each in enumerate(operators)
        ]
        chain.open(declared, replace(context(), native=mode), encoded=True)
        for start in range(0, len(records), size):
            chain.process(Batch.from_list(records[start : start + size]))
        chain.sinks.prepare()
        assert repr(Counts().commit(0, [chain.sinks.commit()["1"]])) == repr(expected), size
        counted = [each.records_out for each in chain.statistics(len(records))]
        assert counted == [len(records)] * 2


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_what_is_unusual_is_computed_by_the_function(on_error: Any) -> None:
    operator = Reduce(lambda a, b: (a[0], a[1] + b[1]), 0, on_error=on_error)
    rescued: list[Any] = []
    task = replace(context(), rescue=None if on_error == "fail" else lambda *at: rescued.append(at))
    reduce = Way(operator, "lifted", task)
    assert reduce.process([("a", 1), ("b", 2**63 - 1)]) == [("a", 1), ("b", 2**63 - 1)]
    assert reduce.process([("a", 2), ("b", 1), ("c", 1)]) == [("a", 3), ("b", 2**63), ("c", 1)]
    assert reduce.fallbacks == (1, "an integer beyond 64 bits")
    assert reduce.process([("a", 3), ("c", 1)]) == [("a", 6), ("c", 2)]
    assert reduce.fallbacks[0] == 1
    bad = [("a", 1), ("d", 1), ("a", "x"), ("a", 1)]
    if on_error == "fail":
        with pytest.raises(TypeError, match="unsupported operand"):
            reduce.process(bad)
        assert task.failing.record == (("a", "x"),)
    else:
        assert reduce.process(bad) == [("a", 7), ("d", 1), ("a", 8)]
        ((record, error),) = rescued
        assert (record, type(error)) == (("a", "x"), TypeError)
    assert reduce.process([("a", 1), ("b", 0)])[-1] == ("b", 2**63)


@pytest.mark.parametrize(
    ("key", "record", "kind"),
    [(0, ([1], 1), TypeError), (2, (1, 2), IndexError), ("k", {"n": 1}, KeyError)],
)
@pytest.mark.parametrize("way", WAYS)
def test_a_record_without_a_key_is_told(way: str, key: Any, record: Any, kind: Any) -> None:
    task = context()
    reduce = Way(Reduce(lambda a, b: a, key), way, task)
    with pytest.raises(kind):
        reduce.process([record])
    assert task.failing.record == (record,)


def ignore(*_: Any) -> None:
    """Take a record that failed."""


def test_a_function_that_always_gives_up_is_called_for_a_while() -> None:
    operator = Reduce(lambda a, b: (a[0], a[1] // 0), 0, on_error="skip")
    reduce = Way(operator, "lifted", replace(context(), rescue=ignore))
    for _ in range(600):
        reduce.process([("a", 1), ("a", 1)])
    assert reduce.fallbacks[0] == 12


def test_a_function_that_changes_its_first_argument_is_called() -> None:
    def add(total: list[Any], record: list[Any]) -> list[Any]:
        total.append(record[1])
        return total

    reduce = Way(Reduce(add, 0), "lifted", context())
    assert reduce.function._lifted is None  # type: ignore[attr-defined]
    first = reduce.function.process([["a", 1], ["a", 2]])
    assert first[0] is first[1]
    assert first[0] == ["a", 1, 2]


STEP = 1


def test_a_guard_that_no_longer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    reduce = Way(Reduce(lambda a, b: (a[0], a[1] + STEP), 0), "lifted", context())
    assert reduce.process([("a", 1)] * 3)[-1] == ("a", 3)
    monkeypatch.setitem(globals(), "STEP", 10)
    assert reduce.process([("a", 1)] * 2)[-1] == ("a", 23)
    assert reduce.fallbacks == (0, None)


@dataclass(frozen=True)
class Sale:
    item: str
    price: float


@pytest.mark.parametrize("way", WAYS)
def test_values_of_classes(way: str) -> None:
    sales = [[Sale("tea", n % 5 / 4), Sale("cup", -n)] for n in range(40)]
    operator = Reduce(lambda a, b: b if b.price > a.price else a, "item")
    reduce = Way(operator, way, context())
    found = [each for batch in sales for each in reduce.process(batch)]
    assert found == oracle(operator, sales)
    assert reduce.fallbacks == (0, None)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 100])
def test_in_a_job_with_and_without_an_operator_behind(parallelism: int, batch_size: int) -> None:
    words = [(f"word {n % 7}", 1) for n in range(500)]
    stream = source(Collection(words)).key_by(0).reduce(lambda a, b: (a[0], a[1] + b[1]))
    settings: Any = {"parallelism": parallelism, "batch_size": batch_size}
    counts = run(stream.sink(Collect()), **settings)["collect"]
    often = {f"word {word}": len(range(word, 500, 7)) for word in range(7)}
    expected = sorted((word, n + 1) for word, many in often.items() for n in range(many))
    assert sorted(counts) == expected
    again = stream.rebalance().map(lambda pair: pair).sink(Collect())
    assert sorted(run(again, **settings)["collect"]) == expected
    total = stream.map(lambda pair: pair[1]).key_by(lambda n: n % 2).reduce(max, emit="final")
    assert sorted(run(total.sink(Collect()), **settings)["collect"]) == [71, 72]


def twice_the_same(a: Any, _b: Any) -> Any:
    empty: dict[str, Any] = {}
    return {**empty, **a, "n": empty}


WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "both": lambda a, b: (a, b),
    "the other way round": lambda a, b: (b, a),
    "a list": lambda a, b: [a, b],
    "a dict": lambda a, b: {"k": b["k"], "x": a, "y": b},
    "the value alone": lambda a, b: (a,),
    "the record alone": lambda a, b: (b,),
    "twice": lambda a, b: (a, a, b),
    "in a list in it": lambda a, b: (b["n"], [a]),
    "beside a field of it": lambda a, b: {**a, "n": a["n"] + b["n"], "before": a},
    "merged into the record": lambda a, b: {**b, "before": a},
    "by a condition": lambda a, b: (a, b) if b["n"] % 2 else a,
    "an empty dict of its own": twice_the_same,
}
"""Functions that put the whole value, or something else that is no item of it, into the next."""


@pytest.mark.parametrize("function", WHOLE)
@pytest.mark.parametrize("key", ["k", lambda record: (record["k"], 1)], ids=["field", "function"])
@pytest.mark.parametrize("emit", ["updates", "final", "windows"])
def test_a_result_has_the_whole_value_before(function: str, key: Any, emit: Any) -> None:
    records = [{"k": "ab"[n % 3 % 2], "n": n, "at": n // 4} for n in range(12)]
    found = []
    for native in ("off", "auto", "check"):
        timed = source(Collection(records)).with_parallelism(1).with_event_time("at", unit="s")
        keyed = timed.key_by(key)
        stream: Stream[Any] = (
            keyed.window(Tumbling(timedelta(seconds=2))).reduce(WHOLE[function])
            if emit == "windows"
            else keyed.reduce(WHOLE[function], emit=emit)
        )
        found.append(run(stream.sink(Collect()), native=native, batch_size=5)["collect"])
    assert found[0]
    assert list(map(repr, found[1])) == list(map(repr, found[0]))
    assert list(map(repr, found[2])) == list(map(repr, found[0]))
