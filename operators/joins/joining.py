"""The common part of joins of keyed streams: two inputs, the kind of join, results of pairs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any, Literal, TypeAlias, get_args

from engine.errors import GraphError
from engine.graph.failing import FailureContext
from operators.changes import Change, check_changes
from operators.elementwise import check_function
from operators.event_time import TimeSelector
from operators.keys import Key, key_finder, key_meaning

SIDES = ("left", "right")
"""The side outputs of records without a partner."""

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
    time: TimeSelector | None
    """None where the join does without times."""
    schema: Any = None
    """The declared columns, a `pyarrow.Schema`, or None."""
    changes: bool = False
    """Whether what comes are changes of a table."""
    times_changes: bool = False
    """Whether the time of records is found in a change, rather than in its row."""
    columns: Key = None
    """The key of columns, where it is in another place than that of records."""

    @property
    def meaning(self) -> dict[str, Any]:
        """Where key and time are."""
        key = self.key if self.columns is None else self.columns
        time = {} if self.time is None else self.time.meaning
        changes = {"changes": True} if self.changes else {}
        return {"key": key_meaning(key, self.paired), **time, **changes}

    def parts(
        self, batch: list[Any], failing: FailureContext
    ) -> tuple[list[int] | None, Iterable[Any], list[Any]]:
        """The times of a batch in microseconds, its keys and its records, or its changes."""
        keys: Any = batch
        records = batch
        if self.paired:
            keys, records = map(_FIRST, batch), list(map(_SECOND, batch))
        elif self.key is not None:
            keys = map(key_finder(self.key), batch)
        if self.changes:
            check_changes(records)
        if self.time is None:
            return None, keys, records
        is_inside = self.changes and not self.times_changes
        rows = [change.record for change in records] if is_inside else records
        return self.time_of_records.all_microseconds(rows, failing), keys, records

    @property
    def key_of_columns(self) -> Key:
        """The columns of the key; None where it is in none."""
        return self.key if self.columns is None else self.columns

    @cached_property
    def time_of_records(self) -> TimeSelector:
        """Where the time is in a record without its key."""
        assert self.time is not None
        return replace(self.time, paired=False)


@dataclass(frozen=True)
class Results:
    """What a join makes of partners, and what else goes where."""

    aside: tuple[bool, bool] = (False, False)
    """Whether records without a partner go to a side output, of the left and of the right."""
    are_changes: bool = False
    """Whether results are changes, since they may be taken back."""
    are_rows: bool = False
    """Whether they are records of the left alone."""


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

    def told(self, aside: tuple[bool, bool]) -> tuple[bool, bool]:
        """Of which sides records without a partner come out, here or in a side output."""
        left, right = (outer or other for outer, other in zip(self.outer, aside, strict=True))
        return left, right

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that state depends on, for `Properties.meaning`."""
        sides = zip(SIDES, self.inputs, strict=True)
        return {"how": self.how, **{name: each.meaning for name, each in sides}}

    @property
    def has_changes(self) -> bool:
        """Whether one of the inputs is a table, whose rows may go."""
        return any(each.changes for each in self.inputs)

    @property
    def takes_columns(self) -> bool:
        """Whether it takes columns as they are: no function gets a record, or made its key."""
        by_column = all(each.time is None or each.time.takes_columns for each in self.inputs)
        return by_column and self.function is None and not any(map(_PAIRED, self.inputs))

    def made(self, pairs: list[Any], failing: FailureContext) -> list[Any]:
        """The results from partners, or from changes of pairs."""
        function = self.function
        if function is None:
            return pairs
        at = iter(pairs)
        try:
            # `starmap` would take a StopIteration of the function for its end.
            if pairs and isinstance(pairs[0], Change):
                return [Change(kind, function(*pair), key) for kind, pair, key in at]
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


def unknown_row(method: str, row: object) -> ValueError:
    """The error for a change that takes away a row that is not there."""
    return ValueError(
        f"{method} got a change that takes away the row {row!r:.80}, which is not there, expected "
        "changes of a table in their order\n\nhint: where tasks deal changes out to others it is "
        "lost: .with_parallelism(1) on all in front of .key_by(...)"
    )


_FIRST, _SECOND = itemgetter(0), itemgetter(1)
_PAIRED = attrgetter("paired")
