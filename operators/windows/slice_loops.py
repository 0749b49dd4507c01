"""The loops that add records to slices, which are the hot path of a program with windows.

While times stay in one slice, a loop makes no call but that of the user's function and the look-up
of the key. One is for keys and times that are items, one for keys that came with their records, as
a function of the user's gave them, and one for all else.
"""

from collections.abc import Callable
from operator import length_hint
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.graph.context import TaskContext
from engine.graph.failing import Failing
from operators.keys import NONE, found_again, key_finder, unhashable
from operators.windows.fold import Fold
from operators.windows.rows import rows, tell_failing
from operators.windows.slice import NOWHERE
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
    return _add_rows(slices, windowing, fold, context)


# The first two are alike but for where the key comes from.


def _add_by_item(
    slices: "Slices", key_item: Any, time_item: Any, fold: Fold, failing: Failing
) -> Loop:
    def add(batch: list[Any]) -> list[Result]:
        combine, key_index, time_index = fold.add, key_item, time_item
        find_key, find_time = key_finder(key_item), key_finder(time_item)
        first, last, values = slices.place
        begins_itself = _PLAIN if fold.create is None else _NO_KIND
        record = time = key = None
        records = iter(batch)
        while True:
            try:
                for record in records:
                    try:
                        time = record[time_index]
                    except TypeError:  # it is an object with fields
                        time = find_time(record)
                    if not first <= time <= last:
                        place = slices.place_of(time)
                        if place is None:
                            slices.late.append(record)
                            continue
                        first, last, values = place
                    try:
                        key = record[key_index]
                    except TypeError:
                        key = find_key(record)
                    if key in values:
                        values[key] = combine(values[key], record)
                    elif type(key) in begins_itself:
                        values[key] = record
                    else:
                        _begin(values, key, record, fold)
                return slices.take_again()
            except BaseException as error:
                if _is_of_another_kind(error, time, first):
                    first, last, values = NOWHERE
                    records = iter(batch[-1 - length_hint(records) :])  # with this one
                    continue
                failing.on(record)
                _check_hashable(error, key)
                raise

    return add


def _add_pairs(slices: "Slices", time_item: Any, fold: Fold, failing: Failing) -> Loop:
    def add(batch: list[Any]) -> list[Result]:
        combine, time_index, find_time = fold.add, time_item, key_finder(time_item)
        first, last, values = slices.place
        begins_itself = _PLAIN if fold.create is None else _NO_KIND
        record = time = key = None
        pairs = iter(batch)
        while True:
            try:
                for key, record in pairs:
                    try:
                        time = record[time_index]
                    except TypeError:  # it is an object with fields
                        time = find_time(record)
                    if not first <= time <= last:
                        place = slices.place_of(time)
                        if place is None:
                            slices.late.append(record)
                            continue
                        first, last, values = place
                    if key in values:
                        values[key] = combine(values[key], record)
                    elif type(key) in begins_itself:
                        values[key] = record
                    else:
                        _begin(values, key, record, fold)
                return slices.take_again()
            except BaseException as error:
                if _is_of_another_kind(error, time, first):
                    first, last, values = NOWHERE
                    pairs = iter(batch[-1 - length_hint(pairs) :])
                    continue
                failing.on(record)
                _check_hashable(error, key)
                raise

    return add


def _add_rows(slices: "Slices", windowing: Windowing, fold: Fold, context: TaskContext) -> Loop:
    rescue = context.rescue
    read = rows(windowing.key, windowing.paired, windowing.time, rescue)

    def add(batch: list[Any]) -> list[Result]:
        combine = fold.add
        first, last, values = slices.place
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
                        first, last, values = place
                    if key in values:
                        values[key] = combine(values[key], record)
                    else:
                        _begin(values, key, record, fold)
                except BaseException as error:
                    if rescue is None:
                        raise
                    rescue(record, error)
        except BaseException as error:
            tell_failing(context.failing, batch, at, windowing.paired)
            _check_hashable(error, key)
            raise
        return slices.take_again()

    return add


def _begin(values: Any, key: Any, record: Any, fold: Fold) -> None:
    """Add the first record of a key, or one whose key only `dict_key` finds."""
    if type(key) not in _PLAIN:
        key, value = found_again(key, values)
        if value is not NONE:
            values[key] = fold.add(value, record)
            return
    values[key] = record if fold.create is None else fold.create(record)


def _is_of_another_kind(error: BaseException, time: Any, other: Any) -> bool:
    """Whether the exception says that these times cannot be compared: one is a datetime, or None.

    What is done with a time, first of all, is to compare it: if that raises, nothing else did.
    """
    if isinstance(error, TypeError):
        try:
            other <= time  # noqa: B015 - it may raise
        except TypeError:
            return True
    return False


def _check_hashable(error: BaseException, key: Any) -> None:
    """Raise what explains an exception, where the key is the reason."""
    if isinstance(error, TypeError):
        try:
            hash(key)
        except TypeError:
            raise unhashable(key) from None


_PLAIN: frozenset[type] = frozenset([str, int, bytes, bool])
"""Kinds of keys that a dict finds again without help."""
_NO_KIND: frozenset[type] = frozenset()
