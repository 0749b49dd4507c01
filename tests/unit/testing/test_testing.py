"""`engine.testing`: a pipeline in this process."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import engine
from engine.testing import run
from operators import (
    ListState,
    ProcessContext,
    ProcessFunction,
    Sliding,
    Stream,
    source,
)
from operators.sinks import Callback, Collect, Counts
from operators.sources import Collection

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_words_are_counted_in_this_process(parallelism: int) -> None:
    words = source(Collection(["a", "b", "a"])).key_by().count().sink(Counts())
    assert run(words, parallelism=parallelism) == {"counts": {"a": 2, "b": 1}}


def test_a_failure_is_raised() -> None:
    with pytest.raises(engine.OperatorError, match=r"operator 'map' .* on record 0"):
        run(source(Collection([1, 0])).map(lambda n: 1 / n).rebalance().sink(Collect()))


@dataclass
class Basket:
    """Which says of no two that they are equal, or not."""

    n: int
    things: list[str]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nothing compares baskets")


class Remember(ProcessFunction):
    """Gives what it keeps."""

    kept = ListState[Any]()

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        self.kept.append(record)
        return list(self.kept)


def more(record: dict[str, Any]) -> dict[str, Any]:
    record["n"] += 1
    return record


def one_more(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"n": record["n"] + 1}


def put(basket: Basket) -> Basket:
    basket.things.append("hat")
    return basket


def cleared(array: Any) -> Any:
    array[0] = 0
    return array


SECOND = timedelta(seconds=1)
DICTS: list[Any] = [{"k": "a", "n": 1}, {"k": "a", "n": 2}, {"k": "b", "n": 3}]
CHANGES: dict[str, tuple[list[Any], Callable[[Stream[Any]], Stream[Any]], str, str]] = {
    "reduce": (
        DICTS,
        lambda s: s.key_by("k").reduce(lambda a, b: {**a, "n": a["n"] + b["n"]}).map(more),
        "operator 'map' .* on record {'k': 'a', 'n': 1}: RecordChanged: it made {'k': 'a', 'n': 2}",
        "'reduce'",
    ),
    "process": (
        DICTS,
        lambda s: s.key_by("k").process(Remember()).filter(lambda r: more(r)["n"] > 0),
        "operator 'filter' .* on record {'k': 'a', 'n': 1}",
        "'process'",
    ),
    "windows": (
        DICTS,
        lambda s: (
            s.key_by("k")
            .window(Sliding(4 * SECOND, 2 * SECOND), time="n", unit="s")
            .collect()
            .flat_map(lambda row: row[1].append(None) or [row])
        ),
        "operator 'flat_map'",
        "'collected'",
    ),
    "joins": (
        DICTS,
        lambda s: (
            s.key_by("k")
            .interval_join(
                source(Collection(DICTS)).key_by("k"),
                between=(-SECOND, SECOND),
                time="n",
                right_time="n",
                unit="s",
            )
            .map_batches(lambda pairs: [more(right) for _, right in pairs])
        ),
        "operator 'map_batches'",
        "'interval_join'",
    ),
    "the function of reduce itself": (
        [{"k": "a", "n": 1}, {"k": "a", "n": 2}],
        lambda s: s.key_by("k").reduce(lambda a, b: a.update(n=a["n"] + b["n"]) or a),
        "operator 'reduce' .* on record {'k': 'a', 'n': 1}",
        "it was given",
    ),
    "a dataclass without equality": (
        [Basket(1, ["cup"])],
        lambda s: s.map(put),
        r"on record Basket\(n=1, things=\['cup'\]\): RecordChanged: it made .*'hat'",
        "it was given",
    ),
    "an array": (
        [np.ones(2)],
        lambda s: s.map(cleared),
        r"on record array\(\[1., 1.\]\)",
        "it was given",
    ),
    "an array inside": (
        [("a", [np.ones(2)])],
        lambda s: s.map(lambda r: cleared(r[1][0])),
        "operator 'map'",
        "it was given",
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_function_that_changes_a_record_is_named(kind: str) -> None:
    records, flow, words, before = CHANGES[kind]
    with pytest.raises(engine.OperatorError, match=words) as raised:
        run(flow(source(Collection(records))).sink(Collect()), check_changes=True)
    assert raised.value.hint is not None
    assert "return a new record" in raised.value.hint
    assert raised.match(f"a record that '?.*{before}")


def test_a_sink_that_changes_a_record_is_named() -> None:
    kept = source(Collection([{"n": 1}])).map(dict)
    with pytest.raises(engine.OperatorError, match=r"operator 'callback'.* 'map' gave it"):
        run(kept.sink(Callback(more)), check_changes=True)


def test_functions_that_return_new_records_pass() -> None:
    records = [{"k": "a", "n": 1, "x": np.ones(2), "s": {1, 2}, "o": object}] * 3
    records_out = source(Collection(records)).map(one_more).map_batches(lambda batch: batch.copy())
    sorted_out = records_out.map_batches(lambda batch: batch.sort(key=str) or batch)
    found = run(sorted_out.map(lambda r: r["n"]).sink(Collect()), check_changes=True)
    assert found == {"collect": [2, 2, 2]}


def test_without_the_check_nothing_is_compared() -> None:
    found = run(source(Collection([{"n": 1}])).map(more).sink(Collect()))
    assert found == {"collect": [{"n": 2}]}
