"""The records of an operator that keeps some of them by key: where keys and times are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from engine.graph.context import TaskContext
from engine.state import KeyedState
from operators.event_time import TimeSelector
from operators.key_numbers import KeyNumbers
from operators.keys import Key, key_finder

Groups = Sequence[tuple[int, list[Any], list[Any]]]
"""Of each key its number, what is known of its groups, and what these hold."""


class RecordRows:
    """Records: keys have numbers, and what is held is the record itself."""

    are_columns = False

    def __init__(
        self, key: Key, paired: bool, time: TimeSelector | None, context: TaskContext
    ) -> None:
        self.numbers = KeyNumbers()
        self._paired = paired
        self._find = key_finder(None if paired else key)
        self._time = None if time is None else replace(time, paired=False)
        self._failing = context.failing

    def read(self, batch: list[Any]) -> tuple[list[int], list[int]]:
        """The numbers of the records' keys, and their times: 0 where times do not matter."""
        records = self.records(batch)
        keys: Iterable[Any] = map(_FIRST, batch) if self._paired else map(self._find, batch)
        numbers = self.numbers.of_keys(keys)
        if self._time is None:
            return numbers, [0] * len(batch)
        return numbers, self._time.all_microseconds(records, self._failing)

    def chosen(self, batch: list[Any], places: list[int]) -> list[Any]:
        """The records in these places."""
        records = self.records(batch)
        return records if len(places) == len(batch) else [records[place] for place in places]

    def hold(
        self, batch: list[Any], held: dict[Any, int], _groups: Callable[[], Iterable[Any]]
    ) -> None:
        """Have groups hold the records in these places."""
        records = self.records(batch)
        for group, place in held.items():
            group.held = records[place]

    def of(self, held: list[Any]) -> list[Any]:
        """A batch of what was held."""
        return held

    def kept(self, groups: Groups, *, holds: bool, pickle: bool) -> KeyedState:
        """The state of these groups."""
        keys = self.numbers.of_numbers
        pairs = ((keys[number], (known, held if holds else [])) for number, known, held in groups)
        return KeyedState.of(pairs, pickle=pickle)

    def restored(self, state: KeyedState, *, holds: bool) -> Iterator[tuple[int, Any, list[Any]]]:
        """The groups of a state."""
        for key, (known, held) in state.items():
            yield self.numbers.of_key(key), known, held if holds else [None] * len(known)

    def records(self, batch: list[Any]) -> list[Any]:
        """The records without their keys."""
        return list(map(_SECOND, batch)) if self._paired else batch


_FIRST, _SECOND = itemgetter(0), itemgetter(1)
