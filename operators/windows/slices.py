"""The state of tumbling and sliding windows: slices of time, each with a dict of its keys.

A slice is what windows share: the time between two moments at which some window begins or ends. A
record is added to one slice, so it costs one look-up, whatever number of windows it is in. A window
is merged of its slices when it is complete. One that is gone takes its slices along: there is
nothing to look for, and no timer for a key.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from engine.graph.failing import Failing
from engine.graph.operator import Rescue
from operators.event_time import TimeSelector
from operators.windows.assigners import Sliding, Tumbling, microseconds
from operators.windows.fold import Fold
from operators.windows.rows import NONE, Rows, found_again
from operators.windows.state import NEVER, Result


class Slices:
    """Tumbling or sliding windows of one task; see `WindowState`.

    With `tells_changes`, windows that changed come by `changed`, and when they are complete only if
    they changed since; else they come when they are complete, and with each late record again.
    """

    def __init__(
        self,
        assigner: Tumbling | Sliding,
        time: TimeSelector,
        rows: Rows,
        fold: Fold,
        *,
        lateness: int,
        tells_changes: bool,
        failing: Failing,
        rescue: Rescue | None,
    ) -> None:
        self.late: list[Any] = []
        self._rows = rows
        self._fold = fold
        self._time = time
        self._lateness = lateness
        self._tells_changes = tells_changes
        self._failing = failing
        self._rescue = rescue
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

    def add(self, batch: list[Any]) -> list[Result]:
        """Take records in; the results of complete windows that they still change.

        This loop is the hot path of a program with windows: while times stay in one slice, it makes
        no call but that of the fold.
        """
        out: list[Result] = []
        create, combine, rescue = self._fold.create, self._fold.add, self._rescue
        first, last = 1, 0  # times in between are in the slice of `values`
        values: dict[Any, Any] = {}
        changed: dict[Any, None] | None = None
        again: _Slice | None = None
        at = iter(batch)
        try:
            for time, key, record in self._rows(at, batch):
                try:
                    inside = first <= time <= last
                except TypeError:  # it is None, or the first datetime
                    inside = False
                try:
                    if not inside:
                        found = self._slice_of(time)
                        if found is None:
                            self.late.append(record)
                            continue
                        values, changed, again = found.values, found.changed, None
                        first, last = found.first, found.last
                        if changed is None and found.first_end - 1 <= self._watermark:
                            first, last, again = 1, 0, found
                    try:
                        value = values[key]
                    except (KeyError, TypeError):
                        key, value = found_again(key, values)
                        if value is NONE:
                            values[key] = record if create is None else create(record)
                        else:
                            values[key] = combine(value, record)
                    else:
                        values[key] = combine(value, record)
                    if changed is not None:
                        changed[key] = None
                    elif again is not None:
                        out += self._again(again, key)
                except BaseException as error:
                    if rescue is None:
                        raise
                    rescue(record, error)
        except BaseException:
            self._failing.at(batch, at)
            raise
        return out

    def close(self, watermark: float) -> Iterator[Result]:
        """The windows that are complete now and were not before."""
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
            yield from self._results(end, parts)
            for each in parts:
                if each.changed and self._last_end(each.start) == end:
                    self._changed.pop(each.start).changed = {}
            end += self._slide
        self._drop()

    def changed(self) -> Iterator[Result]:
        """The windows of all slices that changed."""
        slices, self._changed = self._changed, {}
        ends = {end for each in slices.values() for end in self._ends(each)}
        for end in sorted(ends):
            yield from self._results(end, self._parts(end))
        for each in slices.values():
            each.changed = {}

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
                if each.changed is not None:
                    each.changed[key] = None

    def _slice_of(self, time: Any) -> "_Slice | None":
        """The slice of a time that a record has; None if its windows are gone."""
        us = self._time.in_microseconds(time)
        into = (us - self._offset) % self._slide
        start = us - into if into < self._rest or not self._rest else us - into + self._rest
        found = self._slices.get(start)
        if found is None:
            if self._last_end(start) - 1 + self._lateness <= self._watermark:
                return None
            found = self._begin(start, self._time.like(time)(0))
        if found.changed is not None:
            self._changed[start] = found
        return found

    def _begin(self, start: int, form: Any) -> "_Slice":
        into = (start - self._offset) % self._slide
        length = self._slide - into
        if into < self._rest:
            length = self._rest - into
        each = _Slice(start, form, self._first_end(start), self._tells_changes)
        each.find_bounds(self._time, start + length)
        self._slices[start] = each
        insort(self._starts, start)
        if each.changed is not None:
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

    def _results(self, end: int, parts: "list[_Slice]") -> Iterator[Result]:
        """What a window came to, of all its keys or of those that changed."""
        like = self._time.like(parts[0].form)
        start, end = like(end - self._size), like(end)
        value = self._fold.value
        for key, accumulated in self._merged(parts):
            if value is None:
                yield key, accumulated, start, end
            else:
                yield key, value(key, accumulated, start, end), start, end

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
        keys = dict.fromkeys(key for each in parts for key in each.changed or ())
        return ((key, self._of_key(key, parts)) for key in keys)

    def _of_key(self, key: Any, parts: "list[_Slice]") -> Any:
        return self._of([each.values[key] for each in parts if key in each.values])

    def _of(self, found: list[Any]) -> Any:
        return found[0] if len(found) == 1 else self._fold.merge(found)

    def _again(self, each: "_Slice", key: Any) -> Iterator[Result]:
        """What a key has come to in complete windows that are not gone."""
        value = self._fold.value
        for end in self._ends(each):
            if end - 1 > self._watermark:
                break
            parts = self._parts(end)
            like = self._time.like(parts[0].form)
            start, until = like(end - self._size), like(end)
            accumulated = self._of_key(key, parts)
            if value is not None:
                accumulated = value(key, accumulated, start, until)
            yield key, accumulated, start, until

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

    __slots__ = ("changed", "first", "first_end", "form", "last", "start", "values")

    first: Any
    last: Any

    def __init__(self, start: int, form: Any, first_end: int, tells_changes: bool) -> None:
        self.start = start
        self.form = form
        """1970, in the form of the first time that came."""
        self.first_end = first_end
        """The end of the first window that it is in."""
        self.values: dict[Any, Any] = {}
        self.changed: dict[Any, None] | None = {} if tells_changes else None
        """The keys that changed since they came."""

    def find_bounds(self, time: TimeSelector, end: int) -> None:
        """Find a first and a last time of this form, between which all are in the slice.

        Times rise with their microseconds, so it is enough that these two are in it.
        """
        self.first, self.last = 1, 0
        with suppress(OverflowError):  # no datetime is that far away
            first, last = map(time.like(self.form), (self.start, end - 1))
            if isinstance(first, datetime) and first.tzinfo is not None:
                # Of one zone, Python compares what clocks show, which go back once a year.
                first, last = first.astimezone(timezone.utc), last.astimezone(timezone.utc)
            if (*map(time.in_microseconds, (first, last)),) == (self.start, end - 1):
                self.first, self.last = first, last
