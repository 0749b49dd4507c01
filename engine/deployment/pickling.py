"""Task descriptions as bytes, with the classes that records of the job may be of.

Records name their class by a number (`engine.record.registry`). The classes are those that the
pickled job mentions anywhere: of `__main__`, a notebook or a pipeline file, which no other process
can import, and dataclasses and their like of any module. A task has the classes that its own
functions mention, the very objects, from the start; others are loaded when a record of them comes.

What Ray counts references of, an ObjectRef or the handle of an actor, goes beside the bytes. So Ray
sees it in the arguments of a call, and keeps it for the worker.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.deployment.description import TaskDescription
from engine.deployment.unpicklable import unpicklable
from engine.record import code_pickle
from engine.record import registry as record_registry
from engine.record.classes import is_known


@dataclass(frozen=True)
class PickledDescription:
    """A description, on its way to the worker."""

    data: bytes
    """The task, as it was when the job was submitted."""
    placed: bytes
    """The rest of its description, which depends on where it is placed."""
    of_ray: tuple[Any, ...] = ()
    """ObjectRefs and handles of actors, by the numbers that they have in `data`."""


class PickledTasks:
    """The tasks of a job as they are when this is made, whatever the program does later.

    A notebook gives a variable another value while a job runs: its functions have the one from
    before, also after a restart. Raises StartError. `of_ray`: whether workers get ObjectRefs and
    handles of actors.
    """

    def __init__(self, descriptions: Sequence[TaskDescription], *, of_ray: bool = False) -> None:
        picklers = [_pickled(description, of_ray) for description in descriptions]
        self._data = [pickler.out.getvalue() for pickler in picklers]
        self._of_ray = [tuple(pickler.of_ray) for pickler in picklers]
        self._classes = [tuple(pickler.classes) for pickler in picklers]
        self._dumped = {
            kind: code_pickle.dumps(kind) for classes in self._classes for kind in classes
        }

    def placed(
        self, descriptions: Sequence[TaskDescription], kept: record_registry.Classes
    ) -> list[PickledDescription]:
        """The description of each task, for its worker.

        `kept` are the classes in the state that the job goes on from.
        """
        classes = record_registry.announce(self._dumped, kept)
        announced = {
            number: (record_registry.record_class(kind), self._dumped[kind])
            for number, kind in classes.items()
        }
        found = []
        for task, data, met, of_ray in zip(
            descriptions, self._data, self._classes, self._of_ray, strict=True
        ):
            own = {n: met.index(kind) for n, kind in classes.items() if kind in met}
            others = {n: each for n, each in announced.items() if n not in own}
            where = {name: getattr(task, name) for name in _OF_PLACEMENT}
            placed = code_pickle.dumps((where, own, others, dict(kept)))
            found.append(PickledDescription(data, placed, of_ray))
        return found


def unpickle_description(pickled: PickledDescription) -> TaskDescription:
    """The description of this process's task; its records' classes are known from then on."""
    _given.of_ray = pickled.of_ray
    unpickler = pickle.Unpickler(io.BytesIO(pickled.data))  # noqa: S301 - sent by our own driver
    description: TaskDescription = unpickler.load()
    classes: tuple[type, ...] = unpickler.load()
    del _given.of_ray
    where, own, others, kept = pickle.loads(pickled.placed)  # noqa: S301 - as above
    record_registry.accept({n: classes[index] for n, index in own.items()}, others, kept)
    return replace(description, **where)


class _Pickler(code_pickle.Pickler):
    """Collects the classes of possible records, and objects of Ray."""

    def __init__(self, takes_of_ray: bool) -> None:
        self.out = io.BytesIO()
        self.classes: dict[type, None] = {}
        self.of_ray: list[Any] = []
        self._takes_of_ray = takes_of_ray
        super().__init__(self.out)

    def reducer_override(self, obj: Any) -> Any:
        """How the object is made again, as `code_pickle` has it."""
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and obj.__module__ != "builtins":
            by_value = reduced is not NotImplemented
            if by_value or is_known(obj):
                self.classes[obj] = None
        return reduced

    def reduce_of_ray(self, obj: Any) -> Any:
        """Pickle a number in its place."""
        if not self._takes_of_ray:
            raise code_pickle.RayReferencePickled(
                "it is of Ray, and the workers are not",
                "take runtime='ray'; or use ray.get before, and send the value",
            )
        self.of_ray.append(obj)
        return _of_ray, (len(self.of_ray) - 1,)


def _pickled(description: TaskDescription, of_ray: bool) -> _Pickler:
    pickler = _Pickler(of_ray)
    try:
        pickler.dump(description)
        pickler.dump(tuple(pickler.classes))  # behind it: the very objects
    except Exception as error:
        dump = lambda value: _Pickler(of_ray).dump(value)  # noqa: E731 - of one line
        raise unpicklable(description.operators, error, dump) from error
    return pickler


def _of_ray(number: int) -> Any:
    """The objects beside the description that this thread reads."""
    return _given.of_ray[number]


_given = threading.local()
_OF_PLACEMENT = ("neighbours", "services", "node", "host")
"""The nodes of the job in a description."""
