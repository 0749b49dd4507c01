"""What a reader of Markdown files would type: their Python programs, and their commands."""

from __future__ import annotations

import re
from pathlib import Path

PROGRAMS = ("README.md", "docs/reference/s3.md")
"""Pages whose programs run as processes: README, and the one whose program needs a server."""
COMMANDS = (
    *("README.md", "docs/reference/running.md", "docs/reference/models.md", "docs/reference/s3.md"),
    *("docs/reference/failures.md", "docs/howto/measure.md"),
)
"""Pages whose commands are run."""


def programs(*files: Path) -> list[str]:
    """The fenced blocks of Python, in order."""
    text = "\n".join(file.read_text() for file in files)
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def modules(file: Path) -> list[str]:
    """Its programs: one without an `import oka` of its own goes on with the one before."""
    found: list[str] = []
    for text in programs(file):
        if not found or re.search(r"^import oka$", text, re.MULTILINE):
            found.append(text)
        else:
            found[-1] += f"\n\n{text}"
    return found


def commands(*files: Path) -> list[str]:
    """The commands, without repetitions: indented lines that are no list item's text, and spans.

    A line that ends in a backslash goes on in the next. A span is a command if it begins with the
    name of a program.
    """
    text = "\n".join(file.read_text() for file in files)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(?: {4}| {7})(\S.*(?:(?<=\\)\n.*)*)", text, re.MULTILINE)
    spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"^(?: {4}| {7}).*", "", text, flags=re.M))
    found = [line.replace("\\\n", " ") for line in lines]
    found += [" ".join(span.split()) for span in spans if span.split()[0] in _PROGRAMS]
    return list(dict.fromkeys(command.rstrip() for command in found))


_PROGRAMS = {"make", "oka", "pip", "python", "ray", "source"}
