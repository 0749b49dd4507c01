"""Which class a record means: the references to classes that records carry.

A reference is a number, of a class that the pickled job mentions (`announce`, `accept`: the driver
numbers them and tells every task), or a text `module:name`, of a class that whoever reads it can
import. Classes of Python itself that Oka knows have negative numbers. Bytes alone never bring code
into a process: a module is imported for a record's sake only where `trust` says that all who can
send records are tasks of the job.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

Reference = int | str
Announced = tuple[str, bytes]
"""A class's name and pickle, for a task that may never need it."""


OWN = (
    OrderedDict,
    defaultdict,
    Counter,
    deque,
    PurePosixPath,
    PureWindowsPath,
    PosixPath,
    WindowsPath,
)
"""Classes of Python itself, whose numbers are negative and the same everywhere."""


def announce(classes: Iterable[type]) -> dict[int, type]:
    """The classes by their numbers, which they keep for as long as this process lives."""
    found = {}
    for kind in classes:
        number = _numbers.setdefault(kind, len(_numbers))
        _classes[number] = found[number] = kind
    return found


def accept(classes: Mapping[int, type], others: Mapping[int, Announced]) -> None:
    """Take over what another process announced: `others` are loaded when a record needs them."""
    _classes.update(classes)
    _numbers.update({kind: number for number, kind in classes.items()})
    for number, (name, pickled) in others.items():
        if number not in _classes:
            _unloaded[number] = (name, pickled)


def trust(trusted: bool) -> None:
    """Say whether all who can send records to this process are tasks of its job."""
    global _trusted
    _trusted = trusted


def is_trusted() -> bool:
    """What `trust` has said."""
    return _trusted


def number(kind: type) -> int | None:
    """The number of a class that was announced."""
    return _numbers.get(kind)


def name_of(kind: type) -> str:
    """The class's module and its name there: the reference to what can be imported."""
    return f"{kind.__module__}:{kind.__qualname__}"


def reference(kind: type) -> Reference:
    """What stands for the class in a record; TypeError, with a hint, if no task could find it."""
    known = _numbers.get(kind)
    if known is not None:
        return known
    name = name_of(kind)
    for other in [other for other, (unloaded, _) in _unloaded.items() if unloaded == name]:
        if find(other) is kind:
            return other
    if _imported(name) is not kind:
        raise TypeError(
            f"{name.replace(':', '.')} cannot travel in a record: other tasks cannot import it, "
            "and no function of the pipeline mentions it\n\n"
            "hint: define the class at the top of a module, not inside a function"
        )
    return name


def find(reference: Reference) -> type:
    """The class that a record means; LookupError, with a hint, if it is not to be had."""
    if isinstance(reference, int):
        if reference in _unloaded:
            name, pickled = _unloaded[reference]
            _add(reference, _load(name, pickled))
        if reference not in _classes:
            raise LookupError(
                f"a record of class {reference}, which this process was not told of\n\n"
                "hint: do all tasks run the same version of oka?"
            )
        return _classes[reference]
    if _trusted:
        _import(reference)
    kind = _imported(reference)
    if not isinstance(kind, type):
        shown = reference.replace(":", ".")
        hint = "is its module the same on every node?"
        if not _trusted:
            hint = "leave encryption on, or import the class where the function that takes it is"
        raise LookupError(
            f"a record of class {shown!r:.200}, which is not imported here\n\nhint: {hint}"
        )
    return kind


def _add(number: int, kind: type) -> None:
    _classes[number] = kind
    _numbers[kind] = number
    del _unloaded[number]


def _load(name: str, pickled: bytes) -> type:
    try:
        kind: type = pickle.loads(pickled)  # noqa: S301 - of the job's own description
    except Exception as error:
        raise LookupError(
            f"a record of class {name.replace(':', '.')}, which cannot be loaded here: "
            f"{type(error).__name__}: {error}\n\nhint: is its module installed on every node?"
        ) from error
    return kind


def _import(name: str) -> None:
    module = name.partition(":")[0]
    try:
        importlib.import_module(module)
    except Exception as error:
        raise LookupError(
            f"a record of class {name.replace(':', '.')!r:.200}, whose module cannot be imported "
            f"here: {type(error).__name__}: {error}\n\nhint: is it installed on every node?"
        ) from error


def _imported(name: str) -> Any:
    """What is at this place now, if anything."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


_classes: dict[int, type] = {~at: kind for at, kind in enumerate(OWN)}
_numbers: dict[type, int] = {kind: number for number, kind in _classes.items()}
_unloaded: dict[int, Announced] = {}
_trusted = False
