"""Where workers import from: they can import all that the driver can.

Oka itself is imported from where the driver imported it, before anything of the program's can come
in between: a `random.py` that lies beside a pipeline is nothing to the engine.
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
    """The `sys.path` of a driver, absolute; workers run elsewhere."""

    program: tuple[str, ...]
    """What comes before Python's own library: the program's folder, PYTHONPATH."""
    others: tuple[str, ...]

    @classmethod
    def of_this_process(cls) -> ImportPath:
        """The paths of this process, as they are now."""
        path = _absolute(sys.path)
        first = path.index(_LIBRARY) if _LIBRARY in path else 0
        return cls(path[:first], path[first:])

    def unpickle(self, data: D, loads: Callable[[D], T]) -> T:
        """Unpickle what the driver pickled, with modules from where the driver has them.

        The program's come first, as in the driver; of others this process prefers its own, such as
        those of a Ray runtime environment. Raises ModuleNotFoundError, with a hint.
        """
        if self != ImportPath.of_this_process():
            program, others = _existing(self.program), _existing(self.others)
            sys.path[:] = dict.fromkeys([*program, *sys.path, *others])
        try:
            return loads(data)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error}\n\nhint: {_HINT}", name=error.name) from error


def arguments(module: str, also: Sequence[str] = (), first: str = "") -> list[str]:
    """Python's arguments to run the `main` of an engine's module, which imports as this process.

    `also` are modules of Oka's that are imported before, `first` is a line that runs first of all.
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
"""The path when the engine was imported, which `oka run` does before it loads a program."""
_HINT = (
    "install it on every node; what lies beside the program is found where its folder has the same "
    "path, as `ray job submit --working-dir` gives it"
)
