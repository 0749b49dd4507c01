"""The state of tumbling and sliding windows: slices of time, each with a dict of its keys.

A slice is what windows share: the time between two moments at which some window begins or ends. A
record is added to one slice, so it costs one look-up, whatever number of windows it is in. A window
is merged of its slices when it is complete. One that is gone takes its slices along: there is
nothing to look for, and no timer for a key.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from engine.graph.context import TaskContext
from engine.state import Items, KeyedState
from operators.durations import microseconds
from operators.keys import found_again
from operators.windows.assigners import Sliding, Tumbling
from operators.windows.fold import Fold
from operators.windows.slice import NEVER_IN, NOWHERE, Again, Slice, bounds_of
from operators.windows.slice_loops import Loop, loop_of
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
        self.place: Any = NOWHERE
        """Where the last record belonged, to begin with; see `place_of`."""
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
        self._slices: dict[int, Slice] = {}
        self._starts: list[int] = []
        """Those of all slices, in order."""
        self._touched: dict[int, Slice] = {}
        """Where changes are told, the slices that changed since it was noted for their windows."""
        self._changed: dict[int, dict[Any, None]] = {}
        """Of windows, by their ends, the keys that changed since they came."""
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

        That is the first and the last time for which this holds, and the values of the keys.
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
            self._touched[start] = found
        elif found.first_end - 1 <= self._watermark:
            again = Again(found, lambda key: self._gather(found, key))
            return NEVER_IN, NEVER_IN, again
        if not found.has(time):
            return NEVER_IN, NEVER_IN, found.values
        if not self._tells_changes:
            self.place = found.place
        return found.place

    def take_again(self) -> list[Result]:
        """The results of complete windows that records have changed since this was called."""
        again, self._again = self._again, []
        return again

    def _close(self, watermark: float) -> Iterator[Iterable[Result]]:
        before, self._watermark = self._watermark, max(self._watermark, watermark)
        if not self._passes_an_end(before):
            return
        self.place = NOWHERE
        if self._tells_changes:
            yield from self._changed_and_due(before)
        else:
            yield from self._complete(before)
        self._drop()

    def _passes_an_end(self, before: float) -> bool:
        """Whether any window could have become complete, or gone, since that watermark."""
        if before == NEVER:
            return True
        complete, gone = (
            self._first_end(int(before) + 1 - late) + late for late in (0, self._lateness)
        )
        return min(complete, gone) - 1 <= self._watermark

    def _complete(self, before: float) -> Iterator[Iterable[Result]]:
        """The windows that are complete now and were not at that watermark."""
        starts = self._starts
        end = self._first_end(int(before) + 1) if before != NEVER else None
        while starts:
            at = 0 if end is None else bisect_left(starts, end - self._size)
            if at == len(starts):
                break
            soonest = self._first_end(starts[at])  # there may be a gap in front of it
            end = soonest if end is None else max(end, soonest)
            if end - 1 > self._watermark:
                break
            parts = self._parts(end)
            yield self._results(end, parts, self._merged(parts))
            end += self._slide

    def _changed_and_due(self, before: float) -> Iterator[Iterable[Result]]:
        """Of the windows that are complete or gone now and were not, those that changed."""
        self._note_changed(before)
        for end in sorted(self._changed):
            is_gone = end - 1 + self._lateness <= self._watermark
            if end - 1 <= self._watermark and (end - 1 > before or is_gone):
                yield self._of_changed(end)

    def changed(self) -> Iterator[Result]:
        """The windows that changed."""
        self._note_changed(self._watermark)
        return chain.from_iterable(self._of_changed(each) for each in sorted(self._changed))

    def _note_changed(self, watermark: float) -> None:
        """Note for windows, but those that are gone by then, what was noted for slices."""
        slices, self._touched = self._touched, {}
        for start in sorted(slices):
            each = slices[start]
            for end in range(each.first_end, self._last_end(start) + 1, self._slide):
                if end - 1 + self._lateness > watermark:
                    self._changed.setdefault(end, {}).update(each.changed)
            each.changed.clear()

    def _of_changed(self, end: int) -> Iterable[Result]:
        """What the keys came to that changed in a window."""
        keys, parts = self._changed.pop(end), self._parts(end)
        return self._results(end, parts, ((key, self._of_key(key, parts)) for key in keys))

    @property
    def has_changed(self) -> bool:
        """Whether a window did that may still come."""
        return bool(self._changed or self._touched)

    def snapshot(self, pickle: bool) -> KeyedState:
        """Of each key: the watermark, and what it came to in each slice."""
        watermark = None if self._watermark == NEVER else self._watermark
        slices = [self._slices[start] for start in self._starts]
        bounds = [(each.start, each.form) for each in slices]
        pairs = partial(_pairs, watermark, bounds)
        return KeyedState.of_dicts(pairs, [each.values for each in slices], pickle=pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on; all tasks had come to one watermark."""
        for key, (watermark, slices) in pairs:
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            for start, form, value in slices:
                each = self._slices.get(start) or self._begin(start, form)
                key, _ = found_again(key, each.values)
                each.values[key] = value

    def _begin(self, start: int, form: Any) -> Slice:
        into = (start - self._offset) % self._slide
        length = self._slide - into
        if into < self._rest:
            length = self._rest - into
        bounds = bounds_of(self._time, form, start, start + length)
        each = Slice(start, form, self._first_end(start), bounds, self._tells_changes)
        self._slices[start] = each
        insort(self._starts, start)
        if self._tells_changes:
            self._touched[start] = each
        return each

    def _first_end(self, start: int) -> int:
        """The end of the first window that has this time."""
        return start + self._slide - (start - self._offset - self._rest) % self._slide

    def _last_end(self, start: int) -> int:
        """The end of the last window that has this time."""
        return start - (start - self._offset) % self._slide + self._size

    def _ends(self, each: Slice) -> Iterable[int]:
        """Those of the windows of a slice that are not gone."""
        ends = range(each.first_end, self._last_end(each.start) + 1, self._slide)
        return (end for end in ends if end - 1 + self._lateness > self._watermark)

    def _parts(self, end: int) -> list[Slice]:
        """The slices of the window with this end."""
        first, behind = (bisect_left(self._starts, each) for each in (end - self._size, end))
        return [self._slices[start] for start in self._starts[first:behind]]

    def _results(
        self, end: int, parts: list[Slice], found_of_keys: Iterable[tuple[Any, Any]]
    ) -> Iterable[Result]:
        """The results of a window, of keys and what they came to."""
        like = self._time.like(parts[0].form)
        start, until = like(end - self._size), like(end)
        value = self._fold.value
        if value is None:
            return ((key, found, start, until) for key, found in found_of_keys)
        return (
            (key, value(key, found, start, until), start, until) for key, found in found_of_keys
        )

    def _merged(self, parts: list[Slice]) -> Iterable[tuple[Any, Any]]:
        """Keys and what they came to over several slices."""
        if len(parts) == 1:
            return parts[0].values.items()
        gathered: dict[Any, list[Any]] = {}
        for each in parts:
            for key, accumulated in each.values.items():
                gathered.setdefault(key, []).append(accumulated)
        return ((key, self._of(found)) for key, found in gathered.items())

    def _of_key(self, key: Any, parts: list[Slice]) -> Any:
        return self._of([each.values[key] for each in parts if key in each.values])

    def _of(self, found: list[Any]) -> Any:
        return found[0] if len(found) == 1 else self._fold.merge(found)

    def _gather(self, each: Slice, key: Any) -> None:
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
            gone += 1
        del self._starts[:gone]


def _pairs(
    watermark: float | None,
    bounds: Sequence[tuple[int, Any]],
    values_of_slices: Sequence[Items],
) -> Iterator[tuple[Any, Any]]:
    """Of each key: the watermark, and the start, the form and the value of each of its slices."""
    kept: dict[Any, list[Any]] = {}
    for (start, form), values in zip(bounds, values_of_slices, strict=True):
        for key, value in values.items():
            kept.setdefault(key, []).append((start, form, value))
    while kept:  # let go of one by one, so that the GIL is not held for all
        key, slices = kept.popitem()
        yield key, (watermark, slices)
