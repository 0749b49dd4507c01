"""What a reader of a Markdown file would type: its Python programs, and its commands."""

from __future__ import annotations

import re
from pathlib import Path


def programs(file: Path) -> list[str]:
    """The fenced blocks of Python, in order."""
    return re.findall(r"^```python\n(.*?)^```$", file.read_text(), re.MULTILINE | re.DOTALL)


def commands(file: Path) -> list[str]:
    """The commands, without repetitions: indented lines that are no list item's text, and spans.

    A line that ends in a backslash goes on in the next. A span is a command if it begins with the
    name of a program.
    """
    text = re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(?: {4}| {7})(\S.*(?:(?<=\\)\n.*)*)", text, re.MULTILINE)
    spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"^(?: {4}| {7}).*", "", text, flags=re.M))
    found = [line.replace("\\\n", " ") for line in lines]
    found += [" ".join(span.split()) for span in spans if span.split()[0] in _PROGRAMS]
    return list(dict.fromkeys(command.rstrip() for command in found))


_PROGRAMS = {"make", "oka", "pip", "python", "ray", "source"}
