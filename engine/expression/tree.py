"""What a function computes: straight lines of steps, and branches between them.

The steps are in the order in which Python evaluates them, and each that may fail is there, whether
its result is used or not. So an expression fails on exactly the records on which the function
raises. How a step fails is not written here: the function itself is called then, and raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Register: TypeAlias = int
"""The number of a value: the arguments are 0, 1, …; each step has the next number of its path."""


class Step(NamedTuple):
    r"""One value from others before it.

    | operation | operands | value |
    |---|---|---|
    | constant | | `value`: None, bool, int, float, str, bytes, or a tuple or frozenset of those |
    | item | a, b | `a[b]` |
    | slice | a, start, stop, step | `a[start:stop:step]`; what is absent is a constant None |
    | attribute | a | `a.name`, of a record with fields; `value` is the name |
    | tuple, list | … | `(a, b, …)`, `[a, b, …]` |
    | dict | k, v, k, v, … | `{k: v, …}`: later ones win, at the place of the first |
    | merge | a, b | `{**a, **b}`, for a and b that are dicts |
    | extend | a, b | `[*a, *b]`, for a that is a list |
    | + - * / // % ** & \| ^ << >> | a, b | `a + b` and so on |
    | negative, positive, invert | a | `-a`, `+a`, `~a` |
    | not, truth | a | `not a`, `bool(a)` |
    | < <= == != > >= | a, b | `a < b` and so on |
    | is, in | a, b | `a is b`, `a in b`; `is` with None, True or False as one operand |
    | format | a | f-string: `value` is (conversion, spec), of "", "s", "r" or "a" and a str |
    | join_text | … | f-string: `"".join((a, b, …))` of texts |
    | call | … | the builtin `value`, such as "len", with these arguments |
    | call | … | "enumerate", "range", "reversed", "zip": a list of what they go through |
    | call | a | "dict": `dict(a)`, for a that is a list of pairs |
    | call | a | `isinstance(a, (int, float))`, whose `value` is "isinstance:int\|float" |
    | call | a | `PATTERN.findall(a)`, whose `value` is "findall:" and the pattern as Rust has it |
    | unpack | a | `(*a,)`, which has `value` items, as in `x, y = a` |
    | method | a, … | the method `value` of a, such as "lower", with the other arguments |
    | method | a | "items", "keys", "values": a list of them, for a that is a dict |
    | each | a | `[body(x) for x in a]`; `value` is the body's `Block` |

    A run gives up wherever an operand is an object of a subclass; where `-`, `&`, `|` or `^` has
    a set, since `-=` of one would change it, or `in` one on its left; where a method is one of
    bytes, but for `decode`; and where `unpack` meets another number of items.

    In `each`, the body sees all values so far; x is the next register. A body may end with `Skip`,
    for a comprehension with an `if`.
    """

    operation: str
    operands: tuple[Register, ...] = ()
    value: Any = None


@dataclass(frozen=True)
class Return:
    """The end of a path: the function's result."""

    register: Register


@dataclass(frozen=True)
class Branch:
    """Two ways on; `condition` is a register, whose truth decides."""

    condition: Register
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class Skip:
    """The end of a path in the body of `each`: no item."""


@dataclass(frozen=True)
class Block:
    """Steps one after the other, and what comes behind them."""

    steps: tuple[Step, ...]
    end: Return | Branch | Skip


@dataclass(frozen=True)
class Expression:
    """A lifted function of `arguments` arguments."""

    arguments: int
    body: Block

    def to_data(self) -> tuple[Any, ...]:
        """As nested tuples, for Rust: `(arguments, block)`.

        A block is `([(operation, [operands], value), …], end)`. An end is `("return", register)`,
        `("branch", condition, block, block)` or `("skip",)`. The value of `each` is a block.

        >>> Expression(1, Block((Step("call", (0,), "len"),), Return(1))).to_data()
        (1, ([('call', [0], 'len')], ('return', 1)))
        """
        return self.arguments, _block_data(self.body)


def of_pair(expression: Expression) -> Expression:
    """The function of a pair in place of one of two arguments: `f(pair[0], pair[1])`.

    >>> of_pair(Expression(2, Block((Step("+", (0, 1)),), Return(2)))).body.steps[-1]
    Step(operation='+', operands=(2, 4), value=None)
    """
    taken = (
        *(Step("constant", (), 0), Step("item", (0, 1))),
        *(Step("constant", (), 1), Step("item", (0, 3))),
    )
    body = _renumbered(
        expression.body, lambda register: 2 * register + 2 if register < 2 else register + 3
    )
    return Expression(1, Block((*taken, *body.steps), body.end))


def _renumbered(block: Block, new: Callable[[Register], Register]) -> Block:
    steps = tuple(
        Step(
            step.operation,
            tuple(map(new, step.operands)),
            _renumbered(step.value, new) if isinstance(step.value, Block) else step.value,
        )
        for step in block.steps
    )
    end = block.end
    if isinstance(end, Return):
        end = Return(new(end.register))
    elif isinstance(end, Branch):
        then, otherwise = _renumbered(end.then, new), _renumbered(end.otherwise, new)
        end = Branch(new(end.condition), then, otherwise)
    return Block(steps, end)


def _block_data(block: Block) -> tuple[Any, ...]:
    steps = [
        (
            step.operation,
            list(step.operands),
            _block_data(step.value) if isinstance(step.value, Block) else step.value,
        )
        for step in block.steps
    ]
    end = block.end
    if isinstance(end, Return):
        return steps, ("return", end.register)
    if isinstance(end, Branch):
        return steps, ("branch", end.condition, _block_data(end.then), _block_data(end.otherwise))
    return steps, ("skip",)
