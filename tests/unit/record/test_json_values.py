"""What lines of JSON have for values that JSON has no kind for."""

from __future__ import annotations

import enum
import json
import uuid
from collections import deque
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel

from engine.record.json_values import ENCODER


class Color(enum.Enum):
    RED = (1, 2)


class Size(enum.IntEnum):
    LARGE = 3


@dataclass
class Point:
    x: int
    tags: list[Any] = field(default_factory=list)


class Pair(NamedTuple):
    a: int
    at: date


class Model(BaseModel):
    at: datetime


DAY = datetime(2026, 1, 31, 12, 30, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (DAY, "2026-01-31T12:30:00+00:00"),
        (DAY.date(), "2026-01-31"),
        (time(1, 2, 3), "01:02:03"),
        (timedelta(days=1, microseconds=5), "PT86400.000005S"),
        (-timedelta(seconds=1), "PT-1S"),
        (Decimal("1.10"), "1.10"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (PurePosixPath("a/b"), "a/b"),
        (Color.RED, [1, 2]),
        (Size.LARGE, 3),
        (deque([1, 2]), [1, 2]),
        (Point(1, [DAY.date()]), {"x": 1, "tags": ["2026-01-31"]}),
        (Pair(1, DAY.date()), [1, "2026-01-31"]),
        (Model(at=DAY), {"at": "2026-01-31T12:30:00+00:00"}),
        (np.int64(-3), -3),
        (np.uint8(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.longdouble("0.5"), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.datetime64("2026-01-31T12:30"), "2026-01-31T12:30"),
        (np.array(["2026-01-31"], dtype="M8[ns]"), ["2026-01-31T00:00:00.000000000"]),
        (np.timedelta64(5, "s"), "PT5S"),
        ({"a": [DAY.date(), {"b": np.int8(1)}]}, {"a": ["2026-01-31", {"b": 1}]}),
    ],
)
def test_values_as_json(value: Any, told: Any) -> None:
    assert json.loads(ENCODER.encode(value)) == told


@pytest.mark.parametrize(
    "value",
    [
        *(b"a", 1 + 2j, float("nan"), np.float64("nan"), np.float32("inf"), np.datetime64("NaT")),
        *(
            np.bytes_(b"a"),
            np.complex64(1),
            object(),
            Point,
            {1},
            frozenset(),
            {b"a": 1},
            {(1, 2): 3},
        ),
        np.array([1, np.nan]),
    ],
)
def test_what_json_has_no_words_for(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        ENCODER.encode(value)
