"""A path through a function: its bytecode is run on symbols, and forks where a value decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from types import CellType
from typing import Any, TypeAlias

from engine.expression import written
from engine.expression.frame import CACHE, EXTENDED, Frame
from engine.expression.guards import MISSING, Guards
from engine.expression.pure import is_constant
from engine.expression.symbols import NULL, UNBOUND, Display, Iterable, Known, Pairs, Symbol
from engine.expression.tree import Block, Branch, Register, Return, Skip, Step

End: TypeAlias = "Return | Branch | Skip"
Handler: TypeAlias = "Callable[[Path, int], End | None]"


class Refused(Exception):
    """The function is not one that can be lifted, and why."""


class Lifting:
    """What all paths through one function share."""

    __slots__ = ("blocks", "guards", "handlers", "operations")

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self.handlers = handlers
        self.guards = Guards()
        self.operations = 0
        self.blocks = 0


class Path:
    """One way through a function: the steps so far, and where each value is."""

    __slots__ = ("_known", "_truths", "here", "lifting", "next", "numbers", "plain", "steps")

    def __init__(self, lifting: Lifting, arguments: int) -> None:
        self.lifting = lifting
        self.here = Frame(_outside.__code__, {}, {}, {}, {}, None)
        self.next: Register = arguments
        self.steps: list[Step] = []
        self.plain: set[Register] = set()
        """Registers of values that are no lists, dicts or sets, so that nobody can change them."""
        self.numbers: set[Register] = set()
        """Those of them that are numbers."""
        self._known: dict[int, tuple[Register, Any]] = {}
        self._truths: dict[Register, bool] = {}

    def fork(self) -> Path:
        """The same path, to be continued another way: with steps of its own."""
        path = Path.__new__(Path)
        path.lifting = self.lifting
        path.here = self.here.copy()
        path.next = self.next
        path.steps = []
        path.plain = self.plain.copy()
        path.numbers = self.numbers.copy()
        path._known = self._known.copy()
        path._truths = self._truths.copy()
        return path

    def run(self) -> Block:
        """What comes from here on.

        Raises:
            Refused: something is not understood, or it is too much.

        """
        self.lifting.blocks += 1
        if self.lifting.blocks > _BLOCKS:
            raise self.refused("has too many ways through it")
        while True:
            frame = self.here
            end = self.step() if frame.pc != frame.loop else self._end_of_item(frame)
            if end is not None:
                return Block(tuple(self.steps), end)

    def step(self) -> End | None:
        """Runs one instruction."""
        frame, lifting = self.here, self.lifting
        instructions = frame.instructions
        pc = frame.start = frame.pc
        opcode, argument = instructions[pc], instructions[pc + 1]
        pc += 2
        while opcode == EXTENDED:
            opcode, argument = instructions[pc], argument << 8 | instructions[pc + 1]
            pc += 2
        while instructions[pc] == CACHE:
            pc += 2
        frame.pc = pc
        lifting.operations += 1
        if lifting.operations > _OPERATIONS:
            raise self.refused("is too long")
        return lifting.handlers[opcode](self, argument)

    def _end_of_item(self, frame: Frame) -> End:
        if frame.collected is None or frame.unrolled:
            return Skip()
        return Return(self.register(frame.collected))

    def emit(
        self, operation: str, operands: tuple[Register, ...] = (), value: Any = None
    ) -> Register:
        """A step more; the register of its value."""
        self.steps.append(Step(operation, operands, value))
        register = self.next
        self.next = register + 1
        kind = value if operation == "call" else operation
        if kind in _NUMBERS:
            self.numbers.add(register)
        elif kind in _PLAIN:
            self.plain.add(register)
        return register

    def value(self, operation: str, *operands: Symbol, value: Any = None) -> Register:
        """A step more, of symbols."""
        return self.emit(operation, tuple([self.register(of) for of in operands]), value)

    def register(self, symbol: Symbol) -> Register:
        """The register of a symbol; its value is made now if need be."""
        kind = type(symbol)
        if kind is int:
            register: Register = symbol
            return register
        if kind is Known:
            value = symbol.value
            if (at := self._known.get(id(value))) is not None:
                return at[0]
            if not is_constant(value):
                raise self.refused(f"reads {told(symbol)}")
            register = self.emit("constant", (), value)
            self._known[id(value)] = (register, value)
            return register
        if kind is Display:
            if (at := self._known.get(id(symbol))) is not None:
                return at[0]
            items = tuple([self.register(item) for item in symbol.items])
            register = self.emit(symbol.operation, items)
            self._known[id(symbol)] = (register, symbol)
            return register
        what = symbol.name if kind is Iterable else _TOLD.get(kind.__name__, "something")
        raise self.refused(f"uses {what} as a value")

    def iterated(self, symbol: Symbol) -> Symbol:
        """The symbol of a list or the like whose items are those of this symbol."""
        kind = type(symbol)
        if kind is Known and type(symbol.value) in (dict, list):
            return self.guarded(symbol, tuple)
        if kind not in (Iterable, Pairs):
            return symbol
        self.consumed(symbol)
        if kind is Iterable:
            return symbol.items
        if symbol.strict:
            raise self.refused("calls zip with strict, but in dict(zip(NAMES, values))")
        return self.value("call", symbol.names, symbol.of, value="zip")

    def guarded(self, known: Known, kind: type[tuple[Any, ...]] | type[frozenset[Any]]) -> Known:
        """A constant of what a list or a set has, or of a dict's keys, as long as it has them."""
        collection = known.value
        if type(collection) in (dict, list, set) and len(collection) <= _GUARDED:
            constant = kind(collection)
            if is_constant(constant):
                self.lifting.guards.collection(collection)
                return Known(constant)
        return known

    def consumed(self, symbol: Symbol) -> None:
        """Somebody goes through this symbol.

        Raises:
            Refused: somebody has done so.

        """
        if id(symbol) in self._known:
            raise self.refused("goes through an iterator twice")
        self._known[id(symbol)] = (-1, symbol)

    def branch(
        self, condition: Symbol, then: tuple[int, bool], otherwise: tuple[int, bool]
    ) -> End | None:
        """Goes on at one of two places; with each, whether the condition stays on the stack."""
        frame = self.here
        if (truth := self._truth(condition)) is not None:
            frame.pc, keep = then if truth else otherwise
            if keep:
                frame.stack.append(condition)
            return None
        register = self.register(condition)
        ways = []
        for truth, (pc, keep) in ((True, then), (False, otherwise)):
            path = self.fork()
            path._truths[register] = truth
            path.here.pc = pc
            if keep:
                path.here.stack.append(condition)
            ways.append(path.run())
        return Branch(register, *ways)

    def _truth(self, condition: Symbol) -> bool | None:
        """Whether it is true, if that is known."""
        kind = type(condition)
        if kind is int:
            return self._truths.get(condition)
        if kind is Known and is_constant(condition.value):
            return bool(condition.value)
        if kind is Display:
            return bool(condition.items)
        return None

    def jump(self, target: int) -> None:
        """Goes on somewhere else.

        Raises:
            Refused: that is backwards, and no comprehension's loop.

        """
        frame = self.here
        if target <= frame.start and target != frame.loop:
            raise self.refused("has a loop")
        frame.pc = target

    def each(self, of: Symbol, end: int) -> Symbol:
        """The list of what a loop, which starts here and ends there, makes of each item."""
        of = self.iterated(of)
        stored = self.here.stored(end)
        items = of.items if type(of) is Display else None
        if type(of) is Known and type(of.value) is tuple:
            items = [Known(value) for value in of.value]
        results: Symbol = None
        if items is not None and len(items) <= _UNROLLED:
            results = self._unrolled(items, stored)
        if results is None:
            source = self.register(of)
            body = self._body(self.next, stored, self, unrolled=False)
            body.next += 1
            results = self.emit("each", (source,), body.run())
        for name in stored:
            self.here.variables[name] = UNBOUND
        return results

    def _body(self, item: Symbol, stored: set[str], after: Path, unrolled: bool) -> Path:
        """The path through a loop's body for an item, behind another path."""
        body = after.fork()
        body.here = frame = self.here.copy()
        frame.loop, frame.collected, frame.unrolled = frame.start, None, unrolled
        for name in stored:
            frame.variables[name] = UNBOUND
        frame.stack.append(item)
        return body

    def _unrolled(self, items: list[Symbol], stored: set[str]) -> Display | None:
        """A loop through known items, one body behind the other, if no body has branches."""
        path = self
        steps: list[Step] = []
        results: list[Symbol] = []
        for item in items:
            path = self._body(item, stored, path, unrolled=True)
            block = path.run()
            if isinstance(block.end, Branch):
                return None
            steps += block.steps
            if path.here.collected is not None:
                results.append(path.here.collected)
        self._go_on_as(path, steps)
        return Display("list", results)

    def attempt(self, attempt: Callable[[Path], Symbol | None]) -> bool:
        """Whether an attempt gives a symbol, which is put on the stack; else nothing was done."""
        path = self.fork()
        if (symbol := attempt(path)) is None:
            return False
        self._go_on_as(path, path.steps)
        self.here = path.here
        self.here.stack.append(symbol)
        return True

    def _go_on_as(self, path: Path, steps: list[Step]) -> None:
        self.steps += steps
        self.next, self._known = path.next, path._known
        self.plain, self.numbers = path.plain, path.numbers

    def is_number(self, register: Register) -> bool:
        """Whether it is a known number."""
        known = (value for at, value in self._known.values() if at == register)
        return type(next(known, None)) in (int, float)

    def variable(self, name: str) -> Symbol:
        """What is in a variable of the function."""
        symbol = self.here.variables.get(name, UNBOUND)
        if symbol is UNBOUND:
            if name in self.here.code.co_freevars:  # its cell, for a function that is made
                return NULL
            raise self.refused(f"reads {name}, which may have no value")
        return symbol

    def free_variable(self, name: str) -> Symbol:
        """What is in a variable that functions share: this one and those around it or in it."""
        frame = self.here
        if name in frame.code.co_cellvars:
            return self.variable(name)
        place = frame.free.get(name, UNBOUND)
        if place is UNBOUND:
            raise self.refused(f"reads {name}, which may have no value")
        if type(place) is not CellType:
            return place
        value = self.lifting.guards.cell(place)
        if value is MISSING:
            raise self.refused(f"reads {name}, which has no value yet")
        return Known(value, name)

    def global_variable(self, name: str) -> Known:
        """What a name of the module or a builtin stands for."""
        frame = self.here
        value = self.lifting.guards.name(frame.globals, name)
        if value is MISSING:
            value = self.lifting.guards.name(frame.builtins, name)
        if value is MISSING:
            raise self.refused(f"reads {name}, which is not defined")
        return Known(value, name)

    def refused(self, reason: str) -> Refused:
        """The reason, with its place."""
        frames = [frame for frame in self.here.chain() if frame.globals is not vars(written)]
        reason += frames[0].place()
        for frame, caller in pairwise(frames[:-1]):
            if frame.name:  # a function of the user, or of a library, whose lines tell nobody much
                inside = f": {reason}" if frame.globals is caller.globals else ""
                reason = f"calls {frame.name}{caller.place()}{inside}"
        return Refused(reason)


def _outside() -> None:
    """Whoever calls the function that is lifted."""


def told(known: Known) -> str:
    """What a known value is, in words: `RATES, a dict`."""
    kind = type(known.value).__name__
    article = "an" if kind[0] in "aeiou" else "a"
    return f"{known.name}, {article} {kind}" if known.name else f"{article} {kind}"


_OPERATIONS = 4000
_BLOCKS = 200
_UNROLLED = 16
_GUARDED = 300
_NUMBERS = frozenset(
    (
        *("-", "/", "//", "**", "<<", ">>", "negative", "positive", "invert"),
        *("not", "truth", "<", "<=", "==", "!=", ">", ">=", "is", "in"),
        *("abs", "all", "any", "float", "int", "len", "ord", "round"),
    )
)
_PLAIN = frozenset(
    ("tuple", "%", "format", "join_text", "unpack", "ascii", "chr", "repr", "str", "constant")
)
_TOLD = {
    "Made": "a function that it makes",
    "Method": "a method",
    "Iterator": "an iterator",
    "Pairs": "a zip",
    "Slice": "a slice",
}
