"""Cases of Bytewax's join tests (bytewax/bytewax, test_join and test_join_window), as data.

14 of 18 are here (Apache-2.0, version 19b59468), with each mode of its joins as Oka says it: its
"complete" is an inner join of tables of the last values, "final" what a full join of these comes to
at the end, "running" its changes, and "product" a join of all records. In windows these are pairs
of what `cogroup` gathers. A named join is the same with other names of the results, so that each
case stands for two. The rest does not apply: two tests of a class of its own, and "running" in
windows, whose results come before a window is complete (two tests).
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from engine.graph.context import TaskContext
from engine.testing import run
from operators import Session, source
from operators.changes import Change
from operators.keyed_stream import KeyedStream
from operators.sinks import Collect
from operators.sources import Collection
from tests.joining import Encoded
from tests.unit.operators.tables.test_kafka_table_joins import opened

pytestmark = pytest.mark.usefixtures("nothing_left")

KEY = "ALL"


def keyed(values: list[int]) -> KeyedStream[Any, Any]:
    """All of one key, in their order."""
    return source(Collection([(KEY, value) for value in values])).with_parallelism(1).key_by(0)


def pair(left: Any, right: Any) -> tuple[Any, Any]:
    return left and left[1], right and right[1]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    ("mode", "left", "right", "expected"),
    [
        ("complete", [1], [2], [(1, 2)]),
        ("final", [1], [2, 3], [(1, 3)]),
        ("product", [1, 2], [3, 4], [(1, 3), (1, 4), (2, 3), (2, 4)]),
    ],
)
def test_modes(
    mode: str, left: list[int], right: list[int], expected: list[Any], parallelism: int
) -> None:
    if mode == "product":
        joined = keyed(left).join(keyed(right), pair)
    else:
        how: Any = "inner" if mode == "complete" else "full"
        joined = keyed(left).latest().join(keyed(right).latest(), pair, how=how)
    rows: Counter[Any] = Counter()
    for each in run(joined.sink(Collect()), parallelism=parallelism)["collect"]:
        if isinstance(each, Change):
            rows[each.record] += 1 if each.kind.startswith("+") else -1
        else:
            rows[each] += 1
    assert sorted(rows.elements()) == expected
    assert min(rows.values()) >= 0


def test_running() -> None:
    context = TaskContext("t", 0, 1, 1000, "job")
    tables = [keyed([]).latest() for _ in range(2)]
    left, right = (opened(each.changes(), context) for each in tables)
    join = opened(tables[0].join(tables[1], pair, how="full"), context)
    found: list[Any] = []
    for side, value in ((0, 1), (1, 2), (1, 3)):
        changes = (left, right)[side].process([(KEY, value)])
        found += [each.record for each in join.process(Encoded(side, changes)) if "+" in each.kind]
    assert found == [(1, None), (1, 2), (1, 3)]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    ("mode", "left", "right", "expected"),
    [
        ("complete", [(1, 0)], [(2, 1)], [(1, 2)]),
        ("final", [(1, 0)], [(2, 1), (3, 2)], [(1, 3)]),
        ("product", [(1, 0), (2, 1)], [(3, 1), (4, 2)], [(1, 3), (1, 4), (2, 3), (2, 4)]),
    ],
)
def test_modes_in_sessions(
    mode: str, left: list[Any], right: list[Any], expected: list[Any], parallelism: int
) -> None:
    sides = [
        source(Collection([(KEY, *each) for each in own]))
        .with_parallelism(1)
        .with_event_time(2, unit="s", out_of_orderness=timedelta(seconds=10))
        .key_by(0)
        for own in (left, right)
    ]

    def pairs(_key: Any, lefts: list[Any], rights: list[Any], *_: Any) -> list[Any]:
        both = [[value for _, value, _ in own] for own in (lefts, rights)]
        return [*product(*(both if mode == "product" else [own[-1:] for own in both]))]

    grouped = sides[0].cogroup(sides[1], Session(timedelta(seconds=10)), pairs)
    ((_, found, *_),) = run(grouped.sink(Collect()), parallelism=parallelism)["collect"]
    assert sorted(found) == expected
