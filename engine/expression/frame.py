"""A function at work: its code, its variables and its stack of symbols."""

from __future__ import annotations

import dis
from collections.abc import Mapping
from types import CellType, CodeType
from typing import Any

from engine.expression.symbols import UNBOUND, Symbol


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
        "unrolled",
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
        self.unrolled = False

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
        frame.unrolled = self.unrolled
        return frame

    def pop(self, count: int) -> list[Symbol]:
        """The last symbols of the stack, in their order."""
        if not count:
            return []
        popped = self.stack[-count:]
        del self.stack[-count:]
        return popped

    def chain(self) -> list[Frame]:
        """The function itself, its caller, and so on."""
        return [self] if self.caller is None else [self, *self.caller.chain()]

    def place(self) -> str:
        """The line that runs: `, line 12`."""
        if self.caller is None:
            return ""
        for start, end, line in self.code.co_lines():
            if start <= self.start < end and line is not None:
                return f", line {line}"
        return ""

    def stored(self, end: int) -> set[str]:
        """Variables that a loop from here to there stores."""
        names: set[str] = set()
        extended = 0
        for at in range(self.pc, end, 2):
            opcode, argument = self.instructions[at], self.instructions[at + 1] | extended << 8
            extended = argument if opcode == EXTENDED else 0
            name = dis.opname[opcode]
            if name == "STORE_FAST_STORE_FAST":
                names.update((self.local_names[argument >> 4], self.local_names[argument & 15]))
            elif name == "STORE_FAST_LOAD_FAST":
                names.add(self.local_names[argument >> 4])
            elif name == "STORE_FAST":
                names.add(self.local_names[argument])
        return names


def _local_names(code: CodeType) -> tuple[str, ...]:
    """The names of variables, as opcodes number them since Python 3.11."""
    if not code.co_cellvars and not code.co_freevars:
        return code.co_varnames
    cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + cells + code.co_freevars


EXTENDED = dis.opmap["EXTENDED_ARG"]
CACHE = dis.opmap.get("CACHE", -1)
_STOP = bytes((255, 0))
