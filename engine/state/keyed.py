"""What a task keeps of its keys, encoded, and the share of it that is another task's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Any

from engine.network import Batch, keyed_entries


@dataclass(frozen=True)
class KeyedState:
    """Keys and values of one operator in one task, encoded as records are.

    Invariant: in the order of the hashes by which records are divided among tasks, so that what a
    task goes on with is a slice. A key and a value are the same bytes whether they were Python
    objects or in a native table. References to classes are those of the job's records.

    >>> state = KeyedState.of({"to": 2, "be": 1}.items())
    >>> shares = [KeyedState.share([state], index, 3) for index in range(3)]
    >>> sorted(pair for share in shares for pair in share.items())
    [('be', 1), ('to', 2)]
    """

    entries: list[tuple[int, bytes, bytes]]
    """The 64-bit hash of a key, the key, its value."""
    columns: bytes = b""
    """Where the operator's records were columns, an encoded batch of none of them."""
    encoded_shared: bytes = b""
    """What every task keeps as a whole, in the encoding of a record; empty if nothing."""

    @classmethod
    def of(
        cls, pairs: Iterable[tuple[Any, Any]], *, pickle: bool = False, shared: Any = None
    ) -> KeyedState:
        """That of these pairs of a key and a value, and of what is no key's, which all tasks have.

        With `pickle`, as `TaskContext.pickle` says, what cannot be encoded otherwise is pickled.
        """
        encoded = b"" if shared is None else keyed_entries([(None, shared)], pickle)[0][2]
        return cls(keyed_entries(list(pairs), pickle), encoded_shared=encoded)

    @classmethod
    def share(cls, states: Iterable[KeyedState], index: int, parallelism: int) -> KeyedState:
        """What the task of this index goes on with, out of `states` of all tasks so far."""
        states = list(states)
        # The gate's choice is hash * parallelism >> 64.
        first, end = (-(-(at << 64) // parallelism) for at in (index, index + 1))
        slices = (
            each.entries[bisect_left(each.entries, (first,)) : bisect_left(each.entries, (end,))]
            for each in states
        )
        columns = next(filter(None, (each.columns for each in states)), b"")
        shared = states[index % len(states)].encoded_shared if states else b""
        return cls(list(merge(*slices)), columns, shared)

    @property
    def shared(self) -> Any:
        """What every task keeps as a whole, decoded; None if nothing."""
        if not self.encoded_shared:
            return None
        return Batch.from_bytes(self.encoded_shared, 1).to_list()[0]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values, decoded; equal keys come once."""
        keys, values = (
            Batch.from_bytes(b"".join(parts), len(self.entries)).to_list()
            for parts in ((key for _, key, _ in self.entries), (it for _, _, it in self.entries))
        )
        return zip(keys, values, strict=True)
