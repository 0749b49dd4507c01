"""Regular expressions that Rust reads as Python does: of ASCII, without groups that are kept.

A pattern is written anew from its tree, so that no difference of syntax matters. Both libraries
take the leftmost match, and of those the one that comes first in the order of alternatives.
"""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser


def in_rust(pattern: re.Pattern[Any]) -> str | None:
    r"""The pattern in the syntax of Rust's `regex`; None if it may not find the same.

    >>> in_rust(re.compile("[a-c]+x?"))
    '[\\x61-\\x63]{1,}(?:\\x78){0,1}'
    >>> in_rust(re.compile(r"\w+"))
    """
    if type(pattern.pattern) is not str or pattern.flags != re.UNICODE or pattern.groups:
        return None
    tree = parser.parse(pattern.pattern)
    if not tree.getwidth()[0] or len(pattern.pattern) > _LONGEST:
        return None  # empty matches follow others by other rules
    try:
        return _sequence(tree)
    except _Unknown:
        return None


class _Unknown(Exception):
    """A part of a pattern that is not understood."""


def _sequence(tree: Any) -> str:
    return "".join(_part(kind, of) for kind, of in tree)


def _part(kind: Any, of: Any) -> str:
    if kind is constants.LITERAL:
        return f"(?:{_character(of)})"
    if kind is constants.IN:
        return f"[{''.join(_range(*each) for each in of)}]"
    if kind is constants.BRANCH:
        return f"(?:{'|'.join(map(_sequence, of[1]))})"
    if kind is constants.SUBPATTERN:
        group, added, removed, tree = of
        if group is None and not added and not removed:
            return f"(?:{_sequence(tree)})"
    if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        least, most, tree = of
        is_bounded = most is not constants.MAXREPEAT
        if tree.getwidth()[0] and max(least, most if is_bounded else 0) <= _MOST_REPEATS:
            lazy = "?" if kind is constants.MIN_REPEAT else ""
            body = _sequence(tree)
            body = body if len(tree) == 1 else f"(?:{body})"
            return f"{body}{{{least},{most if is_bounded else ''}}}{lazy}"
    raise _Unknown


def _range(kind: Any, of: Any) -> str:
    if kind is constants.LITERAL:
        return _character(of)
    if kind is constants.RANGE:
        return f"{_character(of[0])}-{_character(of[1])}"
    raise _Unknown


def _character(code: int) -> str:
    if code >= _ASCII:
        raise _Unknown
    return f"\\x{code:02x}"


_ASCII = 128
_MOST_REPEATS = 100
_LONGEST = 1000
