"""`BroadcastProcessFunction`: state of each key, and state that is the same in every task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NoReturn, TypeVar, overload

from operators.process.context import ProcessContext
from operators.process.function import NO_KEY, ProcessFunction

K = TypeVar("K")
V = TypeVar("V")


class BroadcastProcessFunction(ProcessFunction):
    """A `ProcessFunction` with a second stream whose records every task gets, such as rules.

    `.key_by(0).process_with(rules.broadcast(), F())` calls `process` with the records of each key,
    and `process_broadcast` with every record of the other stream, in each task. A `BroadcastState`
    keeps data of the other stream: a dict of the task that all keys share, and that only
    `process_broadcast` may change. So it is the same in all tasks, if each record has the same
    effect in each.

    >>> import engine.testing
    >>> from operators import BroadcastProcessFunction, BroadcastState, source
    >>> from operators.sinks import Collect
    >>> from operators.sources import Collection
    >>> class Above(BroadcastProcessFunction):
    ...     limits = BroadcastState()
    ...
    ...     def process(self, record, context):
    ...         name, value = record
    ...         return [record] if value > self.limits.get(name, 0) else None
    ...
    ...     def process_broadcast(self, record, context):
    ...         name, limit = record
    ...         self.limits[name] = limit
    >>> clock = engine.testing.VirtualClock()
    >>> values = source(Collection([("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)], rate=1))
    >>> limits = source(Collection([("b", 9), ("a", 2)], rate=2 / 3))
    >>> above = values.key_by(0).process_with(limits.broadcast(), Above()).sink(Collect())
    >>> engine.testing.run(above, clock=clock, batch_size=1)["collect"]
    [('a', 1), ('a', 3)]

    **Order.** Records of one task of the other stream come in their order, those of several tasks
    in any order. There is no order, and no wait, between them and the records of keys: a record may
    come before the first of the other stream. A function that has to wait keeps the record in a
    state of its key, and goes through `context.each_key()` when the other record comes.

    **Time.** Watermarks are those of the keys' records alone. The task ends when both streams have.
    """

    @abstractmethod
    def process_broadcast(self, record: Any, context: BroadcastContext, /) -> Iterable[Any] | None:
        """Take a record of the broadcast stream; called in every task. Results as of `process`.

        No key is at work, so states of keys exist only in `context.each_key()`.
        """


class BroadcastContext(ProcessContext):
    """The context of the functions of a `BroadcastProcessFunction`."""

    def __init__(self, now_ns: Callable[[], int], outputs: Mapping[str, list[Any]]) -> None:
        super().__init__(now_ns, outputs)
        self._keys: dict[Any, dict[str, Any]] = {}
        self._broadcast: dict[str, BroadcastMap[Any, Any]] = {}
        """The broadcast states, by name."""
        self._in_broadcast = False

    def each_key(self) -> Iterator[Any]:
        """In `process_broadcast`, all keys of the task with state.

        In each step of the loop that key is at work, with its states and timers.
        """
        if not self._in_broadcast:
            raise RuntimeError(
                "each_key() was called outside of process_broadcast(), expected inside"
            )
        for key, slots in list(self._keys.items()):
            self._leave_key()
            self.key, self._slots = key, slots
            yield key
        self._leave_key()

    def _leave_key(self) -> None:
        """Set no key at work, and drop keys without state."""
        if self._slots is not NO_KEY and not self._slots:
            self._keys.pop(self.key, None)
        self.key, self._slots = None, NO_KEY


class BroadcastState(Generic[K, V]):
    """A dict of which every task has all entries: `self.rules["a"] = 1` in `process_broadcast`.

    All other functions only read it, and must not change its values either.
    """

    def __init__(self) -> None:
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, function: None, owner: type) -> BroadcastState[K, V]: ...
    @overload
    def __get__(self, function: Any, owner: type) -> BroadcastMap[K, V]: ...
    def __get__(self, function: Any, owner: type) -> Any:
        return self if function is None else function._oka_context._broadcast[self.name]

    def __set__(self, function: Any, items: Any) -> None:
        items = dict(items)
        kept = self.__get__(function, type(function))
        kept.clear()
        kept.update(items)


class BroadcastMap(dict[K, V]):
    """The dict of a `BroadcastState`, which is changed in `process_broadcast` alone."""

    def __init__(self, name: str, context: BroadcastContext) -> None:
        super().__init__()
        self._name = name
        self._context = context


def _checked(method: str) -> Callable[..., Any]:
    """The method of a dict, or an error outside of `process_broadcast`."""
    change = getattr(dict, method)

    def checked(self: BroadcastMap[Any, Any], *arguments: Any, **named: Any) -> Any:
        if not self._context._in_broadcast:
            _refuse(self._name)
        return change(self, *arguments, **named)

    return checked


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"the broadcast state {name!r} was to be changed outside of process_broadcast(), expected "
        "it to be read there\n\nhint: tasks have different keys, and would come to have different "
        "states; what belongs to a key is a ValueState, ListState or MapState"
    )


for _method in (
    *("__setitem__", "__delitem__", "__ior__"),
    *("clear", "pop", "popitem", "setdefault", "update"),
):
    setattr(BroadcastMap, _method, _checked(_method))
