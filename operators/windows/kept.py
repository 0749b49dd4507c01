"""What windows with a trigger keep: a value of a window that grows record by record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from engine.network import Aggregate, Batch, KeyedEntries
from operators.aggregates import NativeAggregate
from operators.aggregates.fold import Fold


class Values(ABC):
    """The functions that make the value of a window."""

    @abstractmethod
    def create(self, record: Any) -> Any:
        """The value of a first record."""

    @abstractmethod
    def add(self, value: Any, record: Any) -> Any:
        """The value with one more record, which may be the one before, changed."""

    @abstractmethod
    def merge(self, values: list[Any]) -> Any:
        """One value of several."""

    @abstractmethod
    def result(self, key: Any, value: Any, start: Any, end: Any) -> Any:
        """The result of a window."""

    def saved(self, value: Any) -> Any:
        """What `loaded` makes the value of."""
        return value

    def loaded(self, saved: Any) -> Any:
        """The value that goes on."""
        return saved


class FoldedValues(Values):
    """By functions of Python."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold

    def create(self, record: Any) -> Any:
        """The record itself, a list of it, or what the function makes."""
        create, add, *_ = self._fold
        if add is None:
            return [record]
        return record if create is None else create(record)

    def add(self, value: Any, record: Any) -> Any:
        """Add to the list, or call the function."""
        if self._fold.add is None:
            value.append(record)
            return value
        return self._fold.add(value, record)

    def merge(self, values: list[Any]) -> Any:
        """As the function does."""
        return self._fold.merge(values)

    def result(self, key: Any, value: Any, start: Any, end: Any) -> Any:
        """What the function makes of it, or the value."""
        finish = self._fold.value
        return value if finish is None else finish(key, value, start, end)


class NativeValues(Values):
    """By aggregations in Rust: a value is an aggregate of all records, without a key."""

    def __init__(self, aggregations: NativeAggregate, pickle: bool) -> None:
        self._arguments = aggregations.arguments
        self._pickle = pickle

    def create(self, record: Any) -> Any:
        """An aggregate with this record."""
        return self.add(_Given(Aggregate(*self._arguments)), record)

    def add(self, value: Any, record: Any) -> Any:
        """The aggregate takes it in."""
        value.aggregate.add(Batch.from_list([record], self._pickle))
        return value

    def merge(self, values: list[Any]) -> Any:
        """The first takes in the others."""
        for other in values[1:]:
            if part := other.aggregate.part():
                values[0].aggregate.merge(*part)
        return values[0]

    def result(self, key: Any, value: Any, start: Any, end: Any) -> Any:
        """What it comes to, or came to when it changed last."""
        if given := value.aggregate.take():
            (value.given,) = given
        return value.given

    def saved(self, value: Any) -> Any:
        """As a checkpoint of aggregates has it."""
        layout, entries = value.aggregate.snapshot()
        return layout, [entries[at] for at in range(len(entries))]

    def loaded(self, saved: Any) -> Any:
        """An aggregate that goes on."""
        layout, entries = saved
        aggregate = Aggregate(*self._arguments)
        aggregate.restore(layout, KeyedEntries([tuple(entry) for entry in entries]), True)
        return _Given(aggregate)


class _Given:
    """An aggregate, and what it gave last."""

    __slots__ = ("aggregate", "given")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.given: Any = None
