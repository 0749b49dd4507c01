"""The selector of a record's time.

Times stay in the records, as numbers or datetimes; the engine's are integers, microseconds since
1970 in UTC.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from engine.columns import column_of
from engine.errors import GraphError
from engine.graph.failing import FailureContext
from operators.elementwise import check_function
from operators.keys import Item, check_item, key_finder

if TYPE_CHECKING:
    import pyarrow as pa

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""The unit of a time that is a number."""

Time: TypeAlias = Item | Callable[[Any], Any] | None
"""An item of the record, a function of it, or None: the record itself is its time."""


@dataclass(frozen=True)
class TimeSelector:
    """Reads the time of a record: a number of `unit` since 1970, or a datetime.

    Datetimes without a zone are in UTC. Numbers may be floats. Fractions of a microsecond are
    rounded, of integers down. With `paired`, pairs of a key and a record come; with `in_front`, the
    record is the first item of what comes, but not of columns. `column` is the name of the column
    with the time, if records have no such name; the time is `before_us` microseconds before the
    value there.

    >>> TimeSelector("ts", "ms").microseconds({"ts": 1500})
    1500000
    >>> TimeSelector(0).microseconds((datetime(1970, 1, 1, 0, 1), "moon"))
    60000000
    """

    item: Time = None
    unit: Unit = "us"
    paired: bool = False
    column: str | None = None
    before_us: int = 0
    in_front: bool = False
    said_by: str | None = field(default=None, compare=False)
    """The method that declared it, if that is not `with_event_time`."""

    @classmethod
    def of(cls, method: str, time: Any, unit: Any) -> "TimeSelector":
        """The selector of a user's arguments to this method; `GraphError` for invalid ones."""
        if unit not in get_args(Unit):
            words = ", ".join(map(repr, get_args(Unit)))
            raise GraphError(f"{method}() got unit={unit!r:.80}, expected one of {words}")
        if time is not None and not isinstance(time, int | str):
            check_function(method, time, 1, expected="an index >= 0, a field name or a function")
        elif time is not None:
            check_item(method, time)
        return cls(time, unit)

    def __str__(self) -> str:
        """The place of the time, for messages."""
        if self.item is None:
            return "the record itself"
        if callable(self.item):
            return f"what {getattr(self.item, '__name__', 'a function')} returns"
        return f"item {self.item!r}"

    @property
    def takes_columns(self) -> bool:
        """Whether the time is in a column, rather than what a function makes of a record."""
        return not callable(self.item)

    @property
    def functions(self) -> tuple[tuple[Callable[..., Any], int], ...]:
        """The function that finds the time, if there is one, for `Properties.functions`."""
        return ((self.item, 1),) if callable(self.item) else ()

    @property
    def meaning(self) -> dict[str, Any]:
        """The place and the unit, for `Properties.meaning`; all functions have the same meaning."""
        return {"time": "a function" if callable(self.item) else self.item, "unit": self.unit}

    def microseconds(self, record: Any) -> int:
        """The time of a record. Raises ValueError, or what reading the item raises."""
        return self.in_microseconds(self.time(record))

    @cached_property
    def time(self) -> Callable[[Any], Any]:
        """The function that reads the time in the record's own form."""
        place = self.place
        if place is None:
            return operator.itemgetter(1) if self.paired else _itself
        find: Callable[[Any], Any] = place if callable(place) else key_finder(place)
        if self.column is not None:
            find = _of_either(find, self.column)
        return (lambda pair: find(pair[1])) if self.paired else find

    @property
    def place(self) -> Time:
        """Where the time is in what comes, but for its key: an item, or a function."""
        item = self.item
        if not self.in_front:
            return item
        if item is None:
            return 0
        find = item if callable(item) else key_finder(item)
        return lambda result: find(result[0])

    def all_microseconds(
        self, records: list[Any], failing: FailureContext | None = None
    ) -> list[int]:
        """The times of all these records; `failing` gets a record without one."""
        at = iter(records)
        find = self.time
        try:
            # `map` would take a StopIteration of the function for its end.
            times = [find(record) for record in at]
            if set(map(type, times)) <= _INTEGERS:
                if self.before_us:
                    return [self.in_microseconds(time) for time in times]
                if self.unit == "us":
                    return times
                if self.unit == "ns":
                    return [time // 1000 for time in times]
                scale = MICROSECONDS[self.unit]
                return [time * scale for time in times]
            at = iter(records)
            return [self.in_microseconds(time) for time, _ in zip(times, at, strict=True)]
        except BaseException:
            if failing is not None:
                failing.at(records, at)
            raise

    def in_columns(self, batch: "pa.RecordBatch") -> "tuple[pa.Array, TimeSelector]":
        """The times of all rows as numbers, and the function that reads such a number.

        ValueError if there is no such column, or a row without a time.
        """
        import numpy as np
        import pyarrow as pa

        item = self.item_of_columns
        column = column_of(batch, item)
        if column is None:
            raise ValueError(
                f"the time is column {item!r}, and there are {', '.join(batch.schema.names)}, "
                "expected one column of that name or index"
            )
        kind = column.type  # each access makes a new object
        floats = pa.types.is_float32(kind) or pa.types.is_float64(kind)
        if floats:
            column = column.cast(pa.float64())
        if floats or pa.types.is_integer(kind):
            numbers, unit = column, self.unit
        elif pa.types.is_timestamp(kind):
            numbers, unit = column.view(pa.int64()), kind.unit
        else:
            raise ValueError(
                f"the column {item!r} of times is of type {kind}, expected numbers of "
                f"{self.unit} or timestamps\n\n"
                "hint: cast it in .map_batches(...) before .with_event_time(...)"
            )
        if floats:
            lacking = len(column) - np.isfinite(column.to_numpy(zero_copy_only=False)).sum()
        else:
            lacking = column.null_count
        if lacking:
            raise ValueError(
                f"the column {item!r} of times has none in {lacking} of {len(column)} rows, "
                "expected one in each\n\nhint: filter such rows out in .map_batches(...)"
            )
        return numbers, _numbers_of(unit, self.before_us)

    def is_number(self, batch: "pa.RecordBatch") -> bool:
        """Whether the times of the rows are numbers, which depend on the unit."""
        import pyarrow as pa

        column = column_of(batch, self.item_of_columns)
        return column is not None and not pa.types.is_timestamp(column.type)

    @property
    def item_of_columns(self) -> int | str:
        """The name or the index of the column with the time."""
        item = self.item if self.column is None else self.column
        assert isinstance(item, int | str), "a function reads records"
        return item

    def highest(self, batches: "list[pa.RecordBatch]") -> int | None:
        """The highest time in these batches; None if each batch needs a look of its own."""
        import pyarrow as pa

        try:
            column = column_of(pa.Table.from_batches(batches), self.item_of_columns)
        except pa.ArrowInvalid:  # they have different columns
            return None
        if column is None or column.null_count:
            return None
        kind = column.type
        if pa.types.is_integer(kind):
            return _numbers_of(self.unit, self.before_us).in_microseconds(column.to_numpy().max())
        if pa.types.is_timestamp(kind):
            numbers = column.to_numpy().view("int64")
            return _numbers_of(kind.unit, self.before_us).in_microseconds(numbers.max())
        return None

    def in_microseconds(self, time: Any) -> int:
        """A record's time in microseconds. Raises ValueError for a value that is no time."""
        unit, kind, before = self.unit, type(time), self.before_us
        try:
            if isinstance(time, float):
                us = round(time / 1000 if unit == "ns" else time * MICROSECONDS[unit])
                return us - before
            if isinstance(time, datetime):
                zoned = time.replace(tzinfo=timezone.utc) if time.tzinfo is None else time
                return (zoned - _EPOCH) // _MICROSECOND - before
            if kind is int or (kind is not bool and hasattr(kind, "__index__")):
                number = operator.index(time)
                us = number // 1000 if unit == "ns" else number * MICROSECONDS[unit]
                return us - before
        except (ValueError, OverflowError):  # it is NaN or infinite
            pass
        raise ValueError(
            f"the time of the record is {time!r:.80} ({kind.__name__}), expected a number of "
            f"{self.unit} or a datetime\n\n"
            f"hint: its time is {self}; a function may convert it, such as datetime.fromisoformat"
        )

    def like(self, time: Any) -> Callable[[int], Any]:
        """The function that turns microseconds into the form of this record's time.

        >>> TimeSelector(unit="s").like(7)(10_000_000)
        10
        >>> TimeSelector().like(datetime(2026, 1, 1))(0)
        datetime.datetime(1970, 1, 1, 0, 0)
        """
        if isinstance(time, datetime):
            return _datetimes(time.tzinfo)
        if self.unit == "ns":
            return (lambda us: us * 1e3) if isinstance(time, float) else (lambda us: us * 1000)
        scale = MICROSECONDS[self.unit]
        if isinstance(time, float):
            return lambda us: us / scale
        return lambda us: us / scale if us % scale else us // scale


class GivesTime(ABC):
    """An operator that declares the time of its records."""

    @property
    @abstractmethod
    def given_time(self) -> TimeSelector | None:
        """The selector; None if these records have no time."""


@cache
def _numbers_of(unit: Unit, before_us: int) -> TimeSelector:
    """The selector of records that are times themselves."""
    return TimeSelector(unit=unit, before_us=before_us)


def _itself(record: Any) -> Any:
    return record


def _of_either(find: Callable[[Any], Any], column: str) -> Callable[[Any], Any]:
    """Finds the time in a record, or by its name in a row of columns."""
    return lambda record: record[column] if type(record) is dict else find(record)


def _datetimes(zone: tzinfo | None) -> Callable[[int], datetime]:
    def moment(us: int) -> datetime:
        try:
            found = _EPOCH + timedelta(microseconds=us)
            return found.replace(tzinfo=None) if zone is None else found.astimezone(zone)
        except OverflowError:
            raise ValueError(
                f"a window begins or ends {us} us from 1970, expected what a datetime can tell: "
                "the years 1 to 9999\n\nhint: filter out records whose time is "
                "none, such as datetime.max"
            ) from None

    return moment


MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}
FARTHEST_US = 1 << 62
"""The limit of times in Rust and in columns, 146,000 years from 1970, like `FARTHEST` of windows
(`rust/window/src/windows.rs`)."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_INTEGERS = {int}
