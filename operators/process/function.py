"""`ProcessFunction`, the base of a class of the user's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn

from operators.process.context import ProcessContext


class _Outside:
    """Stands for the context where no key is at work."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python itself looks what it is
            raise AttributeError(name)
        _refuse()


class _NoKey(dict[str, Any]):
    """Stands for what is kept of a key where none is at work."""

    def get(self, *_arguments: Any) -> NoReturn:
        _refuse()

    pop = __contains__ = __getitem__ = __setitem__ = get


def _refuse() -> NoReturn:
    raise RuntimeError(
        "a state was used where there is no key, expected it in process() or on_timer()\n\n"
        "hint: ValueState(default) in the class says what a state begins with; __init__ has no key"
    )


class ProcessFunction(ABC):
    """What becomes of the records of each key, with state and timers: `.key_by(0).process(F())`.

    States are attributes of the class: `ValueState`, `ListState`, `MapState`. Each has a value for
    every key, and stands for that of the key whose record or timer is at work. Other attributes are
    the task's: all keys share them, and they are not saved.

    Both functions return a list of results, or None for no result. A key of which nothing is kept
    takes no memory.

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
    """Names of side outputs, which `context.output` sends to and `.side(name)` reads."""

    _oka_context: Any = _Outside()

    @abstractmethod
    def process(self, record: Any, context: ProcessContext, /) -> list[Any] | None:
        """Take a record of a key, in order of arrival."""

    def on_timer(self, time: int, context: ProcessContext, /) -> list[Any] | None:
        """Take a timer of a key, at the time that it was set for, in microseconds.

        Timers come in the order of their times; those of one time, in the order in which they were
        set first. Of a timer by the clock, the time is that of `context.now_ns`, in microseconds.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has set a timer, expected it to have an on_timer()"
        )


NO_KEY = _NoKey()
