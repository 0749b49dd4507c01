"""Random regular expressions: whatever is read in Rust finds there what it finds in Python."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.expression.lift import Lifted, lift
from engine.expression.patterns import in_rust
from engine.network import Batch, Program
from tests.part import examples

LETTERS = "abc\n' -"


def pattern(rng: Random, depth: int = 0) -> str:
    """The source of a pattern, of which some are not understood."""
    kind = rng.randrange(7 if depth < 4 else 3)
    if kind == 0:
        return re.escape(rng.choice(LETTERS))
    if kind == 1:
        return f"[{''.join(rng.choices(['a-b', 'b', 'c', ' ', chr(39), '^b', '0-9'], k=2))}]"
    if kind == 2:
        return rng.choice(
            ["a", "b", "c", "ab", ".", "\\w", "é", "^", "$", "\\b", "(a)", "(?=b)", "(?i:a)"]
        )
    if kind == 3:
        return f"(?:{pattern(rng, depth + 1)}|{pattern(rng, depth + 1)})"
    if kind == 4:
        of = f"(?:{pattern(rng, depth + 1)})"
        many = rng.choice(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}"])
        return of + many + rng.choice(["", "", "?"])
    return pattern(rng, depth + 1) + pattern(rng, depth + 1)


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 2**48))
def test_a_random_pattern_finds_what_it_finds_in_python(seed: int) -> None:
    rng = Random(seed)
    compiled = re.compile(pattern(rng))
    lifted = lift(lambda text: compiled.findall(text), 1)
    assert isinstance(lifted, Lifted) == (in_rust(compiled) is not None)
    if not isinstance(lifted, Lifted):
        return
    texts = ["".join(rng.choices(LETTERS + "é", k=rng.randrange(30))) for _ in range(20)]
    program = Program([("map", lifted.expression.to_data())])
    for records in (texts, Batch.from_list(texts)):
        found = program.run(records)
        assert isinstance(found, Batch), found
        assert found.to_list() == [compiled.findall(text) for text in texts], compiled.pattern
