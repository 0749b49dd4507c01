"""Functions at random: what they are lifted to gives what they give, types and all, or fails, too.

By hand: `python tests/property/test_lifting.py SEED FUNCTIONS VALUES`, with any Python from 3.10 on
that has no packages at all, counts pairs of a function and a value.
"""

import sys
import types
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

if __name__ == "__main__":  # the engine's other modules need the Rust core
    root = Path(__file__).parents[2]
    sys.path[0] = str(root)
    sys.modules["engine"] = engine = types.ModuleType("engine")
    engine.__path__ = [str(root / "engine")]

from engine.expression.lift import Lifted, lift
from tests.expressions import GaveUp, evaluate
from tests.functions import generate, same


def test_a_lifted_function_gives_what_the_function_gives() -> None:
    counts = compared(seed=1, functions=600, values=4)
    assert counts["lifted"] > 500
    assert counts["equal"] > 1000
    assert counts["gave up"] < counts["equal"] / 5


def compared(seed: int, functions: int, values: int) -> Counter[str]:
    """How many functions were lifted, and pairs of one and its arguments with each outcome."""
    counts: Counter[str] = Counter()
    for number in range(functions):
        random = Random(f"{seed} {number}")
        made = generate(random, arguments=random.choice((1, 1, 1, 2)))
        function = made.compiled()
        lifted = lift(function, made.arguments)
        if not isinstance(lifted, Lifted):
            counts["refused"] += 1
            counts[lifted.reason.rsplit(", line", 1)[0]] += 1
            continue
        counts["lifted"] += 1
        for _ in range(values):
            arguments = made.values(random)
            before = repr(arguments)
            got = _run(partial(evaluate, lifted.expression), arguments)
            if isinstance(got[1], GaveUp):
                counts["gave up"] += 1
                continue
            wanted = _run(function, arguments)
            told = f"{made.source}\nof {before}: {got}, not {wanted}"
            assert got[0] == wanted[0], told
            assert not got[0] or same(got[1], wanted[1]), told
            assert repr(arguments) == before, told
            counts["equal" if got[0] else "failed both"] += 1
    return counts


def _run(function, arguments):  # type: ignore[no-untyped-def]
    """Whether it gives something, and that, or what it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `~True`
            return True, function(*arguments)
    except Exception as error:  # noqa: BLE001  # whatever it raises
        return False, error


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))  # for texts of some 2**50 letters
    print(sys.version.split()[0], dict(compared(*map(int, sys.argv[1:4]))))
