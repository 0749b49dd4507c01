"""The loops that add records to slices, which are the hot path of a program with windows.

While times stay in one slice, a loop makes no call but that of the user's function and the look-up
of the key. One is for keys and times that are items, one for keys that came with their records, as
a function of the user's gave them, and one for all else.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.graph.failing import Failing
from engine.graph.operator import TaskContext
from operators.keys import unhashable
from operators.windows.fold import Fold
from operators.windows.rows import NONE, Rows, found_again, rows
from operators.windows.state import Result
from operators.windows.windowing import Windowing

if TYPE_CHECKING:
    from operators.windows.slices import Slices

Loop: TypeAlias = Callable[[list[Any]], list[Result]]


def loop_of(slices: "Slices", windowing: Windowing, fold: Fold, context: TaskContext) -> Loop:
    """The loop over a batch that adds its records to the slices."""
    key, time = windowing.key, windowing.time
    assert time is not None
    if context.rescue is None and isinstance(time.item, int | str):
        if windowing.paired:
            return _add_pairs(slices, time.item, fold, context.failing)
        if isinstance(key, int | str):
            return _add_by_item(slices, key, time.item, fold, context.failing)
    return _add_rows(slices, rows(key, windowing.paired, time, context.rescue), fold, context)


# The three are alike but for where key and time come from.


def _add_by_item(
    slices: "Slices", key_item: Any, time_item: Any, fold: Fold, failing: Failing
) -> Loop:
    def add(batch: list[Any]) -> list[Result]:
        out: list[Result] = []
        combine, key_index, time_index = fold.add, key_item, time_item
        first, last, values, get, changed, again = _NOWHERE
        record = key = None
        try:
            for record in batch:
                time = record[time_index]
                try:
                    elsewhere = not first <= time <= last
                except TypeError:  # it is None, or the first datetime
                    elsewhere = True
                if elsewhere:
                    place = slices.place_of(time)
                    if place is None:
                        slices.late.append(record)
                        continue
                    first, last, values, get, changed, again = place
                key = record[key_index]
                value = get(key, NONE)
                if value is NONE:
                    key = _begin(values, key, record, fold)
                else:
                    values[key] = combine(value, record)
                if changed is not None:
                    changed[key] = None
                elif again is not None:
                    out += again(key)
        except BaseException as error:
            failing.on(record)
            _check_hashable(error, key)
            raise
        return out

    return add


def _add_pairs(slices: "Slices", time_item: Any, fold: Fold, failing: Failing) -> Loop:
    def add(batch: list[Any]) -> list[Result]:
        out: list[Result] = []
        combine, time_index = fold.add, time_item
        first, last, values, get, changed, again = _NOWHERE
        record = key = None
        try:
            for key, record in batch:
                time = record[time_index]
                try:
                    elsewhere = not first <= time <= last
                except TypeError:
                    elsewhere = True
                if elsewhere:
                    place = slices.place_of(time)
                    if place is None:
                        slices.late.append(record)
                        continue
                    first, last, values, get, changed, again = place
                value = get(key, NONE)
                if value is NONE:
                    key = _begin(values, key, record, fold)
                else:
                    values[key] = combine(value, record)
                if changed is not None:
                    changed[key] = None
                elif again is not None:
                    out += again(key)
        except BaseException as error:
            failing.on(record)
            _check_hashable(error, key)
            raise
        return out

    return add


def _add_rows(slices: "Slices", read: Rows, fold: Fold, context: TaskContext) -> Loop:
    rescue = context.rescue

    def add(batch: list[Any]) -> list[Result]:
        out: list[Result] = []
        combine = fold.add
        first, last, values, get, changed, again = _NOWHERE
        key = None
        at = iter(batch)
        try:
            for time, key, record in read(at, batch):
                try:
                    elsewhere = not first <= time <= last
                except TypeError:
                    elsewhere = True
                try:
                    if elsewhere:
                        place = slices.place_of(time)
                        if place is None:
                            slices.late.append(record)
                            continue
                        first, last, values, get, changed, again = place
                    value = get(key, NONE)
                    if value is NONE:
                        key = _begin(values, key, record, fold)
                    else:
                        values[key] = combine(value, record)
                    if changed is not None:
                        changed[key] = None
                    elif again is not None:
                        out += again(key)
                except BaseException as error:
                    if rescue is None:
                        raise
                    rescue(record, error)
        except BaseException as error:
            context.failing.at(batch, at)
            _check_hashable(error, key)
            raise
        return out

    return add


def _begin(values: dict[Any, Any], key: Any, record: Any, fold: Fold) -> Any:
    """Add the first record of a key, or one whose key only `dict_key` finds; the key as kept."""
    key, value = found_again(key, values)
    if value is not NONE:
        values[key] = fold.add(value, record)
    else:
        values[key] = record if fold.create is None else fold.create(record)
    return key


def _check_hashable(error: BaseException, key: Any) -> None:
    """Raise what explains an exception, where the key is the reason."""
    if isinstance(error, TypeError):
        try:
            hash(key)
        except TypeError:
            raise unhashable(key) from None


_NOWHERE: Any = (1, 0, {}, {}.get, None, None)
"""The place in which no time is."""
