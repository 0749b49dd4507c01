"""The import paths of workers, which can import all that the driver can.

Workers import Oka itself first, from where the driver imported it. So a `random.py` beside a
pipeline cannot replace a module that the engine needs.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True)
class ImportPath:
    """The `sys.path` of a driver, in absolute paths, since workers run in other folders."""

    program: tuple[str, ...]
    """The paths before Python's own library: the program's folder, PYTHONPATH."""
    others: tuple[str, ...]

    @classmethod
    def of_this_process(cls) -> ImportPath:
        """The paths of this process, as they are now."""
        path = _absolute(sys.path)
        first = path.index(_LIBRARY) if _LIBRARY in path else 0
        return cls(path[:first], path[first:])

    def unpickle(self, data: D, loads: Callable[[D], T]) -> T:
        """Unpickle what the driver pickled, with modules from where the driver has them.

        The program's paths come first, as in the driver. For other modules this process prefers its
        own paths, such as those of a Ray runtime environment. Raises ModuleNotFoundError, with a
        hint.
        """
        if self != ImportPath.of_this_process():
            program, others = _existing(self.program), _existing(self.others)
            sys.path[:] = dict.fromkeys([*program, *sys.path, *others])
        try:
            return loads(data)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error}\n\nhint: {_HINT}", name=error.name) from error


def arguments(module: str, also: Sequence[str] = (), first: str = "") -> list[str]:
    """Python's arguments to run the `main` of an engine's module with this process's import paths.

    It imports Oka's modules in `also` before that, and runs the line `first` before everything.
    """
    imported = "".join(f"import {name}\n" for name in also)
    start = f"""{first}
import sys
own, path = eval(sys.argv[1])
sys.path[:] = own
from {module} import main
{imported}sys.path[:] = path
main()
"""
    return ["-c", start, repr((_OWN, _absolute(sys.path)))]


def _absolute(path: list[str]) -> tuple[str, ...]:
    return tuple(os.path.abspath(entry) for entry in path)  # noqa: PTH100 - "" is this folder


def _existing(path: tuple[str, ...]) -> list[str]:
    return [entry for entry in path if os.path.exists(entry)]  # noqa: PTH110 - strings, as in sys.path


_LIBRARY = sysconfig.get_path("stdlib")
_OWN = _absolute(sys.path)
"""The path at the import of the engine, before `oka run` loads a program."""
_HINT = (
    "install it on every node; what lies beside the program is found where its folder has the same "
    "path, as `ray job submit --working-dir` gives it"
)
