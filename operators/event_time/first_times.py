"""A warning where the first times of a stream seem to count another unit than the given one."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from engine.columns import is_columns
from engine.graph.batch_operator import BatchFunction
from engine.graph.context import TaskContext
from operators.event_time.fitting import as_unit, fitting_unit, told
from operators.event_time.selector import TimeSelector, Unit

logger = logging.getLogger("oka")


def warn_of_unit(method: str, task: str, time: Any, time_us: int, unit: Unit) -> None:
    """Warn if a time is far from today in the given unit, and near it in another.

    Units differ by a factor of a thousand, so today in one unit is near 1970 or far ahead in the
    others.
    """
    if isinstance(time, datetime) or time is None:
        return
    fitting = fitting_unit(time_us, unit)
    if fitting is not None:
        logger.warning(
            f"{method}() of task {task}: the first time is {time!r:.40}, that is "
            f"{told(time_us)} as it counts {unit!r}, expected "
            f"{told(as_unit(time_us, unit, fitting))}: it seems to count {fitting!r}\n\n"
            f"hint: .{method}(..., unit={fitting!r})"
        )


def with_units_checked(
    function: BatchFunction, times: Sequence[TimeSelector | None], context: TaskContext
) -> BatchFunction:
    """An operator's function, with a warning about the first time of each input.

    It checks only an item that was named for this operator. `with_event_time` checks its own, and a
    function must be called once for each record.
    """
    unchecked = {
        side: each
        for side, each in enumerate(times)
        if each is not None and each.said_by is not None and not callable(each.item)
    }
    if not unchecked:
        return function
    process: Callable[[Any], Any] = function.process

    def process_checked(batch: Any) -> Any:
        selector = unchecked.get(getattr(batch, "input", 0)) if unchecked and len(batch) else None
        if selector is not None:
            del unchecked[getattr(batch, "input", 0)]
            with suppress(Exception):  # an operator that reads all times warns itself
                _check(selector, batch, context.task_name)
        return process(batch)

    function.process = process_checked  # type: ignore[method-assign]
    return function


def _check(selector: TimeSelector, batch: Any, task: str) -> None:
    decode = getattr(batch, "decode", None) or getattr(batch, "to_list", None)
    given = batch if decode is None or is_columns(batch) else decode()
    assert selector.said_by is not None
    if is_columns(given):
        if selector.is_number(given):
            column, of_number = selector.in_columns(given.slice(0, 1))
            time = column[0].as_py()
            warn_of_unit(
                selector.said_by, task, time, of_number.in_microseconds(time), selector.unit
            )
    else:
        time = selector.time(given[0])
        warn_of_unit(selector.said_by, task, time, selector.in_microseconds(time), selector.unit)
