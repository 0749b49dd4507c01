"""Functions at random, lifted and run: `python -m tests.lifting SEED FUNCTIONS VALUES`.

It counts pairs of a function and a value. Any Python from 3.10 on will do, without any package.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":  # the engine's other modules need the Rust core
    sys.modules["engine"] = engine = ModuleType("engine")
    engine.__path__ = [str(ROOT / "engine")]

from engine.expression.lift import Lifted, lift  # noqa: E402
from tests.expressions import compare  # noqa: E402
from tests.facts import FACTS  # noqa: E402
from tests.functions import generate  # noqa: E402


def compared(seed: int, functions: int, values: int) -> Counter[str]:
    """How many functions were lifted, and pairs of one and its arguments with each outcome."""
    counts: Counter[str] = Counter()
    for function, arguments in FACTS.values():
        lifted = lift(function, 1)
        assert isinstance(lifted, Lifted), lifted
        counts.update(compare(lifted, function, argument) for argument in arguments)
    for number in range(functions):
        random = Random(f"{seed} {number}")
        made = generate(random, arguments=random.choice((1, 1, 1, 2)))
        function = made.compiled()
        lifted = lift(function, made.arguments)
        if not isinstance(lifted, Lifted):
            counts["refused"] += 1
            continue
        counts["lifted"] += 1
        try:
            counts.update(compare(lifted, function, *made.values(random)) for _ in range(values))
        except AssertionError as error:
            raise AssertionError(f"{made.source}\n{error}") from None
    return counts


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))  # for texts of some 2**50 letters
    print(sys.version.split()[0], dict(compared(*map(int, sys.argv[1:4]))))
