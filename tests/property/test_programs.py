"""Functions at random: their programs give what they give, byte for byte, or give up.

By hand: `python -m tests.property.test_programs SEED FUNCTIONS VALUES` counts pairs of a function
and a value. What gave up is counted apart where the function raises, too.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from engine.expression.lift import Lifted, lift
from engine.network import Batch, EncodeError, Program
from tests.functions import generate, same


def test_a_program_gives_what_its_function_gives() -> None:
    counts = compared(seed=1, functions=500, values=6)
    assert counts["equal"] > 1000
    assert counts["gave up"] < counts["equal"] / 5


def compared(seed: int, functions: int, values: int) -> Counter[str]:
    """How many pairs of a function and its argument had each outcome."""
    counts: Counter[str] = Counter()
    for number in range(functions):
        random = Random(f"{seed} {number}")
        made = generate(random)
        function = made.compiled()
        lifted = lift(function, 1)
        if not isinstance(lifted, Lifted):
            counts["refused"] += 1
            continue
        stage = random.choice(("map", "map", "map", "filter", "flat_map", "key"))
        try:
            program = Program([(stage, lifted.expression.to_data())])
        except ValueError as unknown:
            counts[f"unknown: {unknown}"] += 1
            continue
        for _ in range(values):
            (value,) = made.values(random)
            _compare(program, stage, function, value, made.source, counts)
    return counts


def _compare(
    program: Program,
    stage: str,
    function: Callable[[Any], Any],
    value: Any,
    source: str,
    counts: Counter[str],
) -> None:
    try:
        encoded = Batch.from_list([value, value])
    except EncodeError:
        encoded = None
    told = f"{stage}\n{source}\nof {value!r}"
    for batch in (encoded, [value]):
        if batch is None:
            continue
        records = batch.decode() if isinstance(batch, Batch) else batch
        got = program.run(batch)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `~True`
                expected = _through(stage, function, records)
                wanted = Batch.from_list(expected)
        except Exception:  # noqa: BLE001  # whatever it raises
            expected = None
        if expected is None:
            assert isinstance(got, str), f"{told}: {got}, but it raises"
            counts["raises"] += 1
            continue
        if isinstance(got, str):
            counts["gave up"] += 1
            counts[f"gave up: {got}"] += 1
            continue
        decoded, expected = got.decode(), wanted.decode()
        assert same(decoded, expected), f"{told}: {decoded}, not {expected}"
        assert len(got) == len(expected)
        assert program.counts == [len(expected)]
        assert got.__reduce__()[1] == wanted.__reduce__()[1], f"{told}: other bytes"
        counts["equal"] += 1


def _through(stage: str, function: Callable[[Any], Any], records: list[Any]) -> list[Any]:
    if stage == "map":
        return [function(record) for record in records]
    if stage == "filter":
        return [record for record in records if function(record)]
    if stage == "key":
        return [(function(record), record) for record in records]
    return [item for record in records for item in function(record)]


if __name__ == "__main__":
    for outcome, count in compared(*map(int, sys.argv[1:4])).most_common():
        print(count, outcome)
