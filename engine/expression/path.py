"""A path through a function: its bytecode is run on symbols, and forks where a value decides."""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType
from typing import Any, TypeAlias

from engine.expression.guards import MISSING, Guards
from engine.expression.pure import is_constant
from engine.expression.symbols import NULL, UNBOUND, Display, Known, Symbol
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


class Frame:
    """A function at work: the one that is lifted, or one that it calls."""

    __slots__ = (
        "builtins",
        "caller",
        "code",
        "collected",
        "free",
        "generated",
        "globals",
        "instructions",
        "local_names",
        "loop",
        "name",
        "names",
        "pc",
        "stack",
        "start",
        "variables",
    )

    def __init__(
        self,
        code: CodeType,
        variables: dict[str, Symbol],
        free: Mapping[str, CellType | Symbol],
        globals_: dict[str, Any],
        builtins: dict[str, Any],
        caller: Frame | None,
        name: str = "",
    ) -> None:
        self.name = name
        self.code = code
        self.instructions = code.co_code + _STOP
        self.local_names = _local_names(code)
        self.variables = variables
        self.free = free
        self.globals = globals_
        self.builtins = builtins
        self.caller = caller
        self.stack: list[Symbol] = []
        self.pc = 0
        self.start = 0
        self.loop = -1
        self.collected: Symbol | None = None
        self.generated: Symbol = UNBOUND
        self.names: tuple[str, ...] = ()

    def copy(self) -> Frame:
        """The same, for another way on."""
        frame = Frame.__new__(Frame)
        frame.name = self.name
        frame.code = self.code
        frame.instructions = self.instructions
        frame.local_names = self.local_names
        frame.variables = self.variables.copy()
        frame.free = self.free
        frame.globals = self.globals
        frame.builtins = self.builtins
        frame.caller = None if self.caller is None else self.caller.copy()
        frame.stack = self.stack.copy()
        frame.pc = self.pc
        frame.start = self.start
        frame.loop = self.loop
        frame.collected = self.collected
        frame.generated = self.generated
        frame.names = self.names
        return frame

    def pop(self, count: int) -> list[Symbol]:
        """The last symbols of the stack, in their order."""
        if not count:
            return []
        popped = self.stack[-count:]
        del self.stack[-count:]
        return popped

    def place(self) -> str:
        """The line that runs: `, line 12`."""
        if self.caller is None:
            return ""
        for start, end, line in self.code.co_lines():
            if start <= self.start < end and line is not None:
                return f", line {line}"
        return ""


class Path:
    """One way through a function: the steps so far, and where each value is."""

    __slots__ = ("_known", "_truths", "here", "lifting", "next", "plain", "steps")

    def __init__(self, lifting: Lifting, arguments: int) -> None:
        self.lifting = lifting
        self.here = Frame(_outside.__code__, {}, {}, {}, {}, None)
        self.next: Register = arguments
        self.steps: list[Step] = []
        self.plain: set[Register] = set()
        """Registers of values that are no lists, dicts or sets, so that nobody can change them."""
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
        path._known = self._known.copy()
        path._truths = self._truths.copy()
        return path

    def run(self) -> Block:
        """What comes from here on.

        Raises:
            Refused: something is not understood, or it is too much.

        """
        lifting = self.lifting
        lifting.blocks += 1
        if lifting.blocks > _BLOCKS:
            raise self.refused("has too many ways through it")
        handlers = lifting.handlers
        steps = self.steps
        while True:
            frame = self.here
            pc = frame.start = frame.pc
            if pc == frame.loop:
                item_end = self._end_of_item(frame)
                return Block(tuple(steps), item_end)
            instructions = frame.instructions
            opcode, argument = instructions[pc], instructions[pc + 1]
            pc += 2
            while opcode == _EXTENDED:
                opcode, argument = instructions[pc], argument << 8 | instructions[pc + 1]
                pc += 2
            while instructions[pc] == _CACHE:
                pc += 2
            frame.pc = pc
            lifting.operations += 1
            if lifting.operations > _OPERATIONS:
                raise self.refused("is too long")
            if (end := handlers[opcode](self, argument)) is not None:
                return Block(tuple(steps), end)

    def _end_of_item(self, frame: Frame) -> End:
        if frame.collected is None:
            return Skip()
        return Return(self.register(frame.collected))

    def emit(
        self, operation: str, operands: tuple[Register, ...] = (), value: Any = None
    ) -> Register:
        """A step more; the register of its value."""
        self.steps.append(Step(operation, operands, value))
        register = self.next
        self.next = register + 1
        if operation in _PLAIN or (operation == "call" and value in _PLAIN_CALLS):
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
        raise self.refused(f"uses {_TOLD.get(kind.__name__, kind.__name__)} as a value")

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

    def each(self, of: Symbol, end: int) -> Register:
        """The list of what a loop, which starts here and ends there, makes of each item."""
        source = self.register(of)
        body = self.fork()
        frame = body.here
        frame.loop, frame.collected = frame.start, None
        for name in _stored(frame, end):
            frame.variables[name] = UNBOUND
        frame.stack.append(body.next)
        body.next += 1
        register = self.emit("each", (source,), body.run())
        for name in _stored(frame, end):
            self.here.variables[name] = UNBOUND
        return register

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
        frame = self.here
        reason += frame.place()
        while (caller := frame.caller) is not None and caller.caller is not None:
            if frame.name:  # a function of the user, or of a library, whose lines tell nobody much
                inside = f": {reason}" if frame.globals is caller.globals else ""
                reason = f"calls {frame.name}{caller.place()}{inside}"
            frame = caller
        return Refused(reason)


def _outside() -> None:
    """Whoever calls the function that is lifted."""


def told(known: Known) -> str:
    """What a known value is, in words: `RATES, a dict`."""
    kind = type(known.value).__name__
    article = "an" if kind[0] in "aeiou" else "a"
    return f"{known.name}, {article} {kind}" if known.name else f"{article} {kind}"


def _local_names(code: CodeType) -> tuple[str, ...]:
    """The names of variables, as opcodes number them since Python 3.11."""
    if not code.co_cellvars and not code.co_freevars:
        return code.co_varnames
    cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + cells + code.co_freevars


def _stored(frame: Frame, end: int) -> set[str]:
    """Variables that a loop from here to there stores."""
    names: set[str] = set()
    extended = 0
    for at in range(frame.pc, end, 2):
        opcode, argument = frame.instructions[at], frame.instructions[at + 1] | extended << 8
        extended = argument if opcode == _EXTENDED else 0
        name = dis.opname[opcode]
        if name == "STORE_FAST_STORE_FAST":
            names.update((frame.local_names[argument >> 4], frame.local_names[argument & 15]))
        elif name == "STORE_FAST_LOAD_FAST":
            names.add(frame.local_names[argument >> 4])
        elif name == "STORE_FAST":
            names.add(frame.local_names[argument])
    return names


_EXTENDED = dis.opmap["EXTENDED_ARG"]
_CACHE = dis.opmap.get("CACHE", -1)
_STOP = bytes((255, 0))
_OPERATIONS = 4000
_BLOCKS = 200
_PLAIN = frozenset(
    (
        *("constant", "tuple", "-", "/", "//", "%", "**", "<<", ">>", "negative", "positive"),
        *("invert", "not", "truth", "<", "<=", "==", "!=", ">", ">=", "is", "in"),
        *("format", "join_text", "unpack"),
    )
)
_PLAIN_CALLS = frozenset(
    (
        *("abs", "all", "any", "ascii", "bool", "chr", "float", "int", "len", "ord", "repr"),
        *("round", "str", "tuple"),
    )
)
_TOLD = {
    "Generated": "a generator",
    "Made": "a function that it makes",
    "Method": "a method",
    "Mark": "something",
    "Iterator": "an iterator",
    "Pairs": "a zip",
    "Slice": "a slice",
    "Converted": "something",
}
