"""The state of session windows: of each key those that are open, and a heap of when they end.

A session that grows does not touch the heap: what is found there too early is put back.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from engine.graph.context import TaskContext
from engine.record import dict_key
from engine.state import KeyedState
from operators.durations import microseconds
from operators.keys import NONE, found_again
from operators.windows.assigners import Session
from operators.windows.fold import Fold
from operators.windows.rows import rows, tell_failing
from operators.windows.state import NEVER, Result
from operators.windows.windowing import Windowing


class Sessions:
    """Session windows of one task; see `WindowState`, and `Slices` for `tells_changes`.

    The sessions of a key do not overlap and are in order. A record is late if it would make a
    session of its own that was gone already.
    """

    def __init__(self, windowing: Windowing, fold: Fold, context: TaskContext) -> None:
        assert isinstance(windowing.assigner, Session)
        assert windowing.time is not None
        self.late: list[Any] = []
        self._rows = rows(windowing.key, windowing.paired, windowing.time, context.rescue)
        self._fold = fold
        self._time = windowing.time
        self._gap = microseconds(windowing.assigner.gap)
        self._lateness = microseconds(windowing.allowed_lateness)
        self._tells_changes = windowing.emit != "final"
        self._paired = windowing.paired
        self._failing = context.failing
        self._rescue = context.rescue
        self._watermark = NEVER
        self._of_key: dict[Any, list[_Session]] = {}
        self._heap: list[tuple[int, int, int, _Session]] = []
        """When a session may end or be gone, in what order, and which entry of it counts."""
        self._changed: dict[_Session, None] = {}
        self._numbers = count()

    def add(self, batch: list[Any]) -> list[Result]:
        """Take records in; the results of complete sessions that they still change."""
        out: list[Result] = []
        of_key, gap, rescue = self._of_key, self._gap, self._rescue
        combine, in_microseconds = self._fold.add, self._time.in_microseconds
        scale = in_microseconds(1)
        whole = int if scale and not self._time.before_us else None  # of such no call is needed
        changed = self._changed if self._tells_changes else None
        at = iter(batch)
        try:
            for time, key, record in self._rows(at, batch):
                try:
                    us = time * scale if type(time) is whole else in_microseconds(time)
                    try:
                        sessions = of_key[key]
                    except (KeyError, TypeError):
                        key, sessions = found_again(key, of_key)
                        if sessions is NONE:
                            sessions = []
                    if sessions and sessions[-1].start <= us < sessions[-1].end:
                        found = sessions[-1]
                        found.value = combine(found.value, record)
                        if us + gap > found.end:
                            found.end = us + gap
                    else:
                        joined = self._join(sessions, us, time, key, record)
                        if joined is None:
                            self.late.append(record)
                            continue
                        found = joined
                    if changed is not None:
                        changed[found] = None
                    if found.is_complete:
                        if found.end - 1 > self._watermark:
                            self._wait(found, is_complete=False)
                        elif changed is None:
                            out.append(self._result(found))
                except BaseException as error:
                    if rescue is None:
                        raise
                    rescue(record, error)
        except BaseException:
            tell_failing(self._failing, batch, at, self._paired)
            raise
        return out

    def close(self, watermark: float) -> Iterator[Result]:
        """The sessions that are complete now and were not before."""
        self._watermark = max(self._watermark, watermark)
        heap = self._heap
        while heap and heap[0][0] - 1 <= self._watermark:
            due, _, entry, found = heappop(heap)
            if entry != found.entry:
                continue  # it was merged into another, or waits elsewhere
            if due < self._due(found):
                self._wait(found, found.is_complete)
            else:
                if found in self._changed or not (self._tells_changes or found.is_complete):
                    self._changed.pop(found, None)
                    yield self._result(found)
                if found.is_complete:
                    self._remove(found)
                else:
                    self._wait(found, is_complete=True)

    def changed(self) -> Iterator[Result]:
        """The sessions that changed, as far as they are now."""
        changed, self._changed = self._changed, {}
        for found in sorted(changed, key=lambda each: (each.end, each.number)):
            yield self._result(found)

    @property
    def has_changed(self) -> bool:
        """Whether a session did."""
        return bool(self._changed)

    def snapshot(self, pickle: bool) -> KeyedState:
        """Of each key: the watermark, and its sessions."""
        watermark = None if self._watermark == NEVER else self._watermark
        kept = (
            (key, (watermark, [(each.start, each.end, each.form, each.value) for each in sessions]))
            for key, sessions in self._of_key.items()
        )
        return KeyedState.of(kept, pickle=pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on; all tasks had come to one watermark."""
        for key, (watermark, sessions) in pairs:
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            key = dict_key(key)
            for start, end, form, value in sessions:
                each = _Session(key, start, end, form, value, next(self._numbers))
                self._of_key.setdefault(key, []).append(each)
                self._wait(each, is_complete=watermark is not None and end - 1 <= watermark)
                if self._tells_changes:
                    self._changed[each] = None

    def _join(
        self, sessions: "list[_Session]", us: int, time: Any, key: Any, record: Any
    ) -> "_Session | None":
        """The session that the record made, began or merged; None if that is gone."""
        end = us + self._gap
        found = [each for each in sessions if us < each.end and each.start < end]
        if not found:
            if end - 1 + self._lateness <= self._watermark:
                return None
            value = record if self._fold.create is None else self._fold.create(record)
            new = _Session(key, us, end, self._time.like(time)(0), value, next(self._numbers))
            self._of_key[key] = sorted([*sessions, new], key=lambda each: each.start)
            self._wait(new, is_complete=end - 1 <= self._watermark)
            return new
        first, *others = found
        value = self._fold.add(first.value, record)
        for other in others:  # at most one: each is as long as the gap
            value = self._fold.merge([value, other.value])
            first.end = other.end
            first.number = min(first.number, other.number)
            other.entry = _NOWHERE
            sessions.remove(other)
            self._changed.pop(other, None)
        first.value = value
        first.start, first.end = min(first.start, us), max(first.end, end)
        if others:
            self._wait(first, first.is_complete)
        return first

    def _due(self, found: "_Session") -> int:
        """When there is something to do with it: it is complete, or gone."""
        return found.end + self._lateness if found.is_complete else found.end

    def _wait(self, found: "_Session", is_complete: bool) -> None:
        """Have the heap tell when it is complete or gone; what it knew of it before is void."""
        found.is_complete = is_complete
        found.entry = next(self._numbers)
        heappush(self._heap, (self._due(found), found.number, found.entry, found))

    def _remove(self, found: "_Session") -> None:
        sessions = self._of_key[found.key]
        sessions.remove(found)
        if not sessions:
            del self._of_key[found.key]

    def _result(self, found: "_Session") -> Result:
        like = self._time.like(found.form)
        start, end = like(found.start), like(found.end)
        value = found.value
        if self._fold.value is not None:
            value = self._fold.value(found.key, value, start, end)
        return found.key, value, start, end


class _Session:
    """The records of one key that no pause parts, and what they have come to."""

    __slots__ = ("end", "entry", "form", "is_complete", "key", "number", "start", "value")

    def __init__(self, key: Any, start: int, end: int, form: Any, value: Any, number: int) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.form = form
        """1970, in the form of the first time that came."""
        self.value = value
        self.number = number
        """The place of its first record among those of all sessions."""
        self.entry = _NOWHERE
        """Which entry of the heap is its."""
        self.is_complete = False


_NOWHERE = -1
"""The entry of a session that is part of another one."""
