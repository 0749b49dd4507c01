"""The form in JSON of values that it does not know itself: ISO 8601, numbers, texts, arrays."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections import deque
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID


def plain(value: Any) -> Any:
    """The value in JSON's types; raises TypeError for others, such as bytes or a set.

    Times are as ISO 8601 has them; a Decimal, an UUID and a path are texts, so that none of it is
    lost; an enum's member is its value, a dataclass or a pydantic model an object of its fields.
    """
    if isinstance(value, date | time):  # and datetime
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{Decimal(value // _MICROSECOND) / 1_000_000:f}S"
    if isinstance(value, Decimal | UUID | PurePath):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, deque):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names}
    if type(value).__module__ == "numpy":
        return _of_numpy(value)
    if callable(dump := getattr(value, "model_dump", None)):  # pydantic
        return dump()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _of_numpy(value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.datetime64 | np.timedelta64):
        if np.isnat(value):
            raise ValueError(f"{value!r} is no time")
        if isinstance(value, np.timedelta64):
            return plain(value.astype("timedelta64[us]").item())
        return str(value)
    if isinstance(value, np.ndarray):
        return list(value) if value.dtype.kind in "mM" else value.tolist()
    if isinstance(value, np.bytes_ | np.void | np.complexfloating):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    found = value.item()
    return float(found) if isinstance(found, np.longdouble) else found


ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=plain
)
"""Writes JSON in one line."""
_MICROSECOND = timedelta(microseconds=1)
