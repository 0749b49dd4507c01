"""Random functions of two records in `reduce`: in Rust, called, and by turns, as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.graph.context import TaskContext
from engine.network import Batch
from operators.reduce import Reduce
from tests.part import examples

FIELDS = ["k", "n", "m", "t"]
VALUES: list[Callable[[Random], Any]] = [
    lambda rng: rng.randrange(-3, 300),
    lambda rng: rng.choice([0.5, -0.0, 1e300, 2.0**60]),
    lambda rng: rng.choice(["", "x", "é" * 40]),
    lambda rng: rng.choice([True, None, 2**62, 2**63 - 1, 2**70, (1, "x"), [1], {"k": 1}, b"y"]),
]
ITEMS = [
    "{a}",
    "{a}",
    "{b}",
    "{a} + {b}",
    "{a} + {b}",
    "{b} + {a}",
    "{a} - {b}",
    "{b} * 2",
    "max({a}, {b})",
    "{a} + 1",
    "({a}, {b})",
    "{a} == {b}",
    "'x'",
    "len(str({b}))",
    "b",
    "{c}",
    "{a} if {c} else {b}",
]


def function(rng: Random, is_dict: bool) -> str:
    """The source of a function of records with these fields, or of tuples of as many items."""
    places = [repr(name) for name in FIELDS] if is_dict else [str(at) for at in range(len(FIELDS))]

    def item(place: str) -> str:
        form = rng.choice(ITEMS)
        return form.format(a=f"a[{place}]", b=f"b[{place}]", c=f"a[{rng.choice(places)}]")

    items = [places[0] and f"a[{places[0]}]", *map(item, places[1:])]
    if not is_dict:
        return f"lambda a, b: ({', '.join(items)},)"
    pairs = [f"{place}: {each}" for place, each in zip(places, items, strict=True)]
    if rng.random() < 0.5:
        chosen = rng.sample(pairs[1:], rng.randrange(len(pairs)))
        if rng.random() < 0.3:
            return f"lambda a, b: a | {{{', '.join(chosen)}}}"
        return f"lambda a, b: {{{', '.join([rng.choice(['**a', '**a', '**b']), *chosen])}}}"
    return f"lambda a, b: {{{', '.join(pairs)}}}"


def record(rng: Random, is_dict: bool, usual: int) -> Any:
    """A record of one of a few keys, with values that are mostly of the usual types."""
    key = rng.choice([*"abcd", 1, None])
    make = [VALUES[usual % 3] if rng.random() < 0.97 else rng.choice(VALUES) for _ in range(3)]
    values = [key, *(each(rng) for each in make)]
    if not is_dict:
        return tuple(values) if rng.random() < 0.98 else values
    pairs = list(zip(FIELDS, values, strict=True))
    if rng.random() < 0.05:
        rng.shuffle(pairs)
    if rng.random() < 0.02:
        pairs = [pair for pair in pairs if pair[0] == "k" or rng.random() < 0.5]
    return dict(pairs)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2**48))
def test_a_random_function_gives_what_python_gives(seed: int) -> None:
    rng = Random(seed)
    is_dict = rng.random() < 0.5
    source = function(rng, is_dict)
    combine = eval(source)
    usual = rng.randrange(6)
    key: Any = "k" if is_dict else 0
    batches = [[record(rng, is_dict, usual) for _ in range(rng.randrange(1, 90))] for _ in range(6)]
    reduce = Reduce(combine, key)
    plain: dict[Any, Any] = {}
    tasks = [reduce.open(TaskContext("reduce[0]", 0, 1, 100, "job")) for _ in range(2)]
    for turn, batch in enumerate(batches):
        expected = []
        try:
            for each in batch:
                at = each[key]
                plain[at] = combine(plain[at], each) if at in plain else each
                expected.append(plain[at])
        except (TypeError, KeyError):
            break
        encoded = Batch.from_list(batch)
        for task, given_ in zip(tasks, (encoded, encoded if turn % 2 else batch), strict=True):
            out = task.process(given_)
            found = out.to_list() if isinstance(out, Batch) else out
            assert repr(found) == repr(expected), source
        entries = [sorted(task.snapshot().entries) for task in tasks] if turn % 3 == 2 else []
        assert entries[:1] == entries[1:], source
