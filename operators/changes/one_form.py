"""The form of what an operator keeps: records, or columns, as what came first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.columns import column_of, columns_among, is_columns, rows
from operators.changes.change import changes_of, rows_of_changes
from operators.keys import Key, key_finder

if TYPE_CHECKING:
    import pyarrow as pa


class OneForm:
    """Brings batches that come in another form later into that of those before.

    >>> OneForm("user").of([{"user": "ann"}], keeps_columns=False)
    [{'user': 'ann'}]
    """

    def __init__(self, key: Key, *, changes: bool = False) -> None:
        """By the columns of the key, and whether records are changes of a table."""
        self._key = key if isinstance(key, tuple) else () if key is None else (key,)
        self._find_key = key_finder(key)
        self._changes = changes
        self._schema: pa.Schema | None = None

    def of(self, batch: Any, *, keeps_columns: bool | None) -> Any:
        """The batch for an operator that keeps columns, records, or nothing yet (None).

        TypeError for records that cannot be columns, and where a key's task depends on the form.
        """
        if is_columns(batch):
            self._schema = batch.schema
            if keeps_columns is not False:
                return batch
            self._check_key(batch)
            return self.rows(batch)
        if not keeps_columns or not batch:
            return batch
        found = self._columns(batch)
        self._check_key(found)
        return found

    def rows(self, batch: Any) -> list[Any]:
        """The records of a batch, for an operator that always takes records."""
        if not is_columns(batch):
            return batch  # type: ignore[no-any-return]
        if not self._changes:
            return rows(batch)
        return changes_of(rows(batch), self._find_key)

    def _columns(self, records: list[Any]) -> pa.RecordBatch:
        if self._changes:
            records = rows_of_changes(records)
        return columns_among(records, self._schema)

    def _check_key(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        for item in self._key:
            column = column_of(batch, item)
            if column is None:
                continue
            kind = column.type
            while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
                kind = kind.value_type
            by_form = pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
            if by_form or isinstance(kind, pa.BaseExtensionType):
                raise TypeError(
                    f"columns and records come to one operator, and their key {item!r} is of type "
                    f"{kind}, by which both are divided differently, expected one form\n\n"
                    "hint: call .to_records() on the columns before .key_by() or .union()"
                )
