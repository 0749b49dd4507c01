"""Rows of columns of one stream, found again by their numbers, in one schema."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from engine.columns import with_wide_codes, without_rows
from engine.network import KeptRows


class Kept:
    """The rows of a stream that are kept, and the columns that it has.

    It remembers what columns there are. Of one name they have one type, but for null and for
    dictionaries, which become what has the values of both.
    """

    def __init__(self, method: str, of: str, schema: pa.Schema | None) -> None:
        """`method` and which stream it is `of` are for messages; a declared `schema` is known."""
        self.schema = schema and with_wide_codes(without_rows(schema)).schema
        self._method = method
        self._of = of
        self._rows = KeptRows()

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns that those before had, in their order and of their types.

        Raises TypeError where it has others.
        """
        batch = with_wide_codes(batch)
        known = self.schema
        if known is None:
            self.schema = batch.schema
            return batch
        if batch.schema.equals(known):
            return batch
        names = batch.schema.names
        if names != known.names and len(set(names)) == len(names) == len(known.names):
            with suppress(KeyError):
                batch = batch.select(known.names)
        if batch.schema.names == known.names:
            fields = list(map(_of_both, known, batch.schema))
            if all(each is not None for each in fields):
                known = pa.schema(fields)
                with suppress(pa.ArrowInvalid):  # more texts than a dictionary holds
                    batch = batch.cast(known)
                    if not known.equals(self.schema):
                        self.schema = known
                        self._rows.convert(lambda batch: batch.cast(known))
                    return batch
        raise TypeError(
            f"{self._method} got columns{self._of} that have changed, from ({_told(known)}) to "
            f"({_told(batch.schema)}), expected the same in each batch\n\n"
            "hint: bring them into one schema in .map_batches(...); of .lookup_join(...), "
            "value_type=... says it"
        )

    def add(self, batch: pa.RecordBatch, numbers: bytes) -> None:
        """Take in rows of a batch that `fit` gave, by their numbers; 0 is not kept."""
        self._rows.add(batch, numbers)

    def take(self, numbers: bytes) -> pa.RecordBatch:
        """The rows with these numbers, of which there is one at least."""
        found: pa.RecordBatch = self._rows.take(numbers)
        return found

    def remove(self, numbers: bytes) -> None:
        """Let go of the rows with these numbers."""
        self._rows.remove(numbers)

    def copy(self) -> KeptRows:
        """The rows as they are now."""
        return self._rows.copy()


def _of_both(known: pa.Field, other: pa.Field) -> pa.Field | None:
    """What has the values of both; None where types differ, but for null and for dictionaries."""
    with suppress(pa.ArrowTypeError):
        return pa.unify_schemas([pa.schema([known]), pa.schema([other])]).field(0)
    if _plain(known.type) != _plain(other.type):
        return None
    return known.with_nullable(known.nullable or other.nullable)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
