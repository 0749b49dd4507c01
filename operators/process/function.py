"""`ProcessFunction` and `CoProcessFunction`, the bases of users' classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn

from operators.process.context import ProcessContext


class _Outside:
    """Stands for the context where no key is at work."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python itself reads such attributes
            raise AttributeError(name)
        _refuse()


class _NoKey(dict[str, Any]):
    """Stands for the slots of a key if none is at work."""

    def get(self, *_arguments: Any) -> NoReturn:
        _refuse()

    pop = __contains__ = __getitem__ = __setitem__ = get


def _refuse() -> NoReturn:
    raise RuntimeError(
        "a state was used where there is no key, expected it in process() or on_timer()\n\n"
        "hint: ValueState(default) in the class says what a state begins with; __init__ has no key"
    )


class KeyedFunction:
    """What functions of one stream and of two have in common."""

    outputs: ClassVar[tuple[str, ...]] = ()
    """The names of side outputs, to which `context.output` sends, and which `.side(name)` reads."""

    _oka_context: Any = _Outside()

    def on_timer(self, time: int, context: ProcessContext, /) -> Iterable[Any] | None:
        """Handle a timer of a key, with the time for which it was set, in microseconds.

        Timers come in the order of their times; those of one time, in the order in which they were
        set first. For a timer by the clock, it is the time of `context.now_ns`, in microseconds.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has set a timer, expected it to have an on_timer()"
        )


class ProcessFunction(KeyedFunction, ABC):
    """A function of the records of each key, with state and timers: `.key_by(0).process(F())`.

    States are attributes of the class: `ValueState`, `ListState`, `MapState`. Each has a value for
    every key: in a call, the value of the key whose record or timer is at work. Other attributes
    belong to the task: all keys share them, and they are not saved.

    Both functions yield results, or return a list or another iterable of them, or None. A tuple, a
    dict or a text is refused there, since it is a record itself. If a function fails after it has
    yielded results, these are dropped. A key without state takes no memory.

    >>> from datetime import timedelta
    >>> import engine.testing
    >>> from operators import ProcessContext, ListState, ProcessFunction, source
    >>> from operators.sinks import Collect
    >>> from operators.sources import Collection
    >>> class Abandoned(ProcessFunction):
    ...     cart = ListState(ttl=timedelta(days=1))
    ...
    ...     def process(self, record, context):
    ...         self.cart.append(record["item"])
    ...         context.set_timer(record["ts"] + 60_000_000)
    ...
    ...     def on_timer(self, time, context):
    ...         items, _ = list(self.cart), self.cart.clear()
    ...         return [(context.key, items)]
    >>> clicks = [
    ...     {"user": "ann", "item": "tea", "ts": 0},
    ...     {"user": "bob", "item": "cup", "ts": 40_000_000},
    ...     {"user": "ann", "item": "pot", "ts": 50_000_000},
    ...     {"user": "eve", "item": "jug", "ts": 150_000_000},
    ...     {"user": "ann", "item": "jar", "ts": 160_000_000},
    ... ]
    >>> timed = source(Collection(clicks, rate=1)).with_event_time("ts")
    >>> carts = timed.key_by("user").process(Abandoned()).sink(Collect())
    >>> engine.testing.run(carts, clock=engine.testing.VirtualClock(), batch_size=1)["collect"]
    [('bob', ['cup']), ('ann', ['tea', 'pot']), ('eve', ['jug']), ('ann', ['jar'])]
    """

    @abstractmethod
    def process(self, record: Any, context: ProcessContext, /) -> Iterable[Any] | None:
        """Process a record of a key, in order of arrival."""


class CoProcessFunction(KeyedFunction, ABC):
    """A function of the records of each key of two streams: `left.connect(right).process(F())`.

    `process_left` gets the records of the left stream, `process_right` those of the right. A key
    has the same states and timers in both. All else is as in `ProcessFunction`.

    >>> import engine.testing
    >>> from operators import CoProcessFunction, ValueState, source
    >>> from operators.sinks import Collect
    >>> from operators.sources import Collection
    >>> class RidesAndFares(CoProcessFunction):
    ...     ride, fare = ValueState(), ValueState()
    ...
    ...     def process_left(self, ride, context):
    ...         self.ride = ride
    ...         yield from self.both()
    ...
    ...     def process_right(self, fare, context):
    ...         self.fare = fare
    ...         yield from self.both()
    ...
    ...     def both(self):
    ...         if self.ride and self.fare:
    ...             yield self.ride, self.fare
    ...             del self.ride, self.fare
    >>> rides = source(Collection([(1, "to the airport"), (2, "home")]))
    >>> fares = source(Collection([{"ride": 2, "fare": 7.5}]))
    >>> paid = rides.key_by(0).connect(fares.key_by("ride")).process(RidesAndFares())
    >>> engine.testing.run(paid.sink(Collect()))["collect"]
    [((2, 'home'), {'ride': 2, 'fare': 7.5})]

    **Order.** Records of one task of a stream come in their order; there is no order between the
    two streams, and none waits for the other.

    **Time.** A watermark is that of both streams. The task ends when both have ended.
    """

    @abstractmethod
    def process_left(self, record: Any, context: ProcessContext, /) -> Iterable[Any] | None:
        """Process a record of the left stream."""

    @abstractmethod
    def process_right(self, record: Any, context: ProcessContext, /) -> Iterable[Any] | None:
        """Process a record of the right stream."""


NO_KEY = _NoKey()
