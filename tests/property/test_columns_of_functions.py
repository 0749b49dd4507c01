"""Functions over columns: facts of Python, and functions at random, give what Python gives.

By hand: `python -m tests.property.test_columns_of_functions SEED FUNCTIONS VALUES`.
"""

import sys
import warnings
from collections import Counter
from random import Random
from typing import Any

import pytest

from engine.expression.lift import Lifted, lift
from tests.column_programs import compared
from tests.facts import FACTS
from tests.functions import generate
from tests.in_columns import Columns, shape_of


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_of_python_is_met_or_refused(fact: str) -> None:
    function, values = FACTS[fact]
    counts = _of_values(Random(1), function, values)
    assert counts["equal"] or fact in NEVER_IN_COLUMNS


def test_functions_at_random_give_what_python_gives() -> None:
    counts = _at_random(seed=2, functions=120, values=20)
    assert counts["equal"] > 700
    assert counts["gives up"] < counts["equal"] / 5


NEVER_IN_COLUMNS = {
    *("left shift out of 64 bits", "split by nothing", "slice of step 0"),  # it fails, or nearly so
    *("matches", "matches of alternatives"),  # Arrow has no lists of all matches
    *(
        "key of another type",
        "one key",
        "order of keys",
        "tuple times number",
    ),  # keys of the record, equal dicts
}


def _at_random(seed: int, functions: int, values: int) -> Counter[str]:
    """Pairs of a function and a value, by what came of them."""
    counts: Counter[str] = Counter()
    for number in range(functions):
        random = Random(f"{seed} {number}")
        made = generate(random)
        drawn = [made.values(random)[0] for _ in range(values)]
        try:
            counts += _of_values(random, made.compiled(), drawn)
        except BaseException:
            print(f"function {number} of {seed}:\n{made.source}")
            raise
    return counts


def _of_values(random: Random, function: Any, values: list[Any]) -> Counter[str]:
    lifted = lift(function, 1)
    if not isinstance(lifted, Lifted):
        return Counter({"refused": len(values)})
    counts: Counter[str] = Counter()
    shapes: dict[Any, list[Any]] = {}
    for value in values:
        try:
            shapes.setdefault(shape_of(value), []).append(value)
        except ValueError:
            counts["not in columns"] += 1
    for shape, each in shapes.items():
        columns = Columns(shape, random, holes=random.random() < 0.2)
        stages = [columns.stage(), ("map", function, lifted.expression)]
        if random.random() < 0.2:
            stages.append(("filter", function, lifted.expression))
            stages.pop(1)
        outcome = _outcome(stages, columns.batch(each))
        if outcome == "equal" or len(each) == 1:
            counts[outcome] += len(each)
            counts["in whole batches"] += len(each) * (outcome == "equal")
            continue
        for one in each:
            counts[_outcome(stages, columns.batch([one]))] += 1
    return counts


def _outcome(stages: Any, batch: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `~True`
        found = compared(stages, batch)
    return "equal" if found in ("columns", "list") else found


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # for texts of some 2**50 letters
    seed, functions, values = map(int, sys.argv[1:4])
    print(dict(_at_random(seed, functions, values)))
