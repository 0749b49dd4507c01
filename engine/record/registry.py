"""The references to classes that records carry.

A reference is a number, of a class that the pickled job mentions (`announce`, `accept`: the driver
numbers them and tells every task), or a text `module:name`, of a class that every reader can
import. Classes of Python itself that Oka knows have negative numbers. Bytes alone never bring code
into a process: a record has a module imported only if `trust` says that all senders are tasks of
the job.

State outlives the job that wrote it, and fields travel by their order. So a checkpoint stores the
class and the fields of each reference (`known`). A job that goes on from it gives the same class
the same reference. A class that has changed since is refused, and never read in its new form.
Others than the job's tasks may be able to write to a checkpoint. So state is not unpickled, and
imports no module but those that the driver knows, unless `trust_checkpoints` allows it.
"""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import MappingProxyType
from typing import Any, NamedTuple

import cloudpickle

Reference = int | str


class RecordClass(NamedTuple):
    """The description of a class, as far as the bytes of its objects depend on it."""

    name: str
    """`module:name`."""
    fields: tuple[str, ...]
    """The fields of dataclasses and named tuples, in order."""


Classes = Mapping[Reference, RecordClass]
Announced = tuple[RecordClass, bytes]
"""A class and its pickle, which a task loads when it needs it."""


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


def announce(classes: Iterable[type], kept: Classes = MappingProxyType({})) -> dict[int, type]:
    """The classes by number, which they keep as long as this process lives.

    Classes in `kept`, to which state refers, keep their references from there, so that equal keys
    stay equal bytes. No other class gets one of these numbers.
    """
    before: defaultdict[RecordClass, deque[Reference]] = defaultdict(deque)
    for reference, each in sorted(kept.items(), key=lambda item: (isinstance(item[0], str), item)):
        before[each].append(reference)
    found = {}
    for kind in dict.fromkeys(classes):
        references = before[record_class(kind)]
        number = references.popleft() if references else _numbers.get(kind, "")
        if isinstance(number, str) and number and _imported(number) is kind:
            continue
        taken = number in found or kept.get(number, record_class(kind)) != record_class(kind)
        if isinstance(number, str) or taken:
            number = 1 + max(n for n in (*_classes, *kept) if isinstance(n, int))
        _numbers[kind] = number
        _classes[number] = found[number] = kind
    return found


def accept(
    classes: Mapping[int, type],
    others: Mapping[int, Announced],
    kept: Classes = MappingProxyType({}),
) -> None:
    """Register the classes that another process announced, and those that coming state refers to.

    `others` are loaded when a record needs them.
    """
    _classes.update(classes)
    _numbers.update({kind: number for number, kind in classes.items()})
    _known.update({number: record_class(kind) for number, kind in classes.items() if number >= 0})
    for number, announced in others.items():
        _known[number], _ = announced
        if number not in _classes:
            _unloaded[number] = announced
    _kept.update(kept)


def known() -> dict[Reference, RecordClass]:
    """The class of each reference that may occur in this process's state.

    Classes that it only announced to others are left out: a checkpoint has its job's classes.
    """
    return dict(_known)


def changed() -> list[RecordClass]:
    """The classes in kept state that are gone, or have other fields now."""
    return [described for reference, described in _kept.items() if not _is_there(reference)]


def trust(trusted: bool) -> None:
    """Set whether all who can send records to this process are tasks of its job."""
    global _trusted
    _trusted = trusted


def is_trusted() -> bool:
    """Whether all who can send records to this process are tasks of its job."""
    return _trusted


def trust_checkpoints(trusted: bool, modules: Collection[str] = ()) -> None:
    """Set whether all who can write to the job's checkpoints may run any code in it.

    The driver knows `modules` by itself: state may import them in any case.
    """
    global _checkpoints_trusted, _modules
    _checkpoints_trusted = trusted
    _modules = frozenset(modules)


def are_checkpoints_trusted() -> bool:
    """Whether all who can write to the job's checkpoints may run any code in it."""
    return _checkpoints_trusted


def may_import(name: str) -> bool:
    """Whether the module of a class, `module:name`, is imported here, or known to the driver."""
    module = name.partition(":")[0]
    return module in sys.modules or module in _modules


def modules_of(classes: Classes) -> set[str]:
    """The modules of these classes that other processes can import, unlike a pipeline's file."""
    found = {each.name.partition(":")[0] for each in classes.values()}
    return found.difference(cloudpickle.list_registry_pickle_by_value())


def number(kind: type) -> int | None:
    """The number of a class that was announced."""
    return _numbers.get(kind)


def record_class(kind: type) -> RecordClass:
    """The class as a checkpoint describes it."""
    fields = getattr(kind, "_fields", None)
    if not (issubclass(kind, tuple) and isinstance(fields, tuple)):
        fields = (
            tuple(field.name for field in dataclasses.fields(kind))
            if dataclasses.is_dataclass(kind)
            else ()
        )
    return RecordClass(name_of(kind), fields)


def name_of(kind: type) -> str:
    """The class's module and its name there: the reference to an importable class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def reference(kind: type) -> Reference:
    """The class's reference in a record; TypeError, with a hint, if no task could find it."""
    known = _numbers.get(kind)
    if known is not None:
        return known
    name = name_of(kind)
    for other in [other for other, (unloaded, _) in _unloaded.items() if unloaded.name == name]:
        if find(other) is kind:
            return other
    described = record_class(kind)
    for before in [before for before, kept in _kept.items() if kept == described]:
        if isinstance(before, int) and _is_there(before) and find(before) is kind:
            return before
    if _imported(name) is not kind:
        raise TypeError(
            f"{name.replace(':', '.')} cannot travel in a record: other tasks cannot import it, "
            "and no function of the pipeline mentions it\n\n"
            "hint: define the class at the top of a module, not inside a function"
        )
    _known[name] = record_class(kind)
    return name


def find(reference: Reference) -> type:
    """The class that a record refers to; raises LookupError, with a hint, if there is none."""
    if isinstance(reference, int):
        if reference in _unloaded:
            described, pickled = _unloaded[reference]
            _add(reference, _load(described.name, pickled))
            del _unloaded[reference]
        if reference in _classes:
            return _classes[reference]
        if reference not in _kept:
            raise LookupError(
                f"a record of class {reference}, which this process was not told of\n\n"
                "hint: do all tasks run the same version of oka?"
            )
        kind = _as_it_was(_kept[reference])
        _add(reference, kind)
        return kind
    if reference in _kept:
        kind = _as_it_was(_kept[reference])
    else:
        kind = _found(reference, _trusted)
    _known[reference] = record_class(kind)
    return kind


def _add(number: int, kind: type) -> None:
    _classes[number] = kind
    _numbers.setdefault(kind, number)
    _known[number] = record_class(kind)


def _found(name: str, trusted: bool) -> type:
    """The class of this name; LookupError, with a hint, if its import fails or is not allowed."""
    if trusted or may_import(name):
        _import(name)
    kind = _imported(name)
    if not isinstance(kind, type):
        shown = name.replace(":", ".")
        hint = "is its module the same on every node?"
        if not trusted:
            hint = "leave encryption on, or import the class where the function that takes it is"
        raise LookupError(
            f"a record of class {shown!r:.200}, which is not imported here\n\nhint: {hint}"
        )
    return kind


def _as_it_was(described: RecordClass) -> type:
    """The class that state refers to; LookupError, with a hint, if it is gone or has changed."""
    for number, (announced, _) in list(_unloaded.items()):
        if announced == described:
            return find(number)
    alike = [kind for kind in list(_classes.values()) if name_of(kind) == described.name]
    why = "gone"
    try:
        alike.append(_found(described.name, _checkpoints_trusted))
    except LookupError as error:
        why = f"gone ({str(error).partition(chr(10))[0]})"
        if not (_checkpoints_trusted or may_import(described.name)):
            why = f"gone (or its module is not imported here: {IMPORT_HINT})"
    for kind in alike:
        if record_class(kind) == described:
            return kind
    now = [other for other, _ in _unloaded.values() if other.name == described.name]
    now += map(record_class, alike)
    raise LookupError(
        f"it has objects of {_shown(described)}, which is "
        + (f"{_shown(now[0])} by now" if now else why)
        + "\n\nhint: objects keep their fields by order: give the class back what it had, or the "
        "changed one another name; an operator that is named anew begins without its state, with "
        "drop_state=[…] for that"
    )


def _shown(described: RecordClass) -> str:
    return f"{described.name.replace(':', '.')}({', '.join(described.fields)})"


def _is_there(reference: Reference) -> bool:
    try:
        find(reference)
    except LookupError:
        return False
    return True


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
    """The object at this place now, if any."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


_classes: dict[int, type] = {~at: kind for at, kind in enumerate(OWN)}
_numbers: dict[type, int] = {kind: number for number, kind in _classes.items()}
_unloaded: dict[int, Announced] = {}
_known: dict[Reference, RecordClass] = {}
"""The classes that this process's records refer to, or may refer to."""
_kept: dict[Reference, RecordClass] = {}
"""The classes that restored state refers to."""
_trusted = False
_checkpoints_trusted = False
_modules: frozenset[str] = frozenset()
"""The modules that state may import."""
IMPORT_HINT = (
    "import it at the top of the pipeline's file, or in a module that this imports; "
    "docs/explanation/recovery.md, Security, says why"
)
