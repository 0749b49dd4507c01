"""The last row of each key by numbers, in whatever form rows are."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from engine.state import KeyedState
from operators.changes.change import AFTER, BEFORE, DELETE, INSERT


class Row(NamedTuple):
    """What is kept of a key: where its order is, and the number of its row, 0 for a tombstone."""

    by: Any
    number: int


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
        step, of_keys = Step([], [], [], [], [], []), self.of_keys
        by = None
        for place, key in enumerate(keys):
            before = of_keys.get(key)
            if bys is not None:
                by = bys[place]
                if by is None or by != by:
                    raise NoOrder(place)
                if before is not None and by < before.by:
                    step.late.append(place)
                    step.numbers.append(0)
                    continue
            is_gone = are_gone is not None and are_gone[place]
            number = 0 if is_gone else self.number()
            step.numbers.append(number)
            if before is not None and before.number:
                step.add(DELETE if is_gone else BEFORE, before.number, key)
                step.gone.append(before.number)
                if number:
                    step.add(AFTER, number, key)
            elif number:
                step.add(INSERT, number, key)
            if number or bys is not None:
                of_keys[key] = Row(by, number)
            elif before is not None:
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
    kinds: list[int]
    rows: list[int]
    """Of each change its kind, its row and its key."""
    keys: list[int]
    gone: list[int]

    def add(self, kind: int, row: int, key: int) -> None:
        """One more change."""
        self.kinds.append(kind)
        self.rows.append(row)
        self.keys.append(key)


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
