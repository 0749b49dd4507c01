"""Python values by kind, for tables of values and operators: equal ones and others side by side."""

from __future__ import annotations

import datetime as dt
import enum
import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

UTC = dt.timezone.utc
BERLIN, PARIS = ZoneInfo("Europe/Berlin"), ZoneInfo("Europe/Paris")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):
    A = "a"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Place:
    row: Any
    name: str = ""


@dataclass(frozen=True)
class Spot:
    row: Any
    name: str = ""


@dataclass(frozen=True)
class Noted:
    row: int
    note: str = field(default="", compare=False)


def at(*when: int, zone: dt.tzinfo | None = None, fold: int = 0) -> dt.datetime:
    return dt.datetime(*when, tzinfo=zone, fold=fold)  # type: ignore[arg-type,misc]


def offset(hours: float) -> dt.timezone:
    return dt.timezone(dt.timedelta(hours=hours))


KEYS: dict[str, list[Any]] = {
    "none": [None, 0, "", ()],
    "numbers": [1, True, 1.0, Decimal(1), Fraction(1), 1 + 0j, Level.LOW, 2, False],
    "numbers of numpy": [1, np.int64(1), np.uint8(1), np.float32(1), np.bool_(True), np.int8(2)],
    "integers": [0, -1, 127, 128, -33, 2**32, 2**63 - 1, 2**63, -(2**63), 2**64, -(2**64)],
    "big integers": [2**64, float(2**64), Decimal(2**64), 2**64 + 1, 10**400, 10**400 + 1],
    "floats": [0.0, -0.0, 0, 0.1, 1e300, -1e300, math.inf, -math.inf, 2.5],
    "floats of numpy": [0.1, np.float64(0.1), np.float32(0.1), np.float16(0.5), 0.5, np.float64(0)],
    "nan": [math.nan, -math.nan, Decimal("NaN"), complex(math.nan, 1), np.float32("nan"), 1],
    "decimals": [Decimal("0.1"), Decimal("0.10"), Fraction(1, 10), 0.1, Decimal("-0"), 0],
    "far decimals": [Decimal("1E+6000"), Decimal("10E+5999"), Decimal("1E-6000"), Decimal("Inf")],
    "many digits": [Decimal("1." + "0" * 40 + "1"), Decimal("1." + "0" * 40 + "2"), Decimal(1)],
    "fractions": [Fraction(1, 3), Fraction(2, 6), Fraction(1, 2), Decimal("0.5"), 0.5, 1 / 3],
    "far fractions": [Fraction(10**400, 3), Fraction(1, 10**400), Fraction(10**400 + 1, 3)],
    "complex": [1j, complex(-0.0, 1), np.complex64(1j), 2j, 1 + 1j, complex(math.inf, 0), math.inf],
    "texts": ["", "a", np.str_("a"), Word.A, "ü", "\ud800", "1", "a" * 300, "\0"],
    "bytes": [b"", b"a", np.bytes_(b"a"), "a", b"a" * 300],
    "dates": [dt.date(2025, 1, 1), at(2025, 1, 1), at(2025, 1, 1, zone=UTC), dt.date(2025, 1, 2)],
    "datetimes": [at(2025, 1, 1, 12), at(2025, 1, 1, 12, fold=1), at(2025, 1, 1, 12, 0, 0, 1)],
    "zones": [
        at(2025, 7, 1, 12, zone=UTC),
        at(2025, 7, 1, 14, zone=BERLIN),
        at(2025, 7, 1, 14, zone=PARIS),
        at(2025, 7, 1, 14, zone=offset(2)),
        at(2025, 7, 1, 12),
        at(2025, 7, 1, 12, zone=BERLIN),
    ],
    "a time twice": [
        at(2025, 10, 26, 2, 30, zone=BERLIN),
        at(2025, 10, 26, 2, 30, zone=BERLIN, fold=1),
        at(2025, 10, 26, 0, 30, zone=UTC),
        at(2025, 10, 26, 1, 30, zone=UTC),
        at(2025, 10, 26, 2, 30, zone=PARIS),
        at(2025, 10, 26, 2, 30),
    ],
    "a time that is none": [
        at(2025, 3, 30, 2, 30, zone=BERLIN),
        at(2025, 3, 30, 2, 30, zone=BERLIN, fold=1),
        at(2025, 3, 30, 3, 30, zone=BERLIN),
        at(2025, 3, 30, 1, 30, zone=UTC),
    ],
    "the farthest": [
        dt.datetime.max.replace(tzinfo=offset(-12)),
        dt.datetime.max.replace(tzinfo=offset(12)),
        dt.datetime.max.replace(tzinfo=UTC),
        dt.datetime.min.replace(tzinfo=offset(12)),
        dt.datetime.min.replace(tzinfo=UTC),
        dt.datetime.max,
        dt.datetime.min,
        dt.datetime.max.replace(tzinfo=BERLIN),
    ],
    "times": [
        dt.time(1),
        dt.time(1, fold=1),
        dt.time(1, tzinfo=UTC),
        dt.time(2, tzinfo=offset(1)),
        dt.time(1, tzinfo=BERLIN),
        dt.time(0, 0, 0, 1),
    ],
    "timedeltas": [dt.timedelta(1), dt.timedelta(hours=24), dt.timedelta(0), 0, dt.timedelta(-1)],
    "timezones": [UTC, offset(0), dt.timezone(dt.timedelta(0), "x"), offset(1)],
    "uuids": [UUID(int=1), UUID("00000000-0000-0000-0000-000000000001"), UUID(int=2), 1],
    "enums": [Color.RED, Color.BLUE, "red", Right.READ, Right.READ | Right.WRITE, 1],
    "tuples": [(1, "a"), (1.0, "a"), (True, "a"), Pair(1, "a"), (Decimal(1), "a"), (1, b"a"), (1,)],
    "tuples of others": [(at(2025, 7, 1, zone=UTC),), (at(2025, 7, 1, 2, zone=BERLIN),), (1j,), ()],
    "nested tuples": [((1, (2,)),), ((1.0, (Fraction(2),)),), ((1, 2),), (((1,), 2),)],
    "tuples of nan": [(math.nan,), (-math.nan,), (math.nan, 1), (Decimal("NaN"),)],
    "frozensets": [
        frozenset([1, 2]),
        frozenset([2.0, 1]),
        frozenset(),
        frozenset([1]),
        frozenset([3]),
    ],
    "frozensets of others": [
        frozenset([Decimal(1), "a"]),
        frozenset(["a", 1]),
        frozenset([frozenset(["a"])]),
        frozenset([("a", 1j)]),
        (frozenset(["a"]),),
    ],
    "dataclasses": [Place(1), Place(1.0), Place(Decimal(1)), Spot(1), Place(2), (1, "")],
    "dataclasses of others": [
        Place(at(2025, 7, 1, zone=UTC)),
        Place(at(2025, 7, 1, 2, zone=BERLIN)),
        Place(frozenset([1, 2])),
        Place(Place(1j)),
    ],
    "dataclasses that leave out": [Noted(1, "a"), Noted(1, "b"), Noted(2, "a")],
    "named tuples": [Pair(1, 2), (1, 2), Pair(1.0, 2), Pair(2, 1)],
    "paths": [
        PurePosixPath("a"),
        PurePosixPath("a/"),
        PureWindowsPath("A"),
        PureWindowsPath("a"),
        "a",
    ],
}
"""Keys by kind. What Python calls equal is one key, and all NaN are."""

REFUSED_KEYS: dict[str, list[Any]] = {
    "list": [[1]],
    "dict": [{}],
    "set": [{1}],
    "bytearray": [bytearray(b"a")],
    "a list inside": [(1, [1])],
    "a list in a dataclass": [Place([1])],
    "ndarray": [np.zeros(1)],
    "datetime64": [np.datetime64("2025-01-01")],
    "timedelta64": [np.timedelta64(1, "s")],
    "range": [range(3)],
}

VALUES: dict[str, list[Any]] = {
    "integers": [3, 1, 2**62, -5],
    "big integers": [2**64, -(2**130), 10**60, 1],
    "integers of 128 bits": [2**127 - 1, 1, -(2**127), -1, 2],
    "floats": [0.1, 0.2, 0.3, -1e300, 1e300],
    "integers and floats": [1, 0.5, 2**70, True],
    "bools": [True, True, False],
    "decimals": [Decimal("0.1"), Decimal("0.2"), Decimal("-1E-10")],
    "decimals of many digits": [Decimal("1." + "3" * 40), Decimal("2." + "7" * 40)],
    "decimals and integers": [Decimal("0.1"), 2, Decimal(3)],
    "decimals and floats": [Decimal("0.1"), 0.5],
    "fractions": [Fraction(1, 3), Fraction(1, 6), Fraction(-7, 2)],
    "fractions, integers and floats": [Fraction(1, 3), 2, 0.5],
    "complex": [1j, 2 + 0j, 3],
    "np.int8": [np.int8(100), np.int8(100), np.int8(-1)],
    "np.uint64": [np.uint64(2**64 - 1), np.uint64(2**64 - 1)],
    "np.float64": [np.float64(0.1), np.float64(0.2)],
    "np.float32": [np.float32(0.5), np.float32(0.25), 1],
    "np.bool": [np.bool_(True), np.bool_(True)],
    "timedeltas": [dt.timedelta(1), dt.timedelta(seconds=1), dt.timedelta(-3)],
    "enums of integers": [Level.HIGH, Level.LOW, Level.HIGH],
    "texts": ["b", "a", "c"],
    "texts of numpy": [np.str_("b"), "a"],
    "bytes": [b"b", b"a"],
    "dates": [dt.date(2025, 1, 2), dt.date(2025, 1, 1)],
    "datetimes": [at(2025, 1, 2, zone=UTC), at(2025, 1, 1, zone=BERLIN)],
    "naive and aware": [at(2025, 1, 2, zone=UTC), at(2025, 1, 1)],
    "tuples": [(2, "b"), (1, "z"), (2, "a")],
    "named tuples": [Pair(2, 1), Pair(1, 2)],
    "lists": [[2], [1, 5], [1]],
    "uuids": [UUID(int=2), UUID(int=1)],
    "mixed": [1, "a"],
    "none": [None, None],
    "some none": [1, None, 2],
    "dicts": [{"a": 1}, {"a": 1}],
    "dataclasses": [Place(1), Place(2)],
    "enums": [Color.RED, Color.BLUE],
    "decimals that are none": [Decimal("1"), Decimal("sNaN")],
}
"""Values by kind, of one key, in order of arrival."""
