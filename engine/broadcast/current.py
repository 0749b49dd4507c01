"""Which store a model that is decoded belongs to: the one of the task that decodes it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from engine import record
from engine.errors import ModelError
from engine.model import Descriptor, Model
from engine.model.descriptor import EXTENSION
from engine.model.model import REFUSAL

if TYPE_CHECKING:
    from engine.broadcast.store import ModelStore


def use(store: ModelStore | None) -> None:
    """Decode descriptors to models of this store from now on, in the calling thread.

    Other threads of the process use it, too, while it is the only one. None ends that.
    """
    before = getattr(_of_thread, "store", None)
    with _lock:
        if before is not None:
            _in_use.remove(before)
        if store is not None:
            _in_use.append(store)
    _of_thread.store = store


def store_in_use() -> ModelStore | None:
    """The store of this thread, or the only one of the process."""
    store: ModelStore | None = getattr(_of_thread, "store", None)
    if store is not None:
        return store
    with _lock:  # several threads of one task may use it
        return _in_use[0] if len(set(_in_use)) == 1 else None


def _decode(payload: bytes) -> Model:
    store = store_in_use()
    if store is None:
        raise ModelError(
            "a model arrived where no task runs, expected a task with a model store",
            "in a test of your own, engine.broadcast.use(ModelStore(…)) gives it one",
        )
    return store.model(Descriptor.decode(payload))


def _refuse(_model: Model) -> bytes:
    raise TypeError(REFUSAL)


_of_thread = threading.local()
_in_use: list[ModelStore] = []
_lock = threading.Lock()

record.register_type(Descriptor, EXTENSION, Descriptor.encode, _decode)
record.register_type(Model, EXTENSION, _refuse, _decode)  # for the hint alone
