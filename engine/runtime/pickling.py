"""Task descriptions as bytes, with the classes that records of the job may be of.

Records name their class by a number (`engine.record_registry`). The classes are those that the
pickled job mentions anywhere: of `__main__`, a notebook or a pipeline file, which no other process
can import, and dataclasses and their like of any module. A task has the classes that its own
functions mention, the very objects, from the start; others are loaded when a record of them comes.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from engine import code_pickle, record_registry
from engine.record_classes import is_known
from engine.runtime.description import TaskDescription
from engine.runtime.unpicklable import unpicklable


def pickle_descriptions(
    descriptions: Sequence[TaskDescription], kept: record_registry.Classes
) -> list[bytes]:
    """The descriptions of all tasks of a job, for `unpickle_description`. Raises StartError.

    `kept` are the classes in the state that the job goes on from.
    """
    picklers = [_pickled(description) for description in descriptions]
    classes = record_registry.announce(
        (kind for pickler in picklers for kind in pickler.classes), kept
    )
    announced = {
        number: (record_registry.record_class(kind), code_pickle.dumps(kind))
        for number, kind in classes.items()
    }
    for pickler in picklers:
        own = {n: kind for n, kind in classes.items() if kind in pickler.classes}
        others = {n: each for n, each in announced.items() if n not in own}
        pickler.dump(
            (own, others, dict(kept))
        )  # behind the description: its classes are known already
    return [pickler.out.getvalue() for pickler in picklers]


def unpickle_description(data: bytes) -> TaskDescription:
    """The description of this process's task; its records' classes are known from then on."""
    unpickler = pickle.Unpickler(io.BytesIO(data))  # noqa: S301 - sent by our own driver
    description: TaskDescription = unpickler.load()
    record_registry.accept(*unpickler.load())
    return description


class _Pickler(code_pickle.Pickler):
    """Notes the classes that it meets and that records may be of."""

    def __init__(self) -> None:
        self.out = io.BytesIO()
        self.classes: dict[type, None] = {}
        super().__init__(self.out)

    def reducer_override(self, obj: Any) -> Any:
        """As `code_pickle` reduces it."""
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and obj.__module__ != "builtins":
            by_value = reduced is not NotImplemented
            if by_value or is_known(obj):
                self.classes[obj] = None
        return reduced


def _pickled(description: TaskDescription) -> _Pickler:
    pickler = _Pickler()
    try:
        pickler.dump(description)
    except Exception as error:
        raise unpicklable(description.operators, error) from error
    return pickler
