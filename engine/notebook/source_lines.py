"""Tracebacks of workers with what the driver alone knows: lines of cells, and the cells' names."""

from __future__ import annotations

import linecache
import re

from engine.notebook import cells


def with_source(traceback: str) -> str:
    """The traceback with the source of each frame, where the worker could not read that.

    The source of a notebook's cell is in the memory of the driver. On Ray, the program itself may
    be on the driver's machine alone.
    """
    lines = traceback.splitlines()
    found: list[str] = []
    for at, line in enumerate(lines):
        frame = _FRAME.fullmatch(line)
        if frame is None:
            found.append(line)
            continue
        indent, file, number, rest = frame.groups()
        cell = cells.name_of(file)
        found.append(line if cell is None else f"{indent}{cell}, line {number}{rest}")
        if not "".join(lines[at + 1 : at + 2]).startswith(f"{indent}  "):
            source = linecache.getline(file, int(number)).strip()
            found += [f"{indent}  {source}"] if source else []
    return "".join(f"{line}\n" for line in found)


_FRAME = re.compile(r'([ |+]*)File "(.+)", line (\d+)(.*)')
