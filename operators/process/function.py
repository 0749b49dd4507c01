"""`ProcessFunction`, the base of users' classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class ProcessFunction(ABC):
    """A function of the records of each key, with state and timers: `.key_by(0).process(F())`.

    States are attributes of the class: `ValueState`, `ListState`, `MapState`. Each has a value for
    every key: in a call, the value of the key whose record or timer is at work. Other attributes
    belong to the task: all keys share them, and they are not saved.

    Both functions return a list of results, or None for no result. A key without state takes no
    memory.

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

    outputs: ClassVar[tuple[str, ...]] = ()
    """The names of side outputs, to which `context.output` sends, and which `.side(name)` reads."""

    _oka_context: Any = _Outside()

    @abstractmethod
    def process(self, record: Any, context: ProcessContext, /) -> list[Any] | None:
        """Process a record of a key, in order of arrival."""

    def on_timer(self, time: int, context: ProcessContext, /) -> list[Any] | None:
        """Handle a timer of a key, with the time for which it was set, in microseconds.

        Timers come in the order of their times; those of one time, in the order in which they were
        set first. For a timer by the clock, it is the time of `context.now_ns`, in microseconds.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has set a timer, expected it to have an on_timer()"
        )


NO_KEY = _NoKey()
