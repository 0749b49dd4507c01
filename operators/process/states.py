"""States of a `ProcessFunction`: attributes of its class, each with a value for every key.

If a state has a time to live, values that were not written for this long are gone. The moment that
counts is a call's first look at such a state: the values that it finds stay until the call ends. A
task also drops old values by itself, when they expire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from engine.errors import GraphError
from operators.durations import check_duration, nanoseconds
from operators.process.context import ProcessContext

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class State(ABC):
    """The base of all kinds of state. A key without a value has no entry in its slots."""

    def __init__(self, ttl: timedelta | None) -> None:
        if ttl is not None:
            check_duration("ttl", ttl)
        self.ttl_ns = None if ttl is None else nanoseconds(ttl)
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def handle(self, context: ProcessContext) -> Any:
        """The view that the function gets in one task; None if it gets the value itself."""
        return None

    @abstractmethod
    def drop_old(self, slots: dict[str, Any], now_ns: int) -> int | None:
        """Drop old values; returns the time at which the next expires, None if nothing is left."""

    @abstractmethod
    def saved(self, kept: Any, now_ns: int) -> Any:
        """The state to save, with the time left to live in place of the time of its end."""

    @abstractmethod
    def restored(self, saved: Any, now_ns: int) -> Any:
        """The state, from a result of `saved`."""

    def until(self, context: ProcessContext) -> int:
        """The end of a value written now, in ns; puts a key's first value into the queue."""
        assert self.ttl_ns is not None
        until_ns = context._call_ns() + self.ttl_ns
        if self.name not in context._slots:
            context._expiry.add(until_ns, context.key, self.name)
        return until_ns


class ValueState(State, Generic[T]):
    """A value of each key, read and set as an attribute: `self.count += 1`, `del self.count`.

    Until it is set, and after it was deleted or has grown too old, it is the default.
    """

    def __init__(self, default: T = None, ttl: timedelta | None = None) -> None:  # type: ignore[assignment]
        super().__init__(ttl)
        if isinstance(default, list | dict | set):
            raise GraphError(
                f"the default of a ValueState is {default!r:.80}, which all keys would share",
                hint="ListState() and MapState() begin empty; default=None may be tested for",
            )
        self._default = default

    @overload
    def __get__(self, function: None, owner: type) -> ValueState[T]: ...
    @overload
    def __get__(self, function: Any, owner: type) -> T: ...
    def __get__(self, function: Any, owner: type) -> Any:
        if function is None:
            return self
        slots = function._oka_context._slots
        if self.ttl_ns is None:
            return slots.get(self.name, self._default)
        if self.name in slots:
            self.drop_old(slots, function._oka_context._call_ns())
        return slots.get(self.name, (0, self._default))[1]

    def __set__(self, function: Any, value: T) -> None:
        context = function._oka_context
        if self.ttl_ns is None:
            context._slots[self.name] = value
        else:
            context._slots[self.name] = (self.until(context), value)

    def __delete__(self, function: Any) -> None:
        function._oka_context._slots.pop(self.name, None)

    def drop_old(self, slots: dict[str, Any], now_ns: int) -> int | None:
        """Drop the value if it is too old; returns its end, None if it is gone."""
        until_ns: int = slots[self.name][0]
        if until_ns > now_ns:
            return until_ns
        del slots[self.name]
        return None

    def saved(self, kept: Any, now_ns: int) -> Any:
        """The value, with its time left."""
        return kept if self.ttl_ns is None else (kept[0] - now_ns, kept[1])

    def restored(self, saved: Any, now_ns: int) -> Any:
        """The value, with its end."""
        return saved if self.ttl_ns is None else (saved[0] + now_ns, saved[1])


class ListState(State, Generic[T]):
    """A list of each key: `self.cart.append(item)`, `list(self.cart)`, `self.cart.clear()`.

    It may be assigned to: `self.cart = []`. With a time to live, each item has its own.
    """

    def __init__(self, ttl: timedelta | None = None) -> None:
        super().__init__(ttl)

    @overload
    def __get__(self, function: None, owner: type) -> ListState[T]: ...
    @overload
    def __get__(self, function: Any, owner: type) -> KeyedList[T]: ...
    def __get__(self, function: Any, owner: type) -> Any:
        return self if function is None else function._oka_context._handles[self.name]

    def handle(self, context: ProcessContext) -> KeyedList[T]:
        """The view of the list of the key at work."""
        return KeyedList(self, context)

    def __set__(self, function: Any, items: Iterable[T]) -> None:
        items = list(items)
        kept = self.__get__(function, type(function))
        kept.clear()
        kept.extend(items)

    def drop_old(self, slots: dict[str, Any], now_ns: int) -> int | None:
        """Drop items that are too old; returns the end of the first left, None if none is."""
        items: list[tuple[int, Any]] = slots[self.name]
        old = 0
        while old < len(items) and items[old][0] <= now_ns:
            old += 1
        del items[:old]
        if items:
            return items[0][0]
        del slots[self.name]
        return None

    def saved(self, kept: Any, now_ns: int) -> Any:
        """The items, each with its time left."""
        return kept if self.ttl_ns is None else [(until - now_ns, item) for until, item in kept]

    def restored(self, saved: Any, now_ns: int) -> Any:
        """The items, each with its end."""
        return saved if self.ttl_ns is None else [(left + now_ns, item) for left, item in saved]


class KeyedList(Sequence[T]):
    """The list of the key at work: it grows at its end, or is cleared."""

    __slots__ = ("_context", "_state")

    def __init__(self, state: ListState[T], context: ProcessContext) -> None:
        self._state = state
        self._context = context

    def append(self, item: T) -> None:
        """Add one item."""
        state, slots = self._state, self._context._slots
        kept: Any = item if state.ttl_ns is None else (state.until(self._context), item)
        if state.name in slots:
            slots[state.name].append(kept)
        else:
            slots[state.name] = [kept]

    def extend(self, items: Iterable[T]) -> None:
        """Add these items."""
        state = self._state
        added: list[Any] = list(items)
        if not added:
            return
        if state.ttl_ns is not None:
            until_ns = state.until(self._context)
            added = [(until_ns, item) for item in added]
        slots = self._context._slots
        kept = slots.get(state.name)
        if kept is None:
            slots[state.name] = added
        else:
            kept += added

    def clear(self) -> None:
        """Remove all items."""
        self._context._slots.pop(self._state.name, None)

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[T]:
        return iter(self[:])

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> Any:
        found = self._items()[at]
        if self._state.ttl_ns is None:
            return found
        return [item for _, item in found] if isinstance(at, slice) else found[1]

    def __repr__(self) -> str:
        return f"<KeyedList {self[:]!r}>"

    def _items(self) -> Any:
        state, slots = self._state, self._context._slots
        if state.ttl_ns is not None and state.name in slots:
            state.drop_old(slots, self._context._call_ns())
        return slots.get(state.name, [])


class MapState(State, Generic[K, V]):
    """A dict of each key: `self.seen[id] = True`, `id in self.seen`, `self.seen.pop(id, None)`.

    It may be assigned to: `self.seen = {}`. With a time to live, each entry has its own.
    """

    def __init__(self, ttl: timedelta | None = None) -> None:
        super().__init__(ttl)

    @overload
    def __get__(self, function: None, owner: type) -> MapState[K, V]: ...
    @overload
    def __get__(self, function: Any, owner: type) -> KeyedMap[K, V]: ...
    def __get__(self, function: Any, owner: type) -> Any:
        return self if function is None else function._oka_context._handles[self.name]

    def handle(self, context: ProcessContext) -> KeyedMap[K, V]:
        """The view of the dict of the key at work."""
        return KeyedMap(self, context)

    def __set__(self, function: Any, items: Any) -> None:
        items = dict(items)
        kept = self.__get__(function, type(function))
        kept.clear()
        kept.update(items)

    def drop_old(self, slots: dict[str, Any], now_ns: int) -> int | None:
        """Drop entries that are too old; returns the end of the first left, None if none is."""
        entries: dict[Any, tuple[int, Any]] = slots[self.name]  # in the order of writing
        while entries:
            first = next(iter(entries))
            until_ns = entries[first][0]
            if until_ns > now_ns:
                return until_ns
            del entries[first]
        del slots[self.name]
        return None

    def saved(self, kept: Any, now_ns: int) -> Any:
        """The entries, each with its time left."""
        if self.ttl_ns is None:
            return list(kept.items())
        return [(key, (until - now_ns, value)) for key, (until, value) in kept.items()]

    def restored(self, saved: Any, now_ns: int) -> Any:
        """The entries, each with its end."""
        if self.ttl_ns is None:
            return dict(saved)
        return {key: (left + now_ns, value) for key, (left, value) in saved}


class KeyedMap(MutableMapping[K, V]):
    """The dict of the key at work."""

    __slots__ = ("_context", "_state")

    def __init__(self, state: MapState[K, V], context: ProcessContext) -> None:
        self._state = state
        self._context = context

    def __getitem__(self, key: K) -> V:
        found = self._entries()[key]
        value: V = found if self._state.ttl_ns is None else found[1]
        return value

    def __setitem__(self, key: K, value: Any) -> None:
        state, slots = self._state, self._context._slots
        if state.ttl_ns is not None:
            value = (state.until(self._context), value)
        kept = slots.get(state.name)
        if kept is None:
            slots[state.name] = {key: value}
            return
        if state.ttl_ns is not None:
            kept.pop(key, None)  # the last written entry stands at the end
        kept[key] = value

    def __delitem__(self, key: K) -> None:
        entries = self._entries()
        del entries[key]
        if not entries:
            self.clear()

    def __contains__(self, key: object) -> bool:
        return key in self._entries()

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries()))  # a new value may change the entry's place meanwhile

    def __len__(self) -> int:
        return len(self._entries())

    def __repr__(self) -> str:
        return f"<KeyedMap {dict(self)!r}>"

    def clear(self) -> None:
        """Remove all entries."""
        self._context._slots.pop(self._state.name, None)

    def _entries(self) -> dict[K, Any]:
        state, slots = self._state, self._context._slots
        if state.ttl_ns is not None and state.name in slots:
            state.drop_old(slots, self._context._call_ns())
        found: dict[K, Any] = slots.get(state.name, {})
        return found
