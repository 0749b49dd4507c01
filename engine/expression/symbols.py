"""What stands on the stack of a function that is lifted, and in its variables."""

from __future__ import annotations

from types import CodeType
from typing import Any, TypeAlias

Symbol: TypeAlias = Any
"""A register, which is an int, or an object of a class below."""


class Known:
    """A value that is known when the function is lifted; `name` says where it comes from."""

    __slots__ = ("name", "value")

    def __init__(self, value: Any, name: str = "") -> None:
        self.value = value
        self.name = name


class Display:
    """A tuple or list of symbols, or an empty dict. It has a register when somebody needs one."""

    __slots__ = ("items", "operation")

    def __init__(self, operation: str, items: list[Symbol]) -> None:
        self.operation = operation
        self.items = items


class Slice:
    """`start:stop:step`."""

    __slots__ = ("bounds",)

    def __init__(self, bounds: list[Symbol]) -> None:
        self.bounds = bounds


class Method:
    """A method of a value, which is about to be called."""

    __slots__ = ("name", "receiver")

    def __init__(self, receiver: Symbol, name: str) -> None:
        self.receiver = receiver
        self.name = name


class Iterator:
    """`iter(of)`, for the loop of a comprehension."""

    __slots__ = ("of",)

    def __init__(self, of: Symbol) -> None:
        self.of = of


class Iterable:
    """A generator expression, a `zip` or the like, of a list of items. It is gone through once."""

    __slots__ = ("items", "name")

    def __init__(self, items: Symbol, name: str) -> None:
        self.items = items
        self.name = name


class Pairs:
    """`zip(names, of)`, of which `dict` makes a dict."""

    __slots__ = ("names", "of", "strict")

    def __init__(self, names: Symbol, of: Symbol, strict: bool) -> None:
        self.names = names
        self.of = of
        self.strict = strict


class Made:
    """A function that this function makes: a comprehension, or a lambda that it calls itself."""

    __slots__ = ("code", "maker")

    def __init__(self, code: CodeType, maker: CodeType) -> None:
        self.code = code
        self.maker = maker


class Converted:
    """`!r`, `!s` or `!a` of a value that is about to be formatted."""

    __slots__ = ("conversion", "of")

    def __init__(self, of: Symbol, conversion: str) -> None:
        self.of = of
        self.conversion = conversion


class Mark:
    """A place on the stack without a value of its own."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


NULL = Mark("NULL")
UNBOUND = Mark("unbound")
BUILTIN = Mark("builtin")
COLLECTED = Mark("collected")
