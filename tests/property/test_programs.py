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
from tests.functions import Function, generate, same
from tests.writing import Writer


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
        stages = [(random.choice(("map", "map", "map", "filter", "flat_map", "key")), function)]
        data = [lifted.expression.to_data()]
        source = made.source
        if random.random() < 0.3:
            before = Function(Writer(random, made.shapes).source(), made.shapes)
            lifted = lift(before.compiled(), 1)
            if isinstance(lifted, Lifted):
                stages.insert(0, ("filter", before.compiled()))
                data.insert(0, lifted.expression.to_data())
                source = f"{before.source}\n{source}"
        try:
            program = Program([(s, of) for (s, _), of in zip(stages, data, strict=True)])
        except ValueError as unknown:
            counts[f"unknown: {unknown}"] += 1
            continue
        for _ in range(values):
            records = [made.values(random)[0] for _ in range(random.choice((1, 1, 2)))]
            _compare(program, stages, [*records, records[0]], source, counts)
    return counts


def _compare(
    program: Program,
    stages: list[tuple[str, Callable[[Any], Any]]],
    values: list[Any],
    source: str,
    counts: Counter[str],
) -> None:
    try:
        encoded = Batch.from_list(values)
    except EncodeError:
        encoded = None
    told = f"{[stage for stage, _ in stages]}\n{source}\nof {values!r}"
    for batch in (encoded, values):
        if batch is None:
            continue
        records = batch.decode() if isinstance(batch, Batch) else batch
        got = program.run(batch)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `~True`
                expected = records
                for stage, function in stages:
                    expected = _through(stage, function, expected)
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
        assert program.counts[-1] == len(expected)
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
