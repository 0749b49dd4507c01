"""`top_n` of encoded records, in Rust."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.network import Batch, EncodeError, Top
from engine.state import KeyedState


class TopEncoded:
    """As `TopRecords`, but records are never objects: only the values to rank by are read."""

    are_columns = False

    def __init__(self, top: Top, *, is_wanted: bool, pickle: bool) -> None:
        """Without any record yet; `is_wanted` says whether changes are."""
        self._top = top
        self._is_wanted = is_wanted
        self._pickle = pickle

    def take(self, batch: Batch | list[Any]) -> Batch | list[Any] | str:
        """Take records; returns each key whose first records have changed, with these.

        Or why that cannot be done here: then none of them was taken.
        """
        try:
            records = batch if type(batch) is Batch else Batch.from_list(batch, self._pickle)
        except EncodeError as error:
            return str(error)
        changed = self._top.add(records, self._is_wanted)
        return [] if changed is None else changed

    def all(self, most: int) -> Iterator[Batch]:
        """Each key with its first records, in batches."""
        first = 0
        while len(batch := self._top.found(first, most)):
            yield batch
            first += most

    def snapshot(self, *, pickle: bool) -> KeyedState:
        """The first records of each key."""
        return KeyedState(self._top.entries())

    def restore(self, state: KeyedState) -> bool:
        """Go on with the first records of keys; False if that cannot be done here."""
        return self._top.restore(state.entries)
