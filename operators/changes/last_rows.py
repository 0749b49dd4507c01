"""The last row of each key by numbers, in whatever form rows are."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from engine.graph.watermark import START_OF_TIME
from engine.state import KeyedState
from operators.changes.change import AFTER, BEFORE, DELETE, INSERT

Row: TypeAlias = tuple[Any, int]
"""What the order of a key's rows goes by, and the number of its row, 0 of a tombstone."""


class Rows:
    """The last row of each key, by numbers: which changes follow from which rows.

    With `keep_us`, a key expires when the watermark is so far behind the highest time of its rows.
    """

    def __init__(self, keep_us: int | None = None) -> None:
        self.of_keys: dict[int, Row] = {}
        self.times: dict[int, int] = {}
        """The highest time of each key, where keys expire."""
        self.passed = 0
        """How many rows came when they would have expired."""
        self._keep_us = keep_us
        self._watermark_us = START_OF_TIME
        self._due: list[tuple[int, int]] = []
        """A heap of times at which a key may expire, and the key."""
        self._planned: dict[int, int] = {}
        """The first of these times of each key; others are void."""
        self._free: list[int] = []
        self._last = 0

    def __len__(self) -> int:
        return self._last - len(self._free)

    def take(
        self,
        keys: Sequence[int],
        bys: Sequence[Any] | None,
        are_gone: Sequence[bool] | None,
        times: Sequence[int] | None = None,
    ) -> "Step":
        """The changes that rows of these keys make, in their order."""
        step, of_keys = Step([], [], [], []), self.of_keys
        numbers, add, by, nothing = step.numbers, step.changes.append, None, (None, 0)
        for place, key in enumerate(keys):
            if times is not None and self._has_passed(times[place]):
                self.passed += 1
                step.late.append(place)
                numbers.append(0)
                continue
            highest, before = of_keys.get(key, nothing)
            if bys is not None:
                by = bys[place]
                if by is None or by != by:
                    raise NoOrder(place)
                try:
                    is_older = highest is not None and by < highest
                except TypeError:
                    raise NoOrder(place) from None
                if is_older:
                    step.late.append(place)
                    numbers.append(0)
                    continue
            is_gone = are_gone is not None and are_gone[place]
            number = 0 if is_gone else self.number()
            numbers.append(number)
            if before:
                add((DELETE if is_gone else BEFORE, before, key))
                step.gone.append(before)
                if number:
                    add((AFTER, number, key))
            elif number:
                add((INSERT, number, key))
            if number or bys is not None:
                of_keys[key] = by, number
                if times is not None:
                    self.expire(key, times[place])
            elif before:
                del of_keys[key]
                self.times.pop(key, None)
        return step

    def expire(self, key: int, time_us: int) -> None:
        """Have a key expire, unless a row of it with a later time was there."""
        assert self._keep_us is not None
        self.times[key] = time_us = max(time_us, self.times.get(key, time_us))
        due_us = time_us + self._keep_us
        if key not in self._planned or due_us < self._planned[key]:
            self._planned[key] = due_us
            heappush(self._due, (due_us, key))

    def advance(self, watermark_us: int) -> "Step":
        """The changes of the rows that expire now; tombstones are forgotten."""
        self._watermark_us = max(watermark_us, self._watermark_us)
        step = Step([], [], [], [])
        while self._due and self._due[0][0] <= self._watermark_us:
            due_us, key = heappop(self._due)
            if self._planned.get(key) != due_us:
                continue
            del self._planned[key]
            time_us = self.times.get(key)
            if time_us is None:  # a tombstone took it away
                continue
            if not self._has_passed(time_us):
                self.expire(key, time_us)
                continue
            del self.times[key]
            _, number = self.of_keys.pop(key)
            if number:
                step.changes.append((DELETE, number, key))
                step.gone.append(number)
        return step

    def _has_passed(self, time_us: int) -> bool:
        assert self._keep_us is not None
        return time_us + self._keep_us <= self._watermark_us

    def number(self) -> int:
        """The number of a new row."""
        if self._free:
            return self._free.pop()
        self._last += 1
        return self._last

    def let_go(self, numbers: Iterable[int]) -> None:
        """Have others get these numbers."""
        self._free += numbers


class Step(NamedTuple):
    """What a batch has come to."""

    numbers: list[int]
    """Of each row of the batch; 0 where it is not kept."""
    late: list[int]
    """The places in the batch of rows that are older than those that are kept."""
    changes: list[tuple[int, int, int]]
    """Of each its kind, its row and its key."""
    gone: list[int]


class NoOrder(Exception):
    """The row at this place has no value that says which is the last."""


class State:
    """The rows of a task, in one form."""

    late: list[Any]
    _rows: Rows

    @property
    def passed(self) -> int:
        """How many rows were late in event time: those that would have expired."""
        return self._rows.passed

    @abstractmethod
    def process(self, batch: Any) -> Any:
        """The changes that a batch makes."""

    @abstractmethod
    def advance(self, watermark_us: int) -> Any:
        """The changes of the rows that expire now."""

    @abstractmethod
    def snapshot(self) -> KeyedState:
        """The row of each key."""

    @abstractmethod
    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on with these rows."""


def no_order(by: Any, record: Any) -> ValueError:
    """The error for a record without a value that says which is the last."""
    return ValueError(
        f"latest() found nothing at by={by!r:.80} that has an order, in {record!r:.80}, expected a "
        "value such as a number or a time\n\nhint: filter such records out before .key_by(...)"
    )
