"""Steps, each over columns of each type."""

import math
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from engine.columns import rows
from engine.expression.tree import Block
from engine.network import take_rows
from tests import arrow_types
from tests.column_programs import Lines, compared

Function = Callable[[Any], Any]
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
CONSTANTS: list[Any] = [0, 1, -3, 7, 1 << 62, 1 << 53, True, 0.5, -0.0, math.inf, "b", "", None]
UNARY: dict[tuple[str, Any], Function] = {
    ("negative", None): operator.neg,
    ("positive", None): operator.pos,
    ("not", None): operator.not_,
    ("truth", None): bool,
    ("format", ("", "")): format,
    ("format", ("r", ">9")): lambda a: format(repr(a), ">9"),
    ("format", ("", ".2f")): lambda a: format(a, ".2f"),
    **{("call", each.__name__): each for each in (abs, int, float, str, len, round, repr, list)},
    ("call", "isinstance:int|NoneType"): lambda a: isinstance(a, int | None),
    ("call", "isinstance:dict|float"): lambda a: isinstance(a, dict | float),
    **{
        ("method", name): operator.methodcaller(name)
        for name in ("upper", "lower", "strip", "split", "title", "isdigit", "encode", "isoformat")
    },
}
OTHERS: dict[str, tuple[str, Any, list[Any], Function]] = {
    "is None": ("is", None, [None], lambda a: a is None),
    "is True": ("is", None, [True], lambda a: a is True),
    "in a tuple": ("in", None, [(1, 2.0, "b", None)], lambda a: a in (1, 2.0, "b", None)),
    "in a set": ("in", None, [frozenset((3, "d", b"b"))], lambda a: a in frozenset((3, "d", b"b"))),
    "first": ("item", None, [0], lambda a: a[0]),
    "last": ("item", None, [-1], lambda a: a[-1]),
    "a field": ("item", None, ["a"], lambda a: a["a"]),
    "slice": ("slice", None, [1, -1, None], lambda a: a[1:-1]),
    "backwards": ("slice", None, [None, None, -1], lambda a: a[::-1]),
    "startswith": ("method", "startswith", ["a "], lambda a: a.startswith("a ")),
    "endswith": ("method", "endswith", [("a", "c")], lambda a: a.endswith(("a", "c"))),
    "replace": ("method", "replace", ["e", "ee"], lambda a: a.replace("e", "ee")),
    "find": ("method", "find", ["t"], lambda a: a.find("t")),
    "count": ("method", "count", ["t"], lambda a: a.count("t")),
    "split by": ("method", "split", ["t"], lambda a: a.split("t")),
    "rstrip": ("method", "rstrip", ["ab"], lambda a: a.rstrip("ab")),
    "get": ("method", "get", ["b", 5], lambda a: a.get("b", 5)),
    "min": ("call", "min", [5], lambda a: min(a, 5)),
    "max": ("call", "max", [2.5], lambda a: max(a, 2.5)),
    "round": ("call", "round", [1], lambda a: round(a, 1)),
}


def of_step(operation: str, value: Any, constants: list[Any], *, swapped: bool = False) -> Block:
    """`{"i": r["i"], "got": step(r["x"], constants…)}`."""
    line = Lines()
    number, x = line.field("i"), line.field("x")
    operands = [x, *map(line.constant, constants)]
    got = line.step(operation, *(operands[::-1] if swapped else operands), value=value)
    return line.ends(line.dict(i=number, got=got))


def _steps() -> list[tuple[Block, Function]]:
    found: list[tuple[Block, Function]] = []
    for name, two in BINARY.items():
        for constant in CONSTANTS[:4] if name in ("**", "<<") else CONSTANTS:
            found.append((of_step(name, None, [constant]), _with(two, constant)))
            swapped = of_step(name, None, [constant], swapped=True)
            found.append((swapped, _with(two, constant, swapped=True)))
    found += [(of_step(*step, []), function) for step, function in UNARY.items()]
    found += [(of_step(*step, constants), one) for *step, constants, one in OTHERS.values()]
    return found


def _with(two: Callable[[Any, Any], Any], constant: Any, *, swapped: bool = False) -> Function:
    return lambda x: two(constant, x) if swapped else two(x, constant)


STEPS = _steps()
PARTS = 12


def batches(name: str) -> list[pa.RecordBatch]:
    """Cut out of another, empty, and without nulls."""
    cut, empty = arrow_types.batches(name)[1:3]
    if "union" in name:
        return [cut, empty]
    filled = [at for at, row in enumerate(rows(cut)) if row["x"] is not None]
    return [cut, empty, take_rows(cut, pa.array(filled, "int64"))]


@pytest.mark.table(PARTS)
@pytest.mark.parametrize("name", list(arrow_types.ALL))
@pytest.mark.parametrize("part", list(range(PARTS)))
def test_a_step_gives_what_python_gives_for_a_column(name: str, part: int) -> None:
    counts: Counter[str] = Counter()
    for block, function in STEPS[part::PARTS]:
        for batch in batches(name):
            stage = ("map", _beside(function), block)
            counts[compared([stage], batch)] += 1
    if name in PLAIN:
        assert counts["gives up"] <= counts.total() / 15


def _beside(function: Function) -> Function:
    return lambda row: {"i": row["i"], "got": function(row["x"])}


PLAIN = (
    arrow_types.BOOLS
    | arrow_types.INTEGERS
    | arrow_types.FLOATS
    | arrow_types.STRINGS
    | arrow_types.BINARIES
    | arrow_types.NUMBER_CODES
)

EDGES: dict[str, list[Any]] = {
    "int64": [-(1 << 63), -(1 << 53) - 1, -7, -1, 0, 1, 2, 63, 64, (1 << 53) + 1, (1 << 63) - 1],
    "uint64": [0, 3, (1 << 63) - 1, 1 << 63, (1 << 64) - 1],
    "double": [
        *(math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, -0.3, 2.5, 5e-324),
        *(-1.0, float(1 << 53), float(1 << 63), 1.7e308),
    ],
    "float": [1.1, -0.0, math.nan, 3.4e38],
    "bool": [True, False],
    "string": ["", "a", "b", "ab", "é", "\U0001d4b3y", "b\0"],
}
TWO: dict[str, tuple[str, Any, Callable[[Any, Any], Any]]] = {
    **{name: (name, None, two) for name, two in BINARY.items()},
    "min": ("call", "min", min),
    "max": ("call", "max", max),
    "in": ("in", None, lambda a, b: a in b),
    "divmod": ("call", "divmod", divmod),
    "round": ("call", "round", round),
    "item": ("item", None, lambda a, b: a[b]),
}


@pytest.mark.table(len(EDGES))
@pytest.mark.parametrize("name", list(TWO))
@pytest.mark.parametrize("left", list(EDGES))
def test_values_at_the_edges_give_what_python_gives(name: str, left: str) -> None:
    operation, value, two = TWO[name]
    line = Lines()
    x, y = line.field("x"), line.field("y")
    block = line.ends(line.dict(got=line.step(operation, x, y, value=value)))
    stage = ("map", lambda row: {"got": two(row["x"], row["y"])}, block)
    for right, ys in EDGES.items():
        good = []
        for one, other in ((one, other) for one in EDGES[left] for other in ys):
            if name in ("**", "<<") and isinstance(other, int) and other > 70:
                continue  # for minutes
            pair = pa.record_batch({"x": pa.array([one], left), "y": pa.array([other], right)})
            if compared([stage], pair) in ("columns", "list"):
                good.append(pair)
        if good:
            compared([stage], pa.Table.from_batches(good).combine_chunks().to_batches()[0])
