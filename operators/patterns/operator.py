"""The operator of patterns: the records of each key in their order, watermarks, and the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import compress, count
from operator import itemgetter
from typing import Any, cast

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.graph.watermark import START_OF_TIME
from engine.record import dict_key
from engine.state import KeyedState
from operators.aggregates import Emit, emit_meaning
from operators.event_time import LATE, TimeSelector, with_units_checked
from operators.keys import NONE, Key, found_again, key_finder, key_meaning
from operators.patterns.automaton import Automaton
from operators.patterns.in_order import InOrder, Waiting
from operators.patterns.matcher import Matcher, Plan
from operators.patterns.matches import KeyMatches
from operators.patterns.saved import restored, saved
from operators.patterns.skipping import Skip
from operators.patterns.stages import AfterMatch, Matched, Then


@dataclass(frozen=True)
class Patterns(BatchOperator):
    """Gives the matches of a pattern in the records of each key."""

    pattern: Then
    key: Key
    paired: bool
    """Whether pairs of a key and a record arrive."""
    time: TimeSelector
    within_us: int | None
    after_match: AfterMatch
    emit: Emit
    max_matches: int
    """The most matches of a key that may be under way."""
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """The output of late records, the treatment of those that fail, the state's meaning."""
        meaning = {
            "kind": "pattern",
            "key": key_meaning(self.key, self.paired),
            "stages": self.pattern.meaning,
            "within": "forever" if self.within_us is None else f"{self.within_us} us",
            "after_match": str(self.after_match),
            **self.time.meaning,
            **emit_meaning(self.emit),
        }
        return Properties(on_error=self.on_error, outputs=(LATE,), meaning=meaning)

    def open(self, context: TaskContext) -> BatchFunction:
        """The matches of one task, of which none is under way."""
        return with_units_checked(_Patterns(self, context), [self.time], context)


class _Patterns(BatchFunction):
    """Brings the records of each key to its matches: in the order of time, or as they come."""

    def __init__(self, operator: Patterns, context: TaskContext) -> None:
        self._operator = operator
        self._task = context
        self._send_late = context.side_outputs.get(LATE)
        self._in_order = operator.emit == "final"
        self._within_us = operator.within_us
        self._matcher = Matcher(
            Automaton(operator.pattern),
            Skip.of(operator.after_match, operator.pattern),
            operator.within_us,
            in_order=self._in_order,
        )
        self._is_exact = self._matcher.is_exact and operator.within_us is not None
        self._keys: dict[Any, KeyMatches] = {}
        self._under_way = 0
        self._waiting = InOrder()
        self._due: dict[int, list[Any]] = {}
        """The keys that are looked at, each once, by the watermark at which they are."""
        self._moments: list[int] = []
        """A heap of these watermarks."""
        self._grain_us = 1
        """Keys are looked at when the watermark comes to a multiple of this."""
        if self._within_us is not None and not self._matcher.is_exact:
            self._grain_us = max(1, self._within_us // _LOOKS)
        self._numbers = count()
        self._watermark_us = START_OF_TIME
        find = (lambda pair: pair[0]) if operator.paired else key_finder(operator.key)
        self._key: Callable[[Any], Any] = find

    def process(self, batch: list[Any]) -> list[Matched]:
        times = self._times(batch)
        if self._in_order:
            self._add(batch, times, self._waiting.add)
            return []
        ready: list[Waiting] = []
        self._add(batch, times, ready.extend)
        out: list[Matched] = []
        self._take(ready, out)
        return out

    def on_watermark(self, watermark_us: int) -> Iterator[list[Matched]]:
        self._watermark_us = watermark_us
        yield from self._taken(self._waiting.take(watermark_us))
        out: list[Matched] = []
        while self._moments and self._moments[0] <= watermark_us:
            for key in self._due.pop(heappop(self._moments)):
                self._look_at(key, watermark_us, out)
        yield from self._batches(out)

    def on_end(self) -> Iterator[list[Matched]]:
        yield from self._taken(sorted(self._waiting))
        out: list[Matched] = []
        for kept in self._keys.values():
            out += self._matcher.finish(kept)
        yield from self._batches(out)

    def metrics(self) -> Mapping[str, Any]:
        return {"partial_matches": self._under_way}

    def snapshot(self) -> KeyedState:
        waiting: dict[Any, list[Waiting]] = {}
        for each in self._waiting:
            key, own = self._found(each[2], waiting)
            if own is None:
                own = waiting[key] = []
            own.append(each)
        keys = dict.fromkeys((*self._keys, *waiting))
        pairs = (
            (key, (self._watermark_us, *saved(waiting.get(key, ()), self._keys.get(key))))
            for key in keys
            if waiting.get(key) or self._keys[key]
        )
        return KeyedState.of(pairs, pickle=self._task.pickle)

    def restore(self, state: KeyedState) -> None:
        last = 0
        all_waiting: list[Waiting] = []
        for key, (watermark_us, *parts) in state.items():
            key = dict_key(key)
            self._watermark_us = max(self._watermark_us, watermark_us)
            waiting, kept, number = restored(parts)
            last = max(last, number)
            all_waiting += ((time_us, arrival, key, record) for time_us, arrival, record in waiting)
            if kept:
                self._keys[key] = kept
                self._under_way += kept.size
                self._plan_look(key, kept)
        self._numbers = count(last + 1)
        # of several tasks, records may have the same numbers
        for time_us, _, key, record in sorted(all_waiting, key=lambda each: each[:2]):
            self._waiting.add([(time_us, next(self._numbers), key, record)])

    def _times(self, batch: list[Any]) -> Sequence[int | None]:
        """The times of all records; None for one without a time, which is rescued."""
        time, rescue = self._operator.time, self._task.rescue
        if rescue is None:
            return time.all_microseconds(batch, self._task.failing)
        times: list[int | None] = []
        for record in batch:
            try:
                times.append(time.microseconds(record))
            except BaseException as error:  # noqa: BLE001 - `rescue` raises what is not its
                rescue(self._record(record), error)
                times.append(None)
        return times

    def _add(
        self,
        batch: list[Any],
        times: Sequence[int | None],
        add: Callable[[Iterable[Waiting]], None],
    ) -> None:
        watermark_us = self._watermark_us
        known = cast("Sequence[int]", times)
        if None in times or min(known, default=watermark_us) <= watermark_us:
            batch, known = self._in_time(batch, times)
        records = list(map(itemgetter(1), batch)) if self._operator.paired else batch
        if (concerned := self._matcher.concerned(records)) is not None:
            known, batch = list(compress(known, concerned)), list(compress(batch, concerned))
            records = list(compress(records, concerned)) if self._operator.paired else batch
        add(zip(known, self._numbers, map(self._key, batch), records, strict=False))

    def _in_time(
        self, batch: list[Any], times: Sequence[int | None]
    ) -> tuple[list[Any], list[int]]:
        """Those of a batch that have a time and are not late."""
        found: list[Any] = []
        found_times: list[int] = []
        late: list[Any] = []
        for record, time_us in zip(batch, times, strict=True):
            if time_us is None:
                continue
            if time_us <= self._watermark_us:
                late.append(self._record(record))
            else:
                found.append(record)
                found_times.append(time_us)
        if late:
            self.late += len(late)
            if self._send_late is not None:
                self._send_late(late)
        return found, found_times

    def _taken(self, ready: Sequence[Waiting]) -> Iterator[list[Matched]]:
        out: list[Matched] = []
        for at in range(0, len(ready), _RUN):
            self._take(ready[at : at + _RUN], out)
            if len(out) >= self._task.batch_size:
                yield from self._batches(out)
                out = []
        yield from self._batches(out)

    def _take(self, ready: Iterable[Waiting], out: list[Matched]) -> None:
        """Bring records to their keys.

        Most of them change nothing: they have few instructions, and no call but of a condition.
        """
        matcher, keys, in_order = self._matcher, self._keys, self._in_order
        bit, only = matcher.only or (0, None)
        idle = matcher.idle
        for time_us, number, key, record in ready:
            if type(key) is str or type(key) is int:
                kept = keys.get(key)
            else:
                key, kept = self._found(key, keys)
            if kept is not None and in_order and self._is_exact:
                before = kept.size
                out += matcher.expire(kept, time_us)
                self._under_way += kept.size - before
            try:
                if only is None:
                    true = matcher.holds(record)
                else:
                    true = bit if only(record) else 0
                if kept is None and true in idle:
                    continue
                plan = matcher.plan(kept, record, true)
            except BaseException as error:
                if self._task.rescue is None:
                    self._task.failing.on(record)
                    raise
                self._task.rescue(record, error)
                continue
            if plan is not None:
                number = next(self._numbers) if in_order else number
                self._do(plan, key, kept, record, time_us, number, out)

    def _do(
        self,
        plan: Plan,
        key: Any,
        kept: KeyMatches | None,
        record: Any,
        time_us: int,
        number: int,
        out: list[Matched],
    ) -> None:
        """Do what was planned with a record, and have its key looked at again."""
        if kept is None:
            kept = self._keys[key] = KeyMatches()
        before = kept.size
        out += self._matcher.do(plan, kept, record, time_us, number)
        if kept.size > min(kept.sweep_at, self._operator.max_matches):
            self._sweep(key, kept, time_us, out)
        self._under_way += kept.size - before
        if kept.due_us is None:
            if kept:
                self._plan_look(key, kept)
            if kept.due_us is None and not kept:
                del self._keys[key]

    def _sweep(self, key: Any, kept: KeyMatches, time_us: int, out: list[Matched]) -> None:
        """Look for matches whose time is over, where there are many; raise if they are too many."""
        if self._within_us is not None:
            proven = time_us if self._in_order else self._watermark_us + 1
            out += self._matcher.expire(kept, proven)
        kept.sweep_at = max(kept.sweep_at, 2 * kept.size)
        most = self._operator.max_matches
        if kept.size > most:
            raise RuntimeError(
                f"pattern() has {kept.size:,} matches under way for the key {key!r:.80}, expected "
                f"at most max_matches={most:,}\n\n"
                "hint: a shorter within=..., Next in place of FollowedBy or FollowedByAny, or "
                "after_match='skip_past_last_event' leave fewer; or set max_matches"
            )

    def _look_at(self, key: Any, watermark_us: int, out: list[Matched]) -> None:
        """Drop what is too old of a key, which was due."""
        kept = self._keys[key]
        kept.due_us = None
        if kept:
            before = kept.size
            out += self._matcher.expire(kept, watermark_us + 1)
            self._under_way += kept.size - before
        if kept:
            self._plan_look(key, kept, watermark_us)
        else:
            del self._keys[key]

    def _plan_look(self, key: Any, kept: KeyMatches, after_us: int | None = None) -> None:
        """Have the key looked at when its oldest match is too old, behind a watermark.

        If that only frees memory, together with others.
        """
        if self._within_us is None:
            return
        due_us = kept.oldest_us + self._within_us - 1
        if after_us is not None:
            due_us = max(due_us, after_us + 1)
        kept.due_us = due_us = -(-due_us // self._grain_us) * self._grain_us
        if (keys := self._due.get(due_us)) is None:
            self._due[due_us] = [key]
            heappush(self._moments, due_us)
        else:
            keys.append(key)

    def _found(self, key: Any, of: dict[Any, Any]) -> tuple[Any, Any]:
        """The key as a dict finds it again, and its value or None."""
        key, found = found_again(key, of)
        return key, None if found is NONE else found

    def _record(self, record: Any) -> Any:
        return record[1] if self._operator.paired else record

    def _batches(self, out: list[Matched]) -> Iterator[list[Matched]]:
        most = self._task.batch_size
        return (out[at : at + most] for at in range(0, len(out), most))


_RUN = 1024
"""So many records are taken before the matches that they complete go on."""
_LOOKS = 8
"""How often matches that are too old are dropped in the time that one may take."""
