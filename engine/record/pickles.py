"""Pickled records of any class, for streams that allow it and trust all senders.

A pickle can run any code of its maker. So `Stream.with_pickle` must allow it, and it is only read
where `engine.record.registry.trust` says that all senders are tasks of the job.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from engine.record import code_pickle
from engine.record import registry as record_registry


def dumps(value: object) -> bytes:
    """The value as bytes; TypeError, with a hint, if it cannot be pickled."""
    out = io.BytesIO()
    try:
        _Pickler(out).dump(value)
    except Exception as error:
        kind = type(value)
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} cannot be pickled: "
            f"{type(error).__name__}: {error}\n\nhint: "
            + getattr(error, "hint", "emit the parts of it that can")
        ) from error
    return out.getvalue()


def loads(payload: bytes) -> object:
    """The value of such bytes; ValueError where senders are not trusted."""
    if not record_registry.is_trusted():
        raise ValueError("a pickle, which is not read where channels are not encrypted")
    return _Unpickler(io.BytesIO(payload)).load()


class _Pickler(code_pickle.Pickler):
    """Classes of the job travel as numbers, and so arrive as the tasks' classes."""

    def persistent_id(self, obj: object) -> int | None:
        return record_registry.number(obj) if isinstance(obj, type) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return record_registry.find(pid)
