"""The records of a batch with their times and keys, as all kinds of windows read them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeAlias

from engine.graph.context import Rescue
from engine.graph.failing import Failing
from operators.event_time import TimeSelector
from operators.keys import Key, key_finder

Rows: TypeAlias = Callable[[Iterator[Any], list[Any]], Iterable[tuple[Any, Any, Any]]]
"""Gives the time, the key and the record of each that comes. It is called with an iterator of the
batch and the batch; of the iterator it takes each record first, so that this tells where it is."""


def rows(key: Key, paired: bool, time: TimeSelector | None, rescue: Rescue | None) -> Rows:
    """The loop over a batch; without a selector, each time is None."""
    find_key = key_finder(0 if paired else key)
    find_time = _nothing if time is None else replace(time, paired=False).time
    if rescue is not None:
        return _rescued(find_key, find_time, paired, rescue)

    if time is not None and callable(time.item):
        return _found(find_key, find_time, paired)
    if paired:

        def of_pairs(at: Iterator[Any], batch: list[Any]) -> Iterable[tuple[Any, Any, Any]]:
            return zip(
                map(find_time, map(_second, at)),
                map(find_key, batch),
                map(_second, batch),
                strict=True,
            )

        return of_pairs

    def of_records(at: Iterator[Any], batch: list[Any]) -> Iterable[tuple[Any, Any, Any]]:
        keys = batch if key is None else map(find_key, batch)
        return zip(map(find_time, at), keys, batch, strict=True)

    return of_records


def tell_failing(failing: Failing, batch: list[Any], at: Iterator[Any], paired: bool) -> None:
    """Tell which record it was: the one that this iterator of the batch gave last."""
    failing.at([record for _, record in batch] if paired else batch, at)


def _found(find_key: Callable[[Any], Any], find_time: Callable[[Any], Any], paired: bool) -> Rows:
    """By a function of the user's: `map` would take a StopIteration of it for its end."""

    def of_records(at: Iterator[Any], _batch: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
        for given in at:
            record = given[1] if paired else given
            yield find_time(record), find_key(given), record

    return of_records


def _rescued(
    find_key: Callable[[Any], Any],
    find_time: Callable[[Any], Any],
    paired: bool,
    rescue: Rescue,
) -> Rows:
    """As the others, but that a record without a time is rescued."""

    def of_records(at: Iterator[Any], _batch: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
        for given in at:
            record = given[1] if paired else given
            try:
                time, key = find_time(record), find_key(given)
            except BaseException as error:  # noqa: BLE001 - `rescue` raises what is not its
                rescue(record, error)
                continue
            yield time, key, record

    return of_records


def _nothing(_record: Any) -> None:
    return None


_second = itemgetter(1)
