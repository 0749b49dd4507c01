"""What may be called: builtins, methods and operators that have no effect but their result."""

from __future__ import annotations

import builtins
import operator
from types import BuiltinFunctionType, NoneType
from typing import Any

MANY = 255
"""As many arguments as one likes."""

CALLS: dict[str, tuple[int, int]] = {
    "abs": (1, 1),
    "all": (1, 1),
    "any": (1, 1),
    "ascii": (1, 1),
    "bool": (0, 1),
    "chr": (1, 1),
    "dict": (0, 1),
    "divmod": (2, 2),
    "float": (0, 1),
    "format": (1, 2),
    "int": (0, 1),
    "isinstance": (2, 2),
    "len": (1, 1),
    "list": (0, 1),
    "max": (1, MANY),
    "min": (1, MANY),
    "ord": (1, 1),
    "pow": (2, 2),
    "repr": (1, 1),
    "round": (1, 2),
    "sorted": (1, 1),
    "str": (0, 1),
    "sum": (1, 1),
    "tuple": (0, 1),
}
"""Builtins, and the least and the most arguments that each may have."""

ITERATORS: dict[str, tuple[int, int]] = {
    "enumerate": (1, 2),
    "filter": (2, 2),
    "map": (2, 2),
    "range": (1, 3),
    "reversed": (1, 1),
    "zip": (2, MANY),
}
"""Builtins that give what one may go through; in an expression they give lists."""

VIEWS = frozenset(("items", "keys", "values"))
"""Methods of dicts that give what one may go through; in an expression they give lists."""

METHODS: dict[str, tuple[int, int]] = {
    "capitalize": (0, 0),
    "casefold": (0, 0),
    "center": (1, 2),
    "count": (1, 1),
    "decode": (0, 0),
    "encode": (0, 0),
    "endswith": (1, 1),
    "find": (1, 1),
    "get": (1, 2),
    "isalnum": (0, 0),
    "isalpha": (0, 0),
    "isascii": (0, 0),
    "isdecimal": (0, 0),
    "isdigit": (0, 0),
    "islower": (0, 0),
    "isnumeric": (0, 0),
    "isspace": (0, 0),
    "isupper": (0, 0),
    "join": (1, 1),
    "ljust": (1, 2),
    "lower": (0, 0),
    "lstrip": (0, 1),
    "partition": (1, 1),
    "removeprefix": (1, 1),
    "removesuffix": (1, 1),
    "replace": (2, 2),
    "rfind": (1, 1),
    "rjust": (1, 2),
    "rpartition": (1, 1),
    "rsplit": (0, 2),
    "rstrip": (0, 1),
    "split": (0, 2),
    "splitlines": (0, 0),
    "startswith": (1, 1),
    "strip": (0, 1),
    "swapcase": (0, 0),
    "title": (0, 0),
    "upper": (0, 0),
    "zfill": (1, 1),
}
"""Methods, and the least and the most arguments beside the value itself.

A run gives up where that value is neither a str nor, for `count`, a tuple or a list; for `get`, a
dict; for `decode`, bytes.
"""

CLASS_METHODS: dict[int, str] = {
    id(vars(owner)[name]): name
    for owner, names in ((str, METHODS.keys() - {"get", "decode", "count"}), (dict, {"get"}))
    for name in names
}
"""Methods that are functions of their class, such as `str.lower`, by `id`."""

CALLABLES: dict[int, str] = {
    id(found): name
    for name in (*CALLS, *ITERATORS)
    if type(found := getattr(builtins, name)) in (BuiltinFunctionType, type)
}
"""Builtins by `id`, but for those that somebody has replaced."""

OPERATORS: dict[int, tuple[str, int]] = {
    id(getattr(operator, name)): (operation, operands)
    for operation, name, operands in (
        ("+", "add", 2),
        ("-", "sub", 2),
        ("*", "mul", 2),
        ("/", "truediv", 2),
        ("//", "floordiv", 2),
        ("%", "mod", 2),
        ("**", "pow", 2),
        ("&", "and_", 2),
        ("|", "or_", 2),
        ("^", "xor", 2),
        ("<<", "lshift", 2),
        (">>", "rshift", 2),
        ("<", "lt", 2),
        ("<=", "le", 2),
        ("==", "eq", 2),
        ("!=", "ne", 2),
        (">", "gt", 2),
        (">=", "ge", 2),
        ("item", "getitem", 2),
        ("not", "not_", 1),
        ("truth", "truth", 1),
        ("negative", "neg", 1),
        ("positive", "pos", 1),
        ("invert", "invert", 1),
    )
}
"""Functions of the module `operator` by `id`: the operation, and how many operands it has."""

CLASSES: dict[int, str] = {
    id(of): of.__name__ for of in (bool, bytes, dict, float, int, list, str, tuple, NoneType)
}
"""Classes that `isinstance` may ask for, by `id`."""


def is_constant(value: Any) -> bool:
    """Whether a value is one that nobody can change, and that Rust and Arrow know."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    return kind in _GROUPS and all(is_constant(item) for item in value)


_ATOMS = frozenset((NoneType, bool, int, float, str, bytes))
_GROUPS = frozenset((tuple, frozenset))
