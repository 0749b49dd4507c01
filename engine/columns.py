"""Record batches, as far as the engine knows them: PyArrow is imported only where it is used."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import is_not
from typing import TYPE_CHECKING, Any

from engine.errors import GraphError
from engine.installation.distribution import install_hint
from engine.network import columns_of_dicts, dicts_of_rows
from engine.record.column_values import array_of, as_type, check_nulls, field_of, in_microseconds

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.graph.failing import FailureContext


def is_columns(batch: object) -> bool:
    """Whether this is a `pyarrow.RecordBatch`; does not import PyArrow.

    >>> is_columns([1, 2])
    False
    """
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(batch, pyarrow.RecordBatch)


def column_of(batch: pa.RecordBatch, item: int | str) -> pa.Array | None:
    """The column of this name or index; None where there is none, or several of the name.

    PyArrow's own search by name takes four times as long.
    """
    at = batch.schema.get_field_index(item) if isinstance(item, str) else item
    return batch.column(at) if 0 <= at < batch.num_columns else None


def slices(batch: pa.RecordBatch, most_rows: int) -> list[pa.RecordBatch]:
    """The batch in slices of at most so many rows, in order and without a copy."""
    check_columns(batch)
    if batch.num_rows <= most_rows:
        return [batch]
    return [batch.slice(start, most_rows) for start in range(0, batch.num_rows, most_rows)]


def part(batch: Any, start: int, end: int | None = None) -> Any:
    """Records of a list, or rows of a batch, from one place to another, as a batch of its own."""
    if not is_columns(batch):
        return batch[start:end]
    return batch.slice(start, None if end is None else end - start)


def packed(batch: pa.RecordBatch) -> bytes:
    """The batch as bytes; of a slice its rows alone, where pickle takes all that it is cut from."""
    pyarrow = import_pyarrow("a stream of columns")
    if not batch.num_rows:  # of a list, all items would be written
        batch = without_rows(batch.schema)
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = stream.getvalue().to_pybytes()
    return data


def unpacked(data: bytes) -> pa.RecordBatch:
    """The batch that `packed` was given."""
    stream = import_pyarrow("a stream of columns").ipc.open_stream(data)
    batch: pa.RecordBatch = stream.read_next_batch()
    return batch


def as_columns(result: object) -> Any:
    """A RecordBatch as it is, a Table or a DataFrame as one RecordBatch, None for anything else.

    ValueError for what does not fit into one. Of pandas, an index that has a name is a column.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(result, pyarrow.RecordBatch | pyarrow.Table):
        return _of_frame(result)
    check_columns(result)
    if isinstance(result, pyarrow.RecordBatch):
        return result
    return joined(result.to_batches() or [without_rows(result.schema)])


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows, in order; ValueError where it cannot hold them.

    A column of no type, which has nulls alone, takes that of another batch.
    """
    if len(batches) == 1:
        return batches[0]
    pyarrow = import_pyarrow("a batch of columns")
    try:
        first, *others = (each.schema for each in batches)
        batches = [with_wide_codes(each) for each in batches]
        if any(each != first and each.names == first.names for each in others):
            whole = pyarrow.unify_schemas([each.schema for each in batches])
            batches = [each.cast(whole) for each in batches]
        batch: pa.RecordBatch = pyarrow.concat_batches(batches)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        count = sum(batch.num_rows for batch in batches)
        raise ValueError(
            f"{count} rows cannot be one RecordBatch: {error}\n\n"
            "hint: make smaller tables of one schema; a string or binary column of a batch holds "
            "2 GiB, a large_string or large_binary column any number of bytes"
        ) from None
    return batch


def without_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows, of columns of any types."""
    pyarrow = import_pyarrow("a batch of columns")
    nothing = [pyarrow.nulls(0, field.type) for field in schema]
    batch: pa.RecordBatch = pyarrow.RecordBatch.from_arrays(nothing, schema=schema)
    return batch


def with_wide_codes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with codes wide enough for several joined dictionaries; int8 has 128 values."""
    pyarrow = import_pyarrow("a batch of columns")
    for at, field in enumerate(batch.schema):
        kind = field.type
        if pyarrow.types.is_dictionary(kind) and kind.index_type.bit_width < _WIDE:
            codes = batch.column(at).indices.cast(pyarrow.int32())
            column = pyarrow.DictionaryArray.from_arrays(
                codes, batch.column(at).dictionary, ordered=kind.ordered
            )
            batch = batch.set_column(at, field.with_type(column.type), column)
    return batch


def columns_of(
    records: Sequence[Any], schema: pa.Schema | None = None, failing: FailureContext | None = None
) -> pa.RecordBatch:
    """A RecordBatch of dicts, with the schema's fields or else with all that any of them has.

    A value that a dict lacks is null. TypeError for what cannot be columns.
    """
    pyarrow = import_pyarrow("to_columns()")
    known: dict[str, pa.Array] = {}
    found = columns_of_dicts(records, schema)
    if found is None:
        names = _names_of(records, schema, failing)
    else:
        batch, names = found
        if schema is None and batch.num_columns == len(names):
            return batch
        known = dict(zip(batch.schema.names, batch.columns, strict=True))
    if schema is not None:
        arrays = [
            known[field.name] if field.name in known else _of_field(field, records, failing)
            for field in schema
        ]
        batch = pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
    elif names:
        arrays = [
            known[name]
            if name in known
            else _column(name, [record.get(name) for record in records], records, failing)
            for name in names
        ]
        batch = pyarrow.RecordBatch.from_arrays(arrays, list(names))
    else:
        raise TypeError(f"to_columns() got {len(records)} dicts without a field, expected one")
    check_columns(batch)
    return batch


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the schema's columns, by their names; one that it lacks is null.

    TypeError where a column does not hold what is in it.
    """
    pyarrow = import_pyarrow("to_columns()")
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        column = column_of(batch, field.name)
        try:
            if batch.schema.names.count(field.name) > 1:
                raise TypeError("there are several of the name")
            if column is None:
                column = pyarrow.nulls(len(batch), field.type)
            elif column.type != field.type:
                column = as_type(column, field.type)
            check_nulls(field, column)
        except TypeError as error:
            raise TypeError(
                f"column {field.name!r} cannot be {_told(field)}: {error}\n\n"
                "hint: cast it in .map_batches(...) before .to_columns(schema), or leave that out"
            ) from None
        arrays.append(column)
    found: pa.RecordBatch = pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
    return found


class Rows:
    """Dicts that are still columns: the rows of a RecordBatch, until somebody looks at one."""

    def __init__(self, columns: pa.RecordBatch) -> None:
        self.columns = columns

    @classmethod
    def of(cls, columns: pa.RecordBatch) -> Rows | list[dict[str, Any]]:
        """The rows of columns as they are, if their dicts can be made later without an error."""
        is_other = any(_plain_type(kind) is None for kind in columns.schema.types)
        if not len(columns) or _has_shared_names(columns) or is_other:
            return rows(columns)
        return cls(columns)

    def __len__(self) -> int:
        length: int = self.columns.num_rows
        return length

    def to_list(self) -> list[dict[str, Any]]:
        """The dicts."""
        return rows(self.columns)

    def to_columns(
        self, schema: pa.Schema | None = None, failing: FailureContext | None = None
    ) -> pa.RecordBatch:
        """As `columns_of` the dicts, and raises what that raises."""
        plain = _plain(self.columns)
        if plain is None or (schema is not None and plain.schema != schema):
            return columns_of(self.to_list(), schema, failing)
        return plain


def _has_shared_names(batch: pa.RecordBatch) -> bool:
    names = batch.schema.names
    return len(set(names)) < len(names)


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of a column of such values as Python's objects.

    None where they are no numbers, texts or bytes.
    """
    pyarrow = import_pyarrow("a stream of columns")
    types = pyarrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_null(kind) or types.is_boolean(kind):
        return kind
    if types.is_integer(kind):
        return pyarrow.int64()
    if types.is_floating(kind):
        return pyarrow.float64()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pyarrow.string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return pyarrow.binary()
    return None


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """The batch with the types of its values as Python's objects.

    None where `columns_of` has to look at them, and without a column.
    """
    pyarrow = import_pyarrow("a stream of columns")
    columns = []
    for column in batch.columns:
        kind = _plain_type(column.type)
        if kind is None:
            return None
        try:
            plain = column.cast(kind)
        except pyarrow.ArrowException:  # an integer of 64 bits without a sign
            return None
        is_null = plain.null_count == len(plain)
        columns.append(pyarrow.nulls(len(plain)) if is_null else plain)
    return pyarrow.RecordBatch.from_arrays(columns, batch.schema.names) if columns else None


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """A dict of each row; raises ValueError where two columns share a name."""
    names = batch.schema.names
    if _has_shared_names(batch):
        shared = ", ".join(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(
            f"the columns are {', '.join(names)}; a dict of a row would have {shared} once\n\n"
            "hint: batch.rename_columns([...]) in map_batches tells them apart"
        )
    given, columns = batch.columns, []
    for name, column in zip(names, given, strict=True):
        try:
            columns.append(in_microseconds(column))
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from None
    if any(map(is_not, columns, given)):
        batch = import_pyarrow("to_records()").RecordBatch.from_arrays(columns, names)
    found: list[dict[str, Any]] = dicts_of_rows(batch)
    return found


def lacks_columns(batch: Any) -> bool:
    """Whether it has rows and no column: PyArrow forgets them when they are cut or pickled."""
    return not batch.num_columns and batch.num_rows > 0


def check_columns(batch: pa.RecordBatch | pa.Table) -> None:
    """ValueError for rows without a column."""
    if lacks_columns(batch):
        raise ValueError(
            f"{batch.num_rows} rows without a column cannot travel, expected a column at least\n\n"
            "hint: keep one, whatever is in it"
        )


def import_pyarrow(what: str) -> Any:
    """The module `pyarrow`; `GraphError` where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise GraphError(
            f"{what} needs PyArrow, which is not installed", hint=install_hint("arrow")
        ) from None
    return pyarrow


def columns_among(records: Sequence[Any], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Columns of dicts, for an operator that has got columns before: of this schema, if known.

    TypeError for what cannot be columns, or does not fit among them.
    """
    try:
        found = columns_of(records)
        if schema is None or found.schema.names != schema.names:
            return found
        return columns_of(records, schema)
    except TypeError as error:
        raise TypeError(
            f"records came behind columns: {error}\n\n"
            "hint: call .to_records() on the columns before .key_by() or .union()"
        ) from None


def _names_of(
    records: Sequence[Any], schema: pa.Schema | None, failing: FailureContext | None
) -> Sequence[Any]:
    """The names of the columns; TypeError for a record that is no dict."""
    for record in records if set(map(type, records)) != {dict} else ():
        if not isinstance(record, Mapping):
            if failing is not None:
                failing.on(record)
            raise TypeError(f"to_columns() got {type(record).__name__}, expected a dict")
    if schema is not None:
        found: list[str] = schema.names
        return found
    names: dict[Any, None] = {}
    for record in records:
        if record.keys() != names.keys():
            names.update(dict.fromkeys(record))
    return list(names)


def _of_field(field: pa.Field, records: Sequence[Any], failing: FailureContext | None) -> pa.Array:
    """The values of the records, none of which becomes another."""
    values = [record.get(field.name) for record in records]
    try:
        return field_of(values, field)
    except TypeError:
        for record, value in zip(records, values, strict=True):
            _check(field, value, record, failing)
        raise


def _check(field: pa.Field, value: Any, record: Any, failing: FailureContext | None) -> None:
    try:
        field_of([value], field)
    except TypeError as error:
        if failing is not None:
            failing.on(record)
        raise TypeError(
            f"field {field.name!r} is {value!r:.80}, expected {_told(field)}: {error}\n\n"
            "hint: convert it in .map(...) first, or say another type in the schema"
        ) from None


def _told(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' and not null'}"


def _column(
    name: Any, values: list[Any], records: Sequence[Any], failing: FailureContext | None
) -> pa.Array:
    if not isinstance(name, str):
        raise TypeError(f"to_columns() got the field name {name!r:.80}, expected a str")
    try:
        return array_of(values)
    except TypeError as error:
        place = _first_misfit(values)
        if failing is not None:
            failing.on(records[place])
        raise TypeError(
            f"field {name!r} is {values[place]!r:.80}, expected a value that goes into a column "
            f"with those before: {error}\n\n"
            "hint: convert it in .map(...) first; to_columns(schema) says what types the columns "
            "have"
        ) from None


def _first_misfit(values: list[Any]) -> int:
    """The place of the first value that is no column together with those before."""
    first, last = 0, len(values) - 1
    while first < last:
        middle = (first + last) // 2
        try:
            array_of(values[: middle + 1])
            first = middle + 1
        except TypeError:
            last = middle
    return first


def _of_frame(value: object) -> Any:
    """A frame of pandas or Polars as a RecordBatch, None for anything else; imports neither."""
    package = type(value).__module__.partition(".")[0]
    if type(value).__name__ != "DataFrame" or package not in ("pandas", "polars"):
        return None
    frame: Any = value
    pyarrow = import_pyarrow("a DataFrame")
    if package == "polars":
        _check_values(frame)
        return as_columns(frame.to_arrow())
    named = any(name is not None for name in frame.index.names)
    batch = pyarrow.RecordBatch.from_pandas(frame, preserve_index=named)
    return as_columns(batch.replace_schema_metadata(None))


def _check_values(frame: Any) -> None:
    """TypeError where a column of Polars has objects: PyArrow would get their addresses."""
    for name, kind in frame.schema.items():
        if kind.is_object():
            raise TypeError(
                f"column {name!r} of the DataFrame has Python objects, expected values that a "
                "column holds\n\nhint: make numbers, texts or times of them, or return a list"
            )


_WIDE = 32
"""Bits of codes that are enough for the values of all dictionaries that are put together."""
