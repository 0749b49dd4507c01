"""Keys that functions find in columns: pairs as from dicts, at the same tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from engine.columns import rows
from engine.graph.logical import LogicalOperator
from engine.network import Batch
from engine.task.native import NativeStretch, stretches
from engine.task.runs import of_filter, of_key, of_map
from engine.testing import run
from operators import Stream, source
from operators.sinks import Collect
from operators.sources import Collection

PLAIN = [{"k": n % 7, "name": f"n{n % 3}", "n": n, "x": n / 2, "none": None} for n in range(40)]
ROWS: dict[str, list[dict[str, Any]]] = {
    "plain": PLAIN,
    "times": [{**row, "at": datetime(2026, 1, 1, 0, row["n"])} for row in PLAIN],
    "nested": [{**row, "in": {"a": row["n"]}, "all": [1, row["n"]]} for row in PLAIN],
    "nulls": [{**row, "k": row["k"] or None} for row in PLAIN],
}
KEYS: dict[str, Callable[[Stream[Any]], Any]] = {
    "field": lambda stream: stream.key_by(lambda r: r["k"]),
    "computed": lambda stream: stream.key_by(lambda r: f"{r['name']}-{r['n'] % 5}"),
    "pair": lambda stream: stream.key_by(lambda r: (r["k"], r["x"] > 3)),
    "mapped": lambda stream: stream.map(lambda r: {**r, "m": r["n"] * 2}).key_by(lambda r: r["m"]),
    "filtered": lambda stream: stream.filter(lambda r: r["n"] > 9).key_by(lambda r: r["name"]),
    "of no dict": lambda stream: stream.map(lambda r: r["n"]).key_by(lambda n: n % 3),
    "of none": lambda stream: stream.filter(lambda r: r["n"] < 0).key_by(lambda r: r["k"]),
}


def stretch(stream: Any) -> tuple[NativeStretch, Callable[[Any], Any]]:
    """The operators behind the source as a stretch, with its run in front of a gate."""
    declared = []
    inputs = stream.inputs
    while inputs[0].source.inputs:
        declared.append(inputs[0].source)
        inputs = inputs[0].source.inputs
    operators = [
        LogicalOperator(at, each.name, each.operator, 1, {})
        for at, each in enumerate(reversed(declared))
    ]
    (found,) = stretches(operators, {}, "require").values()
    for each in operators:
        counter = [0]
        form, function = each.operator.form, each.operator.function  # type: ignore[union-attr]
        if form == "filter":
            found.interpreted.append(of_filter(function, counter, None))  # type: ignore[arg-type]
        else:
            made = of_map if form == "map" else of_key
            found.interpreted.append(made(function, None))  # type: ignore[arg-type]
        found.counters.append(counter if form == "filter" else None)
    return found, found.run(gives_encoded=True)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("given", ROWS)
def test_pairs_are_encoded_from_columns(given: str, key: str) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS[given])
    found, process = stretch(KEYS[key](source(Collection([]))))
    out = process(batch)
    records: Any = rows(batch)
    for each in found.interpreted:
        records = each(records)
    assert type(out) is Batch
    assert repr(out.to_list()) == repr(records)
    assert [each.fallbacks for each in found.figures] == [0] * len(found.figures)
    assert found.figures[0].native == len(batch)


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("key", ["field", "mapped", "of no dict"])
def test_all_ways_give_the_same(key: str, tasks: int) -> None:
    batches = [pa.RecordBatch.from_pylist(PLAIN[at : at + 10]) for at in range(0, 40, 10)]
    odd = pa.RecordBatch.from_pylist([{**PLAIN[9], "n": 2**62}] * 9)
    found = []
    for way in ("off", "auto", "check"):
        keyed = KEYS[key](source(Collection([*batches, odd])))
        counted = keyed.reduce(lambda a, b: b).sink(Collect())
        out = run(counted, native=way, parallelism=tasks)["collect"]
        found.append(sorted(map(repr, out)))
    assert found[0] == found[1] == found[2] != []


def test_what_cannot_be_dicts_is_told() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1] * 9)] * 2, ["a", "a"])
    stream = source(Collection([twice])).key_by(lambda r: r["a"]).count().sink(Collect())
    with pytest.raises(Exception, match="a dict of a row would have a once"):
        run(stream)
