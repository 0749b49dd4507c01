"""Values of NAME=VALUE on a command line, as the type of a parameter says.

A text becomes a value of the parameter's annotation, or it is refused: nothing is guessed. Without
an annotation the type of the default counts; without either, the text is a literal of Python where
it is one, and else a text.
"""

from __future__ import annotations

import ast
import collections.abc
import enum
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

from engine.errors import ConfigError


def split_assignment(text: str, what: str) -> tuple[str, str]:
    """The name and the text of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{what} is {text!r}, expected NAME=VALUE")
    return name, value


def split_assignments(texts: Iterable[str], what: str) -> dict[str, str]:
    """The names and the texts; ConfigError where a name comes twice."""
    given: dict[str, str] = {}
    for text in texts:
        name, value = split_assignment(text, what)
        if name in given:
            raise ConfigError(f"{name} is given twice, {given[name]!r} and {value!r}", _A_LIST)
        given[name] = value
    return given


def call_arguments(function: Callable[..., Any], given: Mapping[str, str]) -> dict[str, Any]:
    """The texts as the function's parameters have their types.

    Raises ConfigError where a text is no value of the type. Names that it does not take keep their
    texts.
    """
    parameters = {each.name: each for each in parameters_of(function)}
    more = [each for each in parameters.values() if each.kind is each.VAR_KEYWORD]
    values: dict[str, Any] = {}
    for name, text in given.items():
        found = parameters.get(name) or (more[0] if more else None)
        if found is None:
            values[name] = text
        else:
            values[name] = value_of(name, text, found.annotation, found.default)
    return values


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The function's parameters, with annotations that are no texts where they can be found.

    Names that only a type checker imports stay texts. Raises ValueError or TypeError for a function
    without a signature.
    """
    scope = _globals(function)
    return [
        each.replace(annotation=_annotation(each.annotation, scope))
        for each in inspect.signature(function).parameters.values()
    ]


def value_of(
    name: str, text: str, annotation: Any, default: object = inspect.Parameter.empty
) -> Any:
    """The value of this type that the text says; ConfigError with the type if it says none."""
    if isinstance(annotation, str) or annotation is inspect.Parameter.empty:
        annotation = _type_of(default)
    elif default is None:
        annotation = Union[annotation, None]  # noqa: UP007 - of any annotation
    try:
        return _converted(text, annotation)
    except _Unknown as unknown:
        raise ConfigError(
            f"{name} is {text!r}, and the type of {name} is {type_name(unknown.args[0])}, "
            "which no text is turned into",
            "annotate it with bool, int, float, str, Path, an Enum, Literal, list or the like, and "
            "make the object of that in the function",
        ) from None
    except _NOT_OF_THE_TYPE:
        raise ConfigError(
            f"{name} is {text!r}, expected {type_name(annotation)}", _hint(annotation)
        ) from None


def type_name(annotation: Any) -> str:
    """The type as one reads it: `int | None`, `plain | fast`."""
    if isinstance(annotation, str):
        return annotation
    if annotation is types.NoneType:
        return "None"
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if get_origin(annotation) in (Union, types.UnionType):
        return " | ".join(map(type_name, get_args(annotation)))
    return re.sub(r"\b(?:\w+\.)+", "", inspect.formatannotation(annotation))


_NOT_OF_THE_TYPE = (ValueError, LookupError, SyntaxError, TypeError, ArithmeticError)


class _Unknown(Exception):
    """A type that no text is turned into."""


_UNSAID = TypeVar("_UNSAID")
"""The type of which nothing is known."""


def _converted(text: str, kind: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, TypeVar) or kind in (Any, object):
        return _literal(text)
    if origin is Annotated:
        return _converted(text, arguments[0])
    if hasattr(kind, "__supertype__"):  # NewType
        return _converted(text, kind.__supertype__)
    if hasattr(kind, "__value__"):  # type Name = …
        return _converted(text, kind.__value__)
    if origin is Literal:
        return _choice(text, arguments)
    if origin in (Union, types.UnionType):
        return _first(text, arguments)
    if (origin or kind) in _CONTAINERS:
        return _container(text, _CONTAINERS[origin or kind], arguments)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _member(text, kind)
    convert = _SCALARS.get(kind)
    if convert is None:
        raise _Unknown(kind)
    return convert(text)


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _choice(text: str, choices: Sequence[Any]) -> Any:
    for choice in choices:
        try:
            value = _converted(text, type(choice))
        except (*_NOT_OF_THE_TYPE, _Unknown):
            continue
        if type(value) is type(choice) and value == choice:
            return choice
    raise ValueError


def _first(text: str, kinds: Sequence[Any]) -> Any:
    """A value of the first type that accepts the text; types that accept any text come last."""
    is_list = text[:1] in ("[", "(", "{") or "," in text

    def rank(kind: Any) -> int:
        plain = get_origin(kind) or kind
        if plain in _CONTAINERS:
            return 3 if is_list else 6
        ranks = {types.NoneType: 0, int: 1, float: 2, Path: 4, PurePath: 4, str: 5}
        return ranks.get(plain, 3)

    unknown: _Unknown | None = None
    for kind in sorted(kinds, key=rank):
        try:
            return _converted(text, kind)
        except _Unknown as error:
            unknown = error
        except _NOT_OF_THE_TYPE:
            continue
    raise unknown or ValueError


def _member(text: str, kind: type[enum.Enum]) -> enum.Enum:
    """The member of this name, or else of this value."""
    if text in kind.__members__:
        return kind.__members__[text]
    return {str(each.value): each for each in kind}[text]


def _container(text: str, made: Callable[..., Any], kinds: Sequence[Any]) -> Any:
    """The texts between the brackets, or between commas without brackets."""
    if made is dict:
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Dict):
            raise ValueError
        key, value = kinds or (_UNSAID, _UNSAID)
        pairs = zip(node.keys, node.values, strict=True)
        return {
            _converted(_source(text, left), key): _converted(_source(text, right), value)
            for left, right in pairs
        }
    texts = _items(text)
    if made is tuple and kinds and kinds[-1] is not Ellipsis:
        if len(texts) != len(kinds):
            raise ValueError
        return tuple(map(_converted, texts, kinds))
    item = kinds[0] if kinds else _UNSAID
    return made(_converted(each, item) for each in texts)


def _items(text: str) -> list[str]:
    if text[:1] not in ("[", "(", "{"):
        return [each.strip() for each in text.split(",")] if text else []
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        raise ValueError
    return [_source(text, each) for each in node.elts]


def _source(text: str, node: ast.expr | None) -> str:
    """The text of a part of a literal; that of a string without its quotes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    found = None if node is None else ast.get_source_segment(text, node)
    if found is None:
        raise ValueError
    return found


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _none(text: str) -> None:
    if text.lower() not in ("none", "null"):
        raise ValueError


def _timedelta(text: str) -> timedelta:
    number, unit = re.split(r"(?<=[\d.])(?=[a-z])", text)
    return float(number) * _UNITS[unit]


def _iso(kind: Any) -> Callable[[str], Any]:
    # Python 3.10 does not know the Z.
    return lambda text: kind.fromisoformat(re.sub(r"Z$", "+00:00", text))


def _type_of(default: object) -> Any:
    """The type that a parameter with this default and no annotation has."""
    kind = type(default)
    if default is None or default is inspect.Parameter.empty:
        return _UNSAID
    if kind is int:
        return int | float
    if isinstance(default, PurePath):
        return Path
    is_known = kind in _SCALARS or kind in _CONTAINERS or isinstance(default, enum.Enum)
    return kind if is_known else _UNSAID


def _annotation(annotation: Any, scope: dict[str, Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, scope)["it"]
    except Exception:  # noqa: BLE001 - of names that only a type checker imports, for one
        return annotation


def _globals(function: Any) -> dict[str, Any]:
    """The names that texts in the function's annotations mean."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    module = sys.modules.get(getattr(function, "__module__", ""))
    found: dict[str, Any] = getattr(function, "__globals__", vars(module) if module else {})
    return found


def _hint(annotation: Any) -> str | None:
    for kind in (annotation, *get_args(annotation)):
        plain = get_origin(kind) or kind
        if plain in _HINTS:
            return _HINTS[plain]
        if plain in _CONTAINERS:
            return _A_DICT if _CONTAINERS[plain] is dict else _A_LIST
        if isinstance(plain, type) and issubclass(plain, enum.Enum):
            return f"its members are {', '.join(plain.__members__)}"
    return None


_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_UNITS = {
    "us": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_SCALARS: dict[Any, Callable[[str], Any]] = {
    bool: _boolean,
    int: int,
    float: float,
    complex: complex,
    str: str,
    bytes: str.encode,
    types.NoneType: _none,
    None: _none,
    Path: Path,
    PurePath: PurePath,
    Decimal: Decimal,
    Fraction: Fraction,
    UUID: UUID,
    timedelta: _timedelta,
    datetime: _iso(datetime),
    date: _iso(date),
    time: _iso(time),
}
_CONTAINERS: dict[Any, Callable[..., Any]] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    tuple: tuple,
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
    dict: dict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
_A_LIST = 'several values stand between commas, NAME=a,b, or in brackets, NAME=\'["a", "b"]\''
_A_DICT = "a dict is written as in Python, NAME='{\"a\": 1}'"
_HINTS: dict[Any, str] = {
    bool: "true and false, yes and no, on and off, 1 and 0 are known",
    int: "a whole number such as 1000 or 1_000",
    float: "a number such as 0.5, 1e6, nan or inf",
    timedelta: "a number with a unit of us, ms, s, m, h or d, such as 90s",
    datetime: "as ISO 8601 has it, such as 2026-01-31T12:00",
    date: "as ISO 8601 has it, such as 2026-01-31",
    time: "as ISO 8601 has it, such as 12:30",
}
