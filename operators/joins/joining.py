"""The common part of joins of keyed streams: two inputs, the kind of join, results of pairs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal, TypeAlias, get_args

from engine.errors import GraphError
from engine.graph.failing import FailureContext
from operators.elementwise import check_function
from operators.event_time import TimeSelector
from operators.keys import Key, key_finder, key_meaning

Pair: TypeAlias = tuple[Any, Any]
"""A left and a right record; None stands for a missing one."""

NEVER = float("-inf")
"""The watermark before the first."""
AT_THE_END = float("inf")
"""The watermark behind the last record."""

How: TypeAlias = Literal["inner", "left", "right", "full"]
"""Which side's records come without a partner, too: none, the left, the right, or both."""


@dataclass(frozen=True)
class JoinInput:
    """One of the two streams: where in a record its key and its time are."""

    key: Key
    paired: bool
    """Whether what arrives are pairs of a key and a record."""
    time: TimeSelector
    schema: Any = None
    """The declared columns, a `pyarrow.Schema`, or None."""

    @property
    def meaning(self) -> dict[str, Any]:
        """Where key and time are."""
        return {"key": key_meaning(self.key, self.paired), **self.time.meaning}

    def parts(
        self, batch: list[Any], failing: FailureContext
    ) -> tuple[list[int], Iterable[Any], list[Any]]:
        """The times of a batch in microseconds, its keys and its records."""
        keys: Any = batch
        records = batch
        if self.paired:
            keys, records = map(_FIRST, batch), list(map(_SECOND, batch))
        elif self.key is not None:
            keys = map(key_finder(self.key), batch)
        return self.time_of_records.all_microseconds(records, failing), keys, records

    @cached_property
    def time_of_records(self) -> TimeSelector:
        """Where the time is in a record without its key."""
        return replace(self.time, paired=False)


@dataclass(frozen=True)
class Joining:
    """Two inputs, the left one first; how they are joined, and what is made of two partners."""

    inputs: tuple[JoinInput, JoinInput]
    how: How = "inner"
    function: Callable[[Any, Any], Any] | None = None
    """Of a left and a right record, one of which may be None; without it they are a pair."""

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether records come without a partner, of the left and of the right."""
        return self.how in ("left", "full"), self.how in ("right", "full")

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that state depends on, for `Properties.meaning`."""
        sides = zip(("left", "right"), self.inputs, strict=True)
        return {"how": self.how, **{name: each.meaning for name, each in sides}}

    def made(self, pairs: list[Pair], failing: FailureContext) -> list[Any]:
        """The results from partners."""
        function = self.function
        if function is None:
            return pairs
        at = iter(pairs)
        try:
            # `starmap` would take a StopIteration of the function for its end.
            return [function(left, right) for left, right in at]
        except BaseException:
            failing.at(pairs, at)
            raise


def check_joining(
    method: str, how: object, function: object, ways: tuple[str, ...] = get_args(How)
) -> None:
    """Raise `GraphError` unless they say how to join, and what to make of partners."""
    if how not in ways:
        words = ", ".join(map(repr, ways))
        raise GraphError(f"{method}() got how={how!r:.80}, expected one of {words}")
    if function is not None:
        check_function(method, function, 2)


_FIRST, _SECOND = itemgetter(0), itemgetter(1)
