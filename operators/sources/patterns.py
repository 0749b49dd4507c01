"""Patterns of paths, as `glob` reads them, of files on disk and of keys in S3.

`*` is any part of a name, `?` one character, `[…]` one of some, and `**` any folders.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path

from engine.errors import GraphError


def divided(pattern: str) -> tuple[str, str]:
    """The folders in front of the first one that is a pattern, and the rest.

    >>> divided("/lake/day=*/a.csv"), divided("a*.csv")
    (('/lake/', 'day=*/a.csv'), ('', 'a*.csv'))
    """
    *folders, _ = pattern.split("/")
    plain = next((at for at, name in enumerate(folders) if glob.has_magic(name)), len(folders))
    begin = "".join(f"{name}/" for name in folders[:plain])
    return begin, pattern[len(begin) :]


def matching(folder: str, pattern: str) -> Iterator[str]:
    """The paths below a folder that match a pattern. Links to folders are followed, not in circles.

    As for `glob`, names that begin with a dot match only what begins with one. Raises GraphError
    for a folder that cannot be listed, whose files would be missed.
    """
    levels = pattern.split("/")
    return _matching(folder, [*levels, "*"] if levels[-1] == "**" else levels)


def expression(pattern: str) -> str:
    """The regular expression of a pattern.

    >>> [bool(re.fullmatch(expression("a/**/*.x"), key)) for key in ("a/1.x", "a/b/1.x", "a/1.y")]
    [True, True, False]
    """
    *folders, last = pattern.split("/")
    found = "".join("(?:[^/]+/)*" if each == "**" else _of_name(each) + "/" for each in folders)
    return found + (".*" if last == "**" else _of_name(last))


def _matching(folder: str, levels: list[str]) -> Iterator[str]:
    first, *rest = levels
    if not glob.has_magic(first):
        path = os.path.join(folder, first)  # noqa: PTH118 - of many files
        if rest:
            yield from _matching(path, rest)
        elif os.path.lexists(path):
            yield path
        return
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except (FileNotFoundError, NotADirectoryError):
        return  # it is none, or vanished just now
    except OSError as error:
        raise GraphError(f"{folder} cannot be listed: {error.strerror}") from None
    if first == "**":
        yield from _matching(folder, rest)
        rest = levels
    matches = re.compile(_of_name(first)).fullmatch
    for entry in entries:
        if not matches(entry.name) or (entry.name[0] == "." != first[0]):
            continue
        if not rest:
            yield entry.path
        elif entry.is_dir(follow_symlinks=False) or (
            entry.is_symlink() and Path(entry).is_dir() and not _is_above(entry.path, folder)
        ):
            yield from _matching(entry.path, rest)


def _is_above(link: str, folder: str) -> bool:
    """Whether a link leads to a folder that it is in."""
    target, inner = os.path.realpath(link), os.path.realpath(folder)
    return os.path.commonpath([target, inner]) == target


def _of_name(pattern: str) -> str:
    return "".join(_of_token(token) for token in _TOKENS.findall(pattern))


def _of_token(part: str) -> str:
    if part[0] == "*":
        return "[^/]*"
    if part == "?":
        return "[^/]"
    if len(part) > 1:
        inner = part[1:-1].replace("\\", r"\\")
        return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(part)


_TOKENS = re.compile(r"\*+|\[!?\]?[^]]*\]|.", re.DOTALL)
