"""Guards: what a lifted function was when it was lifted, and whether that is so still."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping, Sized
from types import CellType, CodeType, FunctionType
from typing import Any, TypeAlias

Collection: TypeAlias = "set[Any] | list[Any] | dict[Any, Any]"


class Guards:
    """The places that a lifted function reads beside its arguments, and what was there."""

    __slots__ = ("_cells", "_collections", "_functions", "_lengths", "_names")

    def __init__(self) -> None:
        self._names: dict[tuple[int, Any], tuple[Mapping[Any, Any], Any, Any]] = {}
        self._cells: dict[int, tuple[CellType, Any]] = {}
        self._collections: dict[int, tuple[Any, list[Any]]] = {}
        self._lengths: dict[int, tuple[Sized, int]] = {}
        self._functions: dict[
            int, tuple[FunctionType, CodeType, tuple[Any, ...] | None, dict[str, Any] | None]
        ] = {}

    def name(self, names: Mapping[Any, Any], name: Any) -> Any:
        """What has the name, or MISSING; from now on it must stay so."""
        value = names.get(name, MISSING)
        self._names[id(names), name] = (names, name, value)
        return value

    def cell(self, cell: CellType) -> Any:
        """What is in the cell, or MISSING; from now on it must stay there."""
        try:
            value = cell.cell_contents
        except ValueError:
            return MISSING
        self._cells[id(cell)] = (cell, value)
        return value

    def function(self, function: FunctionType) -> None:
        """The function must stay as it is."""
        code, defaults = function.__code__, function.__defaults__
        self._functions[id(function)] = (function, code, defaults, function.__kwdefaults__)

    def collection(self, collection: Collection) -> None:
        """What is in a set, a list or a dict must stay so."""
        self._collections[id(collection)] = (collection, _items(collection))

    def length(self, collection: Collection) -> int:
        """The length, which must stay so."""
        self._lengths[id(collection)] = (collection, len(collection))
        return len(collection)

    def hold(self) -> bool:
        """Whether all is as it was, and nobody watches how functions run."""
        if _trace() is not None or _profile() is not None or (_HAS_TOOLS and _monitored()):
            return False
        for names, name, value in self._names.values() if self._names else ():
            if names.get(name, MISSING) is not value:
                return False
        for cell, value in self._cells.values() if self._cells else ():
            try:
                if cell.cell_contents is not value:
                    return False
            except ValueError:  # it is empty by now
                return False
        for collection, items in self._collections.values() if self._collections else ():
            now = _items(collection)
            if len(now) != len(items) or not all(map(operator.is_, now, items)):
                return False
        for sized, length in self._lengths.values() if self._lengths else ():
            if len(sized) != length:
                return False
        for function, code, defaults, by_name in self._functions.values():
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not by_name
            ):
                return False
        return True


def _items(collection: Collection) -> list[Any]:
    """What is in it, in its order."""
    items = list(collection)
    return items + list(collection.values()) if type(collection) is dict else items


class _Missing:
    """No value."""


MISSING = _Missing()


_trace, _profile = sys.gettrace, sys.getprofile
_HAS_TOOLS = sys.version_info >= (3, 12)


def _monitored() -> bool:
    """Whether a debugger, profiler or measurement of coverage uses `sys.monitoring`."""
    tool = sys.monitoring.get_tool  # type: ignore[attr-defined,unused-ignore]
    return not (tool(0) is tool(1) is tool(2) is tool(3) is tool(4) is tool(5) is None)
