"""Window joins: each record of the left with each of the right of its key and window."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, TypeAlias

from engine.graph.context import TaskContext
from engine.state import KeyedState
from operators.durations import microseconds
from operators.event_time import TimeSelector
from operators.joins.function import ColumnState, Join, JoinState, Pair
from operators.windows.assigners import Session, Sliding, Tumbling, first_start, in_words
from operators.windows.fold import Fold
from operators.windows.values import WindowValues
from operators.windows.windowing import Windowing

Windows: TypeAlias = Tumbling | Sliding | Session
"""Windows that records of two streams may be in together: those by time."""


@dataclass(frozen=True)
class WindowJoin(Join):
    """Joins the records of both inputs by keys and windows, when a window is complete."""

    assigner: Windows

    name = "window_join"

    @property
    def meaning(self) -> dict[str, Any]:
        """Where windows begin and end."""
        return {"windows": in_words(self.assigner)}

    def watermark_of_results(self, watermark_us: int) -> int:
        """Up to the first window that is not complete; how long a session will be, nobody knows."""
        if isinstance(self.assigner, Session):
            return watermark_us
        return first_start(self.assigner, watermark_us + 1) - 1

    def of_records(self, context: TaskContext) -> JoinState:
        """Windows of lists."""
        return Joined(self, context)

    def of_columns(self, _context: TaskContext) -> ColumnState:
        """Chunks of rows."""
        if isinstance(self.assigner, Session):
            from operators.joins.session_columns import SessionColumns

            return SessionColumns(self, self.assigner)
        from operators.joins.window_columns import WindowColumns

        return WindowColumns(self, self.assigner)


class Joined:
    """The windows of one task; see `JoinState`.

    They are ordinary windows over the records of both sides: the value of a key is a list of the
    left records and a list of the right ones.
    """

    def __init__(self, operator: WindowJoin, context: TaskContext) -> None:
        assigner, joining = operator.assigner, operator.joining
        self.late: list[Any] = []
        self._inputs = joining.inputs
        self._outer = joining.outer
        self._failing = context.failing
        windowing = Windowing(None, True, assigner, TimeSelector(_TIME, paired=True))
        self._windows = WindowValues(windowing, _FOLD, context)
        self._kept = _Sliding(assigner) if isinstance(assigner, Sliding) else _Counted()

    @property
    def kept(self) -> int:
        """Records in windows that are not complete."""
        return self._kept.records

    def add(self, side: int, batch: list[Any]) -> list[Pair]:
        """Take records in; a window gives nothing until it is complete."""
        rows = self._inputs[side].rows(batch, self._failing)
        tagged = [(key, (time, side, record)) for time, key, record in rows]
        again = self._windows.add(tagged)
        assert not again
        late, self._windows.late = self._windows.late, []
        self._kept.add(tagged, len(late))
        self.late += [record for _, _, record in late]
        return []

    def close(self, watermark: float) -> Iterator[Pair]:
        """The partners in the windows that are complete now and were not before."""
        left_outer, right_outer = self._outer
        results = chain.from_iterable(self._windows.close(watermark))
        for _, (lefts, rights), _, _ in results:
            self._kept.give(len(lefts) + len(rights))
            if lefts and rights:
                yield from product(lefts, rights)
            elif lefts and left_outer:
                yield from ((left, None) for left in lefts)
            elif rights and right_outer:
                yield from ((None, right) for right in rights)
        self._kept.close(watermark)

    def snapshot(self, pickle: bool) -> KeyedState:
        """What is kept of each key."""
        return self._windows.snapshot(pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on with what was kept of some keys."""
        pairs = list(pairs)
        self._windows.restore(pairs)
        for _, (_, parts) in pairs:
            for begin, *_, (lefts, rights) in parts:
                self._kept.restore(begin, len(lefts) + len(rights))


def _created(row: Any) -> tuple[list[Any], list[Any]]:
    _, side, record = row
    return ([], [record]) if side else ([record], [])


def _added(lists: tuple[list[Any], list[Any]], row: Any) -> tuple[list[Any], list[Any]]:
    _, side, record = row
    lists[side].append(record)
    return lists


def _merged(parts: list[tuple[list[Any], list[Any]]]) -> tuple[list[Any], list[Any]]:
    left, right = ([record for part in parts for record in part[side]] for side in (0, 1))
    return left, right


_FOLD = Fold(_created, _added, _merged, None)
_TIME = 0
"""Where the time of a row is."""


class _Counted:
    """How many records are kept, of windows that a record is in one of."""

    records = 0

    def add(self, rows: list[Any], late: int) -> None:
        self.records += len(rows) - late

    def give(self, records: int) -> None:
        self.records -= records

    def close(self, watermark: float) -> None:
        """Nothing is kept of windows that were given."""

    def restore(self, _time: int, records: int) -> None:
        self.records += records


class _Sliding(_Counted):
    """Where a record is in several: it is kept until the last of them is complete."""

    def __init__(self, assigner: Sliding) -> None:
        self._slide = microseconds(assigner.slide)
        self._behind = microseconds(assigner.size) - 1
        self._offset = microseconds(assigner.offset)
        self._of_last: dict[int, int] = {}
        """By the last microsecond of the last window that they are in."""
        self._watermark = float("-inf")

    def add(self, rows: list[Any], late: int) -> None:
        for _, (time, _, _) in rows:
            self.restore(time, 1)

    def give(self, records: int) -> None:
        """They are in other windows, too."""

    def close(self, watermark: float) -> None:
        self._watermark = max(self._watermark, watermark)
        for last in [each for each in self._of_last if each <= watermark]:
            self.records -= self._of_last.pop(last)

    def restore(self, time: int, records: int) -> None:
        last = time - (time - self._offset) % self._slide + self._behind
        if last > self._watermark:
            self._of_last[last] = self._of_last.get(last, 0) + records
            self.records += records
