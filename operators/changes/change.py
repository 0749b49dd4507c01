"""A change of a table: a row that comes, or goes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from engine.columns import column_of, is_columns

if TYPE_CHECKING:
    import pyarrow as pa

Kind: TypeAlias = Literal["+I", "-U", "+U", "-D"]
"""An insert, the row before and the row after an update, a delete: Flink's `RowKind`."""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""By their numbers in Rust, which are Flink's."""
INSERT, BEFORE, AFTER, DELETE = range(4)

KIND = "kind"
"""The column of kinds, among those of a row."""


class Change(NamedTuple):
    """A row of a table that comes (`"+I"`, `"+U"`) or goes (`"-U"`, `"-D"`).

    An update is two changes behind each other: the row before, and the row after it. Of columns, a
    change is a row with one more column, "kind".
    """

    kind: Kind
    """"+I" an insert, "-U" and "+U" the row before and after an update, "-D" a delete."""
    record: Any
    """The row as it is from now on, or as it was."""
    key: Any = None
    """The row's key, where the table has one row of each."""


def kind_numbers(changes: Any) -> bytes:
    """A byte for the kind of each change, in a list or in columns.

    Raises TypeError for what is no change, and ValueError for an unknown kind.
    """
    if is_columns(changes):
        return _of_column(changes)
    try:
        return bytes([_NUMBERS[change.kind] for change in changes])
    except (AttributeError, KeyError, TypeError):
        check_changes(changes)
        raise


def changes_of(records: Sequence[Any], find_key: Callable[[Any], Any]) -> list[Any]:
    """The changes that these rows of columns are; what is no row stays."""
    return [
        Change(row.pop(KIND), row, find_key(row)) if type(row) is dict and KIND in row else row
        for row in records
    ]


def rows_of_changes(records: Sequence[Any]) -> list[Any]:
    """The rows of columns that these changes are; a change of what is no dict stays."""
    return [
        {**each.record, KIND: each.kind}
        if isinstance(each, Change) and isinstance(each.record, dict)
        else each
        for each in records
    ]


def check_changes(records: Sequence[Any]) -> None:
    """Raise TypeError or ValueError for the first that is no change."""
    for record in records:
        if not isinstance(record, Change):
            raise TypeError(
                f"a table got {type(record).__name__} {record!r:.80}, expected a Change"
                "\n\nhint: Change('+I', record) inserts a row, Change('-D', record) deletes it; "
                "or .latest() makes a table of records"
            )
        if record.kind not in KINDS:
            raise ValueError(
                f"a change has the kind {record.kind!r:.80}, expected one of "
                + ", ".join(map(repr, KINDS))
            )


def without_kinds(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The rows without the column of their kinds."""
    return batch.remove_column(batch.schema.get_field_index(KIND))


def with_kinds(batch: "pa.RecordBatch", kinds: Sequence[int]) -> "pa.RecordBatch":
    """The rows with a column of their kinds. ValueError if they have such a column."""
    import pyarrow as pa

    if KIND in batch.schema.names:
        raise ValueError(
            f"the rows of a table have a column {KIND!r}, which is that of a change's kind, "
            "expected other names\n\nhint: rename it in .map_batches(...) before .key_by(...)"
        )
    column = pa.array(KINDS).take(pa.array(list(kinds), pa.int8()))
    names = [*batch.schema.names, KIND]
    return pa.RecordBatch.from_arrays([*batch.columns, column], names)


def _of_column(batch: "pa.RecordBatch") -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column_of(batch, KIND)
    if column is None:
        raise TypeError(
            f"a table got columns ({', '.join(batch.schema.names)}), expected one named {KIND!r} "
            "among them\n\nhint: it tells of each row whether it is '+I', '-U', '+U' or '-D'; "
            "or .latest() makes a table of rows"
        )
    texts = column.cast(pa.string())
    numbers = pc.index_in(texts, value_set=pa.array(KINDS))
    if numbers.null_count:
        wrong = texts.filter(pc.is_null(numbers))[0].as_py()
        raise ValueError(
            f"the column {KIND!r} has {wrong!r:.80}, expected one of " + ", ".join(map(repr, KINDS))
        )
    found: bytes = numbers.cast(pa.int8()).to_numpy().tobytes()
    return found


_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
