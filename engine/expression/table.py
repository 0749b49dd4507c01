"""Tables of opcodes: what each does to a path, by name, for all versions of Python."""

from __future__ import annotations

import dis
from collections.abc import Callable

from engine.expression.path import End, Handler, Path


class Table(dict[str, Handler]):
    """What some opcodes do."""

    def of(self, *names: str) -> Callable[[Handler], Handler]:
        """Enters a function for these opcodes."""

        def enter(handler: Handler) -> Handler:
            self.update(dict.fromkeys(names, handler))
            return handler

        return enter


def by_number(*tables: Table) -> list[Handler]:
    """What each opcode of this Python does. One that is in no table is refused."""
    handlers: list[Handler] = [_unknown] * 256
    for table in tables:
        for name, handler in table.items():
            if 0 <= (number := dis.opmap.get(name, -1)) < 256:
                handlers[number] = handler
    return handlers


def _unknown(path: Path, argument: int) -> End | None:
    frame = path.here
    at = frame.start
    while dis.opname[frame.instructions[at]] == "EXTENDED_ARG":
        at += 2
    name = dis.opname[frame.instructions[at]]
    raise path.refused(REFUSED.get(name, f"has an opcode that is not understood, {name}"))


REFUSED = {
    "STORE_ATTR": "stores an attribute",
    "STORE_SUBSCR": "stores an item",
    "STORE_SLICE": "stores a slice",
    "STORE_GLOBAL": "stores a global variable",
    "STORE_NAME": "stores a global variable",
    "DELETE_ATTR": "deletes an attribute",
    "DELETE_SUBSCR": "deletes an item",
    "DELETE_GLOBAL": "deletes a global variable",
    "IMPORT_NAME": "has an import",
    "SETUP_FINALLY": "has a try statement",
    "SETUP_WITH": "has a with statement",
    "BEFORE_WITH": "has a with statement",
    "LOAD_SPECIAL": "has a with statement",
    "YIELD_VALUE": "is a generator",
    "YIELD_FROM": "is a generator",
    "SEND": "is a generator",
    "BUILD_SET": "makes a set",
    "SET_ADD": "makes a set",
    "SET_UPDATE": "makes a set",
    "DICT_MERGE": "has a call with **",
    "BINARY_MATRIX_MULTIPLY": "has the operator @",
    "INPLACE_MATRIX_MULTIPLY": "has the operator @",
    "LOAD_SUPER_ATTR": "calls super",
    "LOAD_BUILD_CLASS": "makes a class",
    "UNPACK_EX": "takes apart with *",
    "MATCH_CLASS": "has a match statement of classes",
    "MATCH_MAPPING": "has a match statement of mappings",
    "MATCH_SEQUENCE": "has a match statement of sequences",
    "BUILD_TEMPLATE": "makes a template string",
}
"""Opcodes that are refused, and what they are in words."""
