"""The checked arguments of `KeyedStream.window`: windows, time and emission."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

from engine.errors import GraphError
from engine.graph.declaration import Input
from operators.aggregates import emit_meaning
from operators.durations import ZERO, check_duration, microseconds
from operators.event_time import Time, TimeSelector, Unit, time_of
from operators.keys import Key, key_meaning
from operators.windows.assigners import (
    Assigner,
    Calendar,
    CountWindow,
    Every,
    Period,
    Session,
    in_words,
)
from operators.windows.trigger import Trigger, can_merge
from operators.windows.zones import offsets_of

Emit: TypeAlias = Literal["final", "updates"] | Every | Trigger
"""The times of a window's results: when it is complete ("final"), for each batch that changed it
("updates"), in a period, or as a class of yours says."""


@dataclass(frozen=True)
class Windowing:
    """The settings of windows, whatever an operator computes from them."""

    key: Key
    """The place of the key in a record; None for the record itself."""
    paired: bool
    """Whether pairs of a key and a record arrive."""
    assigner: Assigner
    time: TimeSelector | None
    """Reads a record's time; None if windows need none."""
    allowed_lateness: timedelta = ZERO
    """The event time for which a window is kept behind its end."""
    emit: Emit = "final"

    @property
    def time_of_results(self) -> TimeSelector | None:
        """The last instant of a window is the time of its result: a microsecond before its end.

        The watermark reaches it when the window is complete, and not before: in inclusive sessions
        at the end.
        """
        if self.time is None:
            return None
        end = _END if self.is_keyed else _END - 1
        at_end = isinstance(self.assigner, Session) and self.assigner.inclusive
        before_us = 0 if at_end else 1
        return TimeSelector(end, self.time.unit, column=END_COLUMN, before_us=before_us)

    @property
    def is_keyed(self) -> bool:
        """Whether results have a key in front: the empty tuple is none, and one task has all."""
        return self.paired or self.key != ()

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that the state of windows depends on, for `Properties.meaning`."""
        return {
            "key": key_meaning(self.key, self.paired),
            "windows": in_words(self.assigner),
            "allowed_lateness": str(self.allowed_lateness),
            **({} if self.time is None else self.time.meaning),
            **emit_meaning(self.emit),
        }


def windowing_of(
    inputs: Sequence[Input],
    key: Key,
    paired: bool,
    assigner: Assigner,
    time: tuple[Time, Unit],
    allowed_lateness: timedelta,
    emit: Emit,
) -> Windowing:
    """The settings of windows over these edges; `GraphError` unless they fit together."""
    check_windowing(assigner, time[0], allowed_lateness, emit)
    selector = None
    if not isinstance(assigner, CountWindow):
        selector = time_of(inputs, "window", *time)
    return Windowing(key, paired, assigner, selector, allowed_lateness, emit)


def check_windowing(assigner: object, time: object, allowed_lateness: object, emit: object) -> None:
    """Raise `GraphError` unless these settings of windows fit together."""
    check_assigner("window", assigner, get_args(Assigner))
    check_duration("window(): allowed_lateness", allowed_lateness, ZERO)
    if isinstance(emit, Trigger):
        _check_trigger(emit, assigner)
    elif not isinstance(emit, Every) and emit not in get_args(Literal["final", "updates"]):
        is_class = isinstance(emit, type) and issubclass(emit, Trigger)
        raise GraphError(
            f"window() got emit={_shown(emit)}, expected 'final', 'updates', Every(...) or a "
            "trigger",
            hint=f"emit={_shown(emit)}(...) is one"
            if is_class
            else "Every(timedelta(seconds=1)) gives what changed once a second",
        )
    if isinstance(assigner, CountWindow) and (time is not None or allowed_lateness):
        raise GraphError(
            f"window() got {'time' if time is not None else 'allowed_lateness'} and {assigner!r}, "
            "expected neither: it counts records in the order in which they come",
        )


def _check_trigger(trigger: Trigger, assigner: object) -> None:
    if isinstance(assigner, CountWindow):
        raise GraphError(
            f"window() got {assigner!r} and {_shown(trigger)}, expected one of them: both say "
            "after how many records a result comes",
            hint="Tumbling(timedelta(days=1)) with emit=CountTrigger(n) gives a result every n "
            "records, and at the end of the day",
        )
    if isinstance(assigner, Session) and not can_merge(trigger):
        raise GraphError(
            f"window() got {assigner!r} and the trigger {type(trigger).__name__} without "
            "on_merge(), expected one: a record may make one session of two",
            hint="def on_merge(self, window, other): add what other.state has to window.state",
        )


def check_assigner(method: str, assigner: object, kinds: tuple[type, ...]) -> None:
    """Raise `GraphError` unless these are windows of one of these kinds."""
    if isinstance(assigner, kinds):
        return
    named = assigner.__name__ if isinstance(assigner, type) else f"{assigner!r:.80}"
    size = "100" if assigner is CountWindow else "timedelta(minutes=1)"
    others = ", ".join(kind.__name__ for kind in kinds[1:])
    raise GraphError(
        f"{method}() got {named}, expected windows",
        hint=f"{named}({size}) is one"
        if assigner in kinds
        else f"such as {kinds[0].__name__}(timedelta(minutes=1)); also {others}",
    )


def check_length(method: str, assigner: Assigner) -> None:
    """Raise `GraphError` for windows that are longer than times in Rust can be apart."""
    if isinstance(assigner, CountWindow | Calendar):
        return
    if isinstance(assigner, Session):
        length = assigner.gap
    else:
        length = max(assigner.size, assigner.slide)
    if length > _LONGEST:
        raise GraphError(f"{method}() follows windows of {length!r}, expected at most 36,000 years")


def in_numbers(assigner: Assigner) -> tuple[str, list[int]]:
    """The kind of windows and their numbers, for Rust."""
    if isinstance(assigner, CountWindow):
        size = min(assigner.size, _MOST_RECORDS)
        return "counts", [size, min(assigner.slide or size, size)]
    if isinstance(assigner, Session):
        kind = "inclusive sessions" if assigner.inclusive else "sessions"
        return kind, [microseconds(assigner.gap)]
    if isinstance(assigner, Calendar):
        first, changes = offsets_of(assigner.zone)
        return "calendar", [*_PERIODS[assigner.period], first, *chain.from_iterable(changes)]
    numbers = (assigner.size, assigner.slide, assigner.offset % assigner.slide)
    return "slices", [microseconds(each) for each in numbers]


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else f"{value!r:.80}"


_PERIODS: dict[Period, tuple[int, int, int]] = {
    "day": (1, 0, 0),
    "week": (7, -3, 0),
    "month": (0, 0, 1),
    "quarter": (0, 0, 3),
    "year": (0, 0, 12),
}
"""How many days, the day since 1970 with which one begins, and how many months, for Rust."""
_LONGEST = timedelta(microseconds=2**60)
_MOST_RECORDS = 2**60
"""More records than any window has."""
_END = 3
"""The item of a result that has the window's end."""
END_COLUMN = "window_end"
"""The same of columns, as the aggregates in Rust call it."""
