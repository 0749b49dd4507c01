"""The encoded state of a task's keys, and the share of it that another task takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from engine.network import FrozenDict, KeyedEntries, decode_value, encode_parts, keyed_entries


class Items(Protocol):
    """An object with keys and values, such as a dict."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Each key with its value."""


@dataclass(frozen=True)
class KeyedState:
    """Keys and values of one operator in one task, encoded as records are.

    Invariant: keys are in the order of the hashes by which records are divided among tasks, so that
    each task restores a slice. Keys and values have the same bytes whether they were Python objects
    or in a native table. References to classes are those of the job's records.

    >>> state = KeyedState.of({"to": 2, "be": 1}.items())
    >>> shares = [KeyedState.share([state], index, 3) for index in range(3)]
    >>> sorted(pair for share in shares for pair in share.items())
    [('be', 1), ('to', 2)]
    """

    entries: KeyedEntries
    """The 64-bit hash of a key, the key, its value; the first reader puts them in order."""
    columns: bytes = b""
    """If the operator's records were columns, an encoded batch without rows."""
    encoded_shared: bytes = b""
    """The state that every task keeps as a whole, encoded as a record; empty if there is none."""
    encoded_own: Mapping[int, bytes] = field(default_factory=dict)
    """State without a key, by the task's index; or a source's state, by the number of its share.
    Each is a list, encoded as a record. Of n restored tasks, task i gets all whose number modulo n
    is i."""
    all_columns: tuple[bytes, ...] = field(default=(), compare=False)
    """The different `columns` of the tasks from which a share comes."""
    meaning: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The meaning of a share at its snapshot, by its operator; empty if unknown."""

    @classmethod
    def of(
        cls,
        pairs: Iterable[tuple[Any, Any]],
        *,
        pickle: bool = False,
        shared: Any = None,
        own: tuple[int, list[Any]] | None = None,
    ) -> KeyedState:
        """The state of these pairs of a key and a value, and state without a key.

        All tasks restore `shared`, one of them `own`: the index of the task, and its state. With
        `pickle`, as `TaskContext.pickle` says, values that cannot be encoded otherwise are pickled.
        """
        encoded = b"" if shared is None else encode_value(shared, pickle)
        own_bytes = {} if own is None else {own[0]: encode_value(own[1], pickle)}
        return cls(keyed_entries(list(pairs), pickle), b"", encoded, own_bytes)

    @classmethod
    def of_shares(cls, own: Mapping[int, list[Any]]) -> KeyedState:
        """The state of shares of the task's source, by their numbers, for their readers."""
        encoded = {share: encode_value(kept, pickle=False) for share, kept in own.items()}
        return cls(keyed_entries([], False), encoded_own=encoded)

    @classmethod
    def later(
        cls,
        pairs: Callable[[], Iterable[tuple[Any, Any]]],
        *,
        pickle: bool = False,
        columns: bytes = b"",
    ) -> KeyedState:
        """As `of`, with pairs from a function that the writing thread calls.

        The task goes on until then, so the pairs must be copies or never change.
        """
        return cls(KeyedEntries.later(pairs, pickle), columns)

    @classmethod
    def of_dicts(
        cls,
        pairs: Callable[[Sequence[Items]], Iterable[tuple[Any, Any]]],
        dicts: Sequence[dict[Any, Any]],
        *,
        pickle: bool = False,
    ) -> KeyedState:
        """As `of`, with pairs from dicts: encoded later, from copies, where copies suffice.

        A value that can change is encoded now, and `pairs` gets its encoding in its place.
        """
        copies = [copy for each in dicts if (copy := FrozenDict.of(each, pickle)) is not None]
        if len(copies) < len(dicts):
            return cls.of(pairs(dicts), pickle=pickle)
        return cls.later(partial(pairs, copies), pickle=pickle)

    @classmethod
    def share(cls, states: Iterable[KeyedState], index: int, parallelism: int) -> KeyedState:
        """The share of the task of this index, out of the `states` of all tasks so far."""
        states = list(states)
        entries = KeyedEntries.share([each.entries for each in states], index, parallelism)
        columns = tuple(dict.fromkeys(each.columns for each in states if each.columns))
        shared = states[index % len(states)].encoded_shared if states else b""
        own = {
            task: kept
            for each in states
            for task, kept in each.encoded_own.items()
            if task % parallelism == index
        }
        return cls(entries, next(iter(columns), b""), shared, own, columns)

    @property
    def shared(self) -> Any:
        """The state that every task keeps as a whole, decoded; None if there is none."""
        if not self.encoded_shared:
            return None
        return decode_value(self.encoded_shared)

    @property
    def own(self) -> list[list[Any]]:
        """The task's state without keys, decoded: a list for each task that it replaces."""
        return [decode_value(self.encoded_own[task]) for task in sorted(self.encoded_own)]

    def order_of(self, values: Any) -> list[int] | None:
        """The position of each of an operator's named values at the snapshot.

        None if the values are in their own places.
        """
        before = self.meaning.get("value")
        if not isinstance(values, Mapping) or not isinstance(before, Mapping):
            return None
        order = [list(before).index(name) for name in values]
        return None if order == sorted(order) else order

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values, decoded; equal keys come once."""
        return zip(self.entries.keys(), self.entries.values(), strict=True)


def encode_value(value: Any, pickle: bool) -> bytes:
    """One value, as a record is encoded."""
    return b"".join(encode_parts(value, pickle))
