"""Two streams together in windows: a function of the records of both, of each key and window."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import itemgetter
from typing import Any

from engine.graph.declaration import Input
from engine.graph.operator import RecordOperator
from engine.partitioner import Forward
from operators.elementwise import check_function
from operators.event_time import TimeSelector, Unit, time_of
from operators.keys import key_finder
from operators.stream import Stream
from operators.windows.assigners import Assigner
from operators.windows.windowed_stream import WindowedStream
from operators.windows.windowing import Emit, Windowing, check_windowing


def cogroup(
    sides: Iterable[tuple[Any, TimeSelector]],
    assigner: Assigner,
    function: Callable[[Any, list[Any], list[Any], Any, Any], Any],
    allowed_lateness: timedelta,
    emit: Emit,
) -> Stream[Any]:
    """The windows of both sides together; see `KeyedStream.cogroup`.

    A side is a keyed stream, and where its records have their times.
    """
    check_function("cogroup", function, 5)
    (left, left_time), (right, right_time) = sides
    unit, times = _times(left_time, right_time)
    check_windowing(assigner, times, allowed_lateness, emit)
    told: Stream[Any] = Stream((*_told("left", left), *_told("right", right)))
    keyed = told.key_by(itemgetter(1)).inputs
    selector = time_of(keyed, "cogroup", times, unit)
    windowing = Windowing(0, True, assigner, selector, allowed_lateness, emit)
    windows: WindowedStream[Any, Any] = WindowedStream(keyed, windowing)
    return windows.apply(_Divided(function))


@dataclass(frozen=True)
class _Divided:
    """Gives the function the records of each side in a list of their own."""

    function: Callable[[Any, list[Any], list[Any], Any, Any], Any]

    def __call__(self, key: Any, told: list[Any], start: Any, end: Any) -> Any:
        lefts = [record for side, _, record in told if side == "left"]
        rights = [record for side, _, record in told if side == "right"]
        return self.function(key, lefts, rights, start, end)


def _told(name: str, side: Any) -> tuple[Input, ...]:
    """The stream as (side, key, record), in the tasks in which its records are."""
    find, paired = key_finder(side._key), side._paired

    def tell(record: Any) -> tuple[str, Any, Any]:
        return (name, record[0], record[1]) if paired else (name, find(record), record)

    edges = tuple(replace(edge, partitioner=Forward()) for edge in side.inputs)
    return Stream(edges)._beside(RecordOperator("map", tell), f"cogroup_{name}")


def _times(left: TimeSelector, right: TimeSelector) -> tuple[Unit, Callable[[Any], Any]]:
    """The unit of the times of both, and a function of (side, key, record) that finds them.

    In the form that they have, if that is the same; else in microseconds.
    """
    selectors = {
        name: replace(each, paired=False) for name, each in (("left", left), ("right", right))
    }
    if left.unit == right.unit and not (left.before_us or right.before_us):
        found = {name: each.time for name, each in selectors.items()}
        return left.unit, lambda told: found[told[0]](told[2])
    in_us = {name: each.microseconds for name, each in selectors.items()}
    return "us", lambda told: in_us[told[0]](told[2])
