"""The groups of an aggregated table by numbers of their keys, in whatever form rows are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from operators.aggregates import Aggregation
from operators.changes.accumulators import Taken, taken
from operators.changes.change import AFTER, BEFORE, DELETE, INSERT


class Group:
    """The rows of one key: how many there are, what they come to, and what was given last."""

    __slots__ = ("rows", "shown", "takens")

    def __init__(self, wanted: Sequence[Aggregation], skips_none: bool) -> None:
        self.rows = 0
        self.takens: list[Taken] = [taken(each, skips_none) for each in wanted]
        self.shown: list[Any] | None = None

    @property
    def values(self) -> list[Any] | None:
        """A value of each aggregate; None if there is no row."""
        return [each.value for each in self.takens] if self.rows else None


class Groups:
    """The groups of a task by numbers of their keys."""

    def __init__(self, wanted: Sequence[Aggregation], *, skips_none: bool) -> None:
        self.of_keys: dict[int, Group] = {}
        self._wanted = wanted
        self._skips_none = skips_none

    def take(
        self, keys: Sequence[int], kinds: bytes, values: Sequence[Iterable[Any] | None]
    ) -> Iterator[tuple[int, int, list[Any]]]:
        """The kind, the key and the values of each change that rows of these keys make.

        Of a batch each key changes once at most. It is to be read to its end. Raises `NoRow`
        and `Unusable`.
        """
        of_keys, touched = self.of_keys, dict.fromkeys(keys)
        columns = [each if each is not None else [None] * len(keys) for each in values]
        rows = zip(*columns, strict=True)
        for place, (key, kind, row) in enumerate(zip(keys, kinds, rows, strict=True)):
            group = of_keys.get(key)
            sign = 1 if kind in (INSERT, AFTER) else -1
            if group is None:
                group = of_keys[key] = Group(self._wanted, self._skips_none)
            group.rows += sign
            if group.rows < 0:
                raise NoRow(place)
            try:
                for each, value in zip(group.takens, row, strict=True):
                    each.change(value, sign)
            except KeyError:
                raise NoRow(place) from None
            except TypeError as error:
                raise Unusable(place, str(error)) from None
        for key in touched:
            group = of_keys[key]
            before, now = group.shown, group.values
            if before is not None and now is not None:
                if before != now:
                    yield BEFORE, key, before
                    yield AFTER, key, now
            elif before is not None:
                yield DELETE, key, before
            elif now is not None:
                yield INSERT, key, now
            group.shown = now
            if not group.rows:
                del of_keys[key]

    def load(self, key: int, rows: int, saved: Sequence[Any]) -> None:
        """Go on with a group that another kept."""
        group = self.of_keys[key] = Group(self._wanted, self._skips_none)
        group.rows = rows
        for each, part in zip(group.takens, saved, strict=True):
            each.load(part)
        group.shown = group.values

    def saved(self) -> Iterator[tuple[int, tuple[int, list[Any]]]]:
        """Each key with its number of rows, and what `load` takes."""
        for key, group in self.of_keys.items():
            yield key, (group.rows, [each.saved() for each in group.takens])


class Unusable(Exception):
    """The row at this place has a value that an aggregate cannot use, for this reason."""


class NoRow(Exception):
    """The change at this place takes away a row that is not there."""


def unknown(row: Any) -> ValueError:
    """The error for a change that takes away a row that is not there."""
    return ValueError(
        f"an aggregate of a table got a change that takes away the row {row!r:.80}, which is not "
        "there, expected changes of a table in their order\n\nhint: where tasks deal changes out "
        "to others it is lost: .with_parallelism(1) on all in front of .key_by(...)"
    )


def unusable(wanted: Sequence[Aggregation], row: Any, reason: str) -> TypeError:
    """The error for a row with a value that an aggregate cannot use."""
    words = ", ".join(
        f"{each.kind}({'' if each.item is None else repr(each.item)})" for each in wanted
    )
    return TypeError(
        f"{words} of a table got the row {row!r:.80}, expected numbers, or values that can be "
        f"compared: {reason}\n\nhint: filter such records out, or convert them, before .key_by(...)"
    )
