"""The last row of each key by numbers, in whatever form rows are."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from engine.state import KeyedState
from operators.changes.change import AFTER, BEFORE, DELETE, INSERT

Row: TypeAlias = tuple[Any, int]
"""What the order of a key's rows goes by, and the number of its row, 0 of a tombstone."""


class Rows:
    """The last row of each key, by numbers: which changes follow from which rows."""

    def __init__(self) -> None:
        self.of_keys: dict[int, Row] = {}
        self._free: list[int] = []
        self._last = 0

    def __len__(self) -> int:
        return self._last - len(self._free)

    def take(
        self, keys: Sequence[int], bys: Sequence[Any] | None, are_gone: Sequence[bool] | None
    ) -> "Step":
        """The changes that rows of these keys make, in their order."""
        step, of_keys = Step([], [], [], []), self.of_keys
        numbers, add, by, nothing = step.numbers, step.changes.append, None, (None, 0)
        for place, key in enumerate(keys):
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
            elif before:
                del of_keys[key]
        return step

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

    @abstractmethod
    def process(self, batch: Any) -> Any:
        """The changes that a batch makes."""

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
