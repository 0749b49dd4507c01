"""`sort_by_time`: the records of each key in the order of event time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from engine.columns import is_columns
from engine.graph.operator import OnError, Properties
from operators.aggregates import Count
from operators.event_time import TimeSelector
from operators.keys import Key
from operators.rolling import NativeRolling, Rolling, RollingFunction


@dataclass(frozen=True)
class SortByTime(NativeRolling):
    """Gives each record when the watermark has come to its time.

    So does `over`, which it is: of the shortest span, and without what that comes to.
    """

    @classmethod
    def by(cls, key: Key, paired: bool, time: TimeSelector, on_error: OnError) -> NativeRolling:
        """The records of this key by this time."""
        span = timedelta(microseconds=1)
        return cls.of(Count(), Rolling(key, paired, time, (span,), None), on_error)

    @property
    def given_time(self) -> TimeSelector:
        """Where it was."""
        return replace(self.rolling.time, paired=False)

    @property
    def properties(self) -> Properties:
        """As `over`, with a state of its own."""
        meaning = {**super().properties.meaning, "kind": "sort_by_time"}
        del meaning["spans"], meaning["value"]
        return replace(super().properties, meaning=meaning)


class _Sorted(RollingFunction):
    def _complete(self, watermark_us: int) -> Iterator[Any]:
        for batch in super()._complete(watermark_us):
            if is_columns(batch):
                yield batch.select(range(batch.num_columns - 1))
            else:
                yield [record for record, _ in batch]


SortByTime.function = _Sorted
