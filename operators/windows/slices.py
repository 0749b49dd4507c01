"""The state of tumbling and sliding windows: slices of time, each with a dict of its keys.

A slice is what windows share: the time between two moments at which some window begins or ends. A
record is added to one slice, so it costs one look-up, whatever number of windows it is in. A window
is merged of its slices when it is complete. One that is gone takes its slices along: there is
nothing to look for, and no timer for a key.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from itertools import chain, repeat
from typing import Any

from engine.graph.operator import TaskContext
from operators.event_time import TimeSelector
from operators.windows.assigners import Sliding, Tumbling, microseconds
from operators.windows.fold import Fold
from operators.windows.rows import found_again
from operators.windows.slice_loops import NEVER_IN, Loop, loop_of
from operators.windows.state import NEVER, Result
from operators.windows.windowing import Windowing


class Slices:
    """Tumbling or sliding windows of one task; see `WindowState`.

    With `tells_changes`, windows that changed come by `changed`, and when they are complete only if
    they changed since; else they come when they are complete, and with each late record again.
    """

    def __init__(self, windowing: Windowing, fold: Fold, context: TaskContext) -> None:
        assigner, time = windowing.assigner, windowing.time
        assert isinstance(assigner, Tumbling | Sliding)
        assert time is not None
        self.late: list[Any] = []
        self._fold = fold
        self._time = time
        self._lateness = microseconds(windowing.allowed_lateness)
        self._tells_changes = windowing.emit != "final"
        self._size = microseconds(assigner.size)
        self._slide = microseconds(assigner.slide)
        self._offset = microseconds(assigner.offset) % self._slide
        self._rest = self._size % self._slide
        """How far behind the start of a window another one ends."""
        self._watermark = NEVER
        self._slices: dict[int, _Slice] = {}
        self._starts: list[int] = []
        """Those of all slices, in order."""
        self._changed: dict[int, _Slice] = {}
        """Those with keys that changed."""
        self._again: list[Result] = []
        """Of complete windows, what records have changed that came late."""
        self._loop = loop_of(self, windowing, fold, context)

    @property
    def add(self) -> Loop:
        """Takes records in; gives the results of complete windows that they still change."""
        return self._loop

    def close(self, watermark: float) -> Iterator[Result]:
        """The windows that are complete now and were not before."""
        return chain.from_iterable(self._close(watermark))

    def place_of(self, time: Any) -> Any:
        """Where records belong of a time that a record has; None if its windows are gone.

        That is the first and the last time for which this holds, the values of the keys, and how
        one is looked up.
        """
        us = self._time.in_microseconds(time)
        into = (us - self._offset) % self._slide
        start = us - into if into < self._rest or not self._rest else us - into + self._rest
        found = self._slices.get(start)
        if found is None:
            if self._last_end(start) - 1 + self._lateness <= self._watermark:
                return None
            found = self._begin(start, self._time.like(time)(0))
        if self._tells_changes:
            self._changed[start] = found
        elif found.first_end - 1 <= self._watermark:
            again = _Again(found, lambda key: self._gather(found, key))
            return NEVER_IN, NEVER_IN, again, found.values.get
        return found.place

    def take_again(self) -> list[Result]:
        """The results of complete windows that records have changed since this was called."""
        again, self._again = self._again, []
        return again

    def _close(self, watermark: float) -> Iterator[Iterable[Result]]:
        if watermark <= self._watermark:
            return
        before, self._watermark = self._watermark, watermark
        starts = self._starts
        end = self._first_end(int(before) + 1) if before != NEVER else None
        while starts:
            at = 0 if end is None else bisect_left(starts, end - self._size)
            if at == len(starts):
                break
            soonest = self._first_end(starts[at])  # there may be a gap in front of it
            end = soonest if end is None else max(end, soonest)
            if end - 1 > watermark:
                break
            parts = self._parts(end)
            yield self._results(end, parts)
            for each in parts:
                if each.changed and self._last_end(each.start) == end:
                    del self._changed[each.start]
                    each.changed.clear()
            end += self._slide
        self._drop()

    def changed(self) -> Iterator[Result]:
        """The windows of all slices that changed."""
        slices, self._changed = self._changed, {}
        ends = {end for each in slices.values() for end in self._ends(each)}
        for end in sorted(ends):
            yield from self._results(end, self._parts(end))
        for each in slices.values():
            each.changed.clear()

    @property
    def has_changed(self) -> bool:
        """Whether a window did that may still come."""
        return bool(self._changed)

    def snapshot(self) -> Iterable[tuple[Any, Any]]:
        """Of each key: the watermark, and what it came to in each slice."""
        kept: dict[Any, list[Any]] = {}
        for start in self._starts:
            each = self._slices[start]
            for key, value in each.values.items():
                kept.setdefault(key, []).append((start, each.form, value))
        watermark = None if self._watermark == NEVER else self._watermark
        return ((key, (watermark, slices)) for key, slices in kept.items())

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on; all tasks had come to one watermark."""
        for key, (watermark, slices) in pairs:
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            for start, form, value in slices:
                each = self._slices.get(start) or self._begin(start, form)
                key, _ = found_again(key, each.values)
                each.values[key] = value

    def _begin(self, start: int, form: Any) -> "_Slice":
        into = (start - self._offset) % self._slide
        length = self._slide - into
        if into < self._rest:
            length = self._rest - into
        bounds = _bounds(self._time, form, start, start + length)
        each = _Slice(start, form, self._first_end(start), bounds, self._tells_changes)
        self._slices[start] = each
        insort(self._starts, start)
        if self._tells_changes:
            self._changed[start] = each
        return each

    def _first_end(self, start: int) -> int:
        """The end of the first window that has this time."""
        return start + self._slide - (start - self._offset - self._rest) % self._slide

    def _last_end(self, start: int) -> int:
        """The end of the last window that has this time."""
        return start - (start - self._offset) % self._slide + self._size

    def _ends(self, each: "_Slice") -> Iterable[int]:
        """Those of the windows of a slice that are not gone."""
        ends = range(each.first_end, self._last_end(each.start) + 1, self._slide)
        return (end for end in ends if end - 1 + self._lateness > self._watermark)

    def _parts(self, end: int) -> "list[_Slice]":
        """The slices of the window with this end."""
        first, behind = (bisect_left(self._starts, each) for each in (end - self._size, end))
        return [self._slices[start] for start in self._starts[first:behind]]

    def _results(self, end: int, parts: "list[_Slice]") -> Iterable[Result]:
        """What a window came to, of all its keys or of those that changed."""
        like = self._time.like(parts[0].form)
        start, until = like(end - self._size), like(end)
        value = self._fold.value
        merged = self._merged(parts)
        if value is None:
            if len(parts) == 1 and not self._tells_changes:
                values = parts[0].values
                return zip(values, values.values(), repeat(start), repeat(until), strict=False)
            return ((key, found, start, until) for key, found in merged)
        return ((key, value(key, found, start, until), start, until) for key, found in merged)

    def _merged(self, parts: "list[_Slice]") -> Iterable[tuple[Any, Any]]:
        """Keys and what they came to over several slices."""
        if not self._tells_changes:
            if len(parts) == 1:
                return parts[0].values.items()
            gathered: dict[Any, list[Any]] = {}
            for each in parts:
                for key, accumulated in each.values.items():
                    gathered.setdefault(key, []).append(accumulated)
            return ((key, self._of(found)) for key, found in gathered.items())
        keys = dict.fromkeys(key for each in parts for key in each.changed)
        return ((key, self._of_key(key, parts)) for key in keys)

    def _of_key(self, key: Any, parts: "list[_Slice]") -> Any:
        return self._of([each.values[key] for each in parts if key in each.values])

    def _of(self, found: list[Any]) -> Any:
        return found[0] if len(found) == 1 else self._fold.merge(found)

    def _gather(self, each: "_Slice", key: Any) -> None:
        """Gather what a key has come to in complete windows that are not gone."""
        for end in self._ends(each):
            if end - 1 > self._watermark:
                break
            parts = self._parts(end)
            like = self._time.like(parts[0].form)
            start, until = like(end - self._size), like(end)
            found = self._of_key(key, parts)
            if self._fold.value is not None:
                found = self._fold.value(key, found, start, until)
            self._again.append((key, found, start, until))

    def _drop(self) -> None:
        """Let go of the slices that are in no window any more."""
        gone = 0
        for start in self._starts:
            if self._last_end(start) - 1 + self._lateness > self._watermark:
                break
            del self._slices[start]
            self._changed.pop(start, None)
            gone += 1
        del self._starts[:gone]


class _Slice:
    """Some time, and what each key has come to in it."""

    __slots__ = ("changed", "first_end", "form", "place", "start", "values")

    def __init__(
        self, start: int, form: Any, first_end: int, bounds: tuple[Any, Any], tells_changes: bool
    ) -> None:
        self.start = start
        self.form = form
        """1970, in the form of the first time that came."""
        self.first_end = first_end
        """The end of the first window that it is in."""
        self.changed: dict[Any, None] = {}
        """The keys that changed since they came, where that is told."""
        self.values: dict[Any, Any] = _Noting(self.changed) if tells_changes else {}
        self.place = (*bounds, self.values, self.values.get)
        """See `Slices.place_of`."""


class _Noting(dict[Any, Any]):
    """Values of keys, which notes the keys that are set."""

    def __init__(self, changed: dict[Any, None]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._changed[key] = None


class _Again:
    """The values of a slice whose windows are complete: it tells of each that is set."""

    def __init__(self, each: _Slice, tell: Callable[[Any], None]) -> None:
        self._values = each.values
        self._tell = tell
        self.get = each.values.get

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key] = value
        self._tell(key)


def _bounds(time: TimeSelector, form: Any, start: int, end: int) -> tuple[Any, Any]:
    """A first and a last time of this form, between which all are in the slice.

    Times rise with their microseconds, so it is enough that these two are in it.
    """
    with suppress(OverflowError):  # no datetime is that far away
        first, last = map(time.like(form), (start, end - 1))
        if isinstance(first, datetime) and first.tzinfo is not None:
            # Of one zone, Python compares what clocks show, which go back once a year.
            first, last = first.astimezone(timezone.utc), last.astimezone(timezone.utc)
        if (*map(time.in_microseconds, (first, last)),) == (start, end - 1):
            return first, last
    return NEVER_IN, NEVER_IN
