"""Records as columns of one schema, for sinks of files that have one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.columns import column_of, import_pyarrow, is_columns
from engine.graph.failing import FailureContext
from engine.record.column_values import array_of, as_type, check_nulls, field_of

if TYPE_CHECKING:
    import pyarrow as pa

Schema: TypeAlias = "pa.Schema | Mapping[str, Any] | Sequence[str] | None"
"""The schema of a sink's files, also as a dict, or the names of their columns; None: all is
inferred."""


class Table:
    """Makes columns of batches: of one schema, which is given, or else that of the first batch.

    A column of which there are only nulls gets its type from the first batch with more, unless
    `is_fixed` is set before. TypeError for whatever does not fit; it names the column.
    """

    def __init__(
        self, sink: str, schema: pa.Schema | Sequence[str] | None, failing: FailureContext
    ) -> None:
        """`sink` is its name in messages."""
        pyarrow = import_pyarrow(sink)
        self._sink, self._failing = sink, failing
        self._is_given = isinstance(schema, pyarrow.Schema)
        self.schema: pa.Schema | None = None
        self._names: list[str] | None = None
        if isinstance(schema, pyarrow.Schema):
            self.schema = schema
        elif schema is not None:
            self._names = list(schema)
        self.is_fixed = False

    @property
    def names(self) -> list[str] | None:
        """The names of the columns, as far as they are known."""
        return self._names if self.schema is None else self.schema.names

    def of(self, records: Any) -> pa.RecordBatch:
        """The batch, with the schema's columns in its order."""
        if is_columns(records):
            return self._fitted(records)
        kinds = set(map(type, records))
        known = _names_of(next(iter(kinds))) if len(kinds) == 1 else None
        if kinds == {tuple}:
            return self._of_tuples(records)
        if known is not None:
            return self._of_values(
                known, list(zip(*map(_values(known), records), strict=True)), records
            )
        dicts = records if kinds == {dict} else list(map(self._as_dict, records))
        names = list(self.names or dict.fromkeys(name for each in dicts for name in each))
        allowed = set(names)
        for record, each in zip(records, dicts, strict=True):
            if not each.keys() <= allowed:
                self._failing.on(record)
                self._refuse_names([*each], names, "a record")
        return self._of_values(names, [[each.get(name) for each in dicts] for name in names], dicts)

    def _of_tuples(self, records: list[tuple[Any, ...]]) -> pa.RecordBatch:
        names = self.names
        if names is None:
            self._failing.on(records[0])
            raise TypeError(
                f"{self._sink} got a tuple of {len(records[0])}, whose columns have no names\n\n"
                f'hint: {self._sink}(folder, schema=["key", "value"]) names them; a schema of '
                "PyArrow also says their types"
            )
        for record in records:
            if len(record) != len(names):
                self._failing.on(record)
                raise TypeError(
                    f"{self._sink} got a tuple of {len(record)}, expected {len(names)}: "
                    f"{', '.join(names)}"
                )
        return self._of_values(names, list(zip(*records, strict=True)), records)

    def _as_dict(self, record: Any) -> dict[str, Any]:
        if isinstance(record, dict):
            return record
        names = _names_of(type(record))
        if names is None and type(record) is tuple and len(record) == len(self.names or ()):
            names = self.names
            return dict(zip(names or (), record, strict=True))
        if names is None:
            self._failing.on(record)
            raise TypeError(
                f"{self._sink} got {type(record).__name__}, expected a dict, a tuple, a dataclass, "
                "or columns\n\nhint: .map(lambda record: {'value': record}) names its column"
            )
        return dict(zip(names, _values(names)(record), strict=True))

    def _of_values(
        self, names: Sequence[str], values: Sequence[Sequence[Any]], records: Sequence[Any]
    ) -> pa.RecordBatch:
        """A batch of these columns; a column of the schema that is not among them is null."""
        pyarrow = import_pyarrow(self._sink)
        known, expected = self.schema, self.names
        if expected is None:
            self._check_names(names)
            expected = list(names)
        elif not set(names) <= set(expected):
            self._failing.on(records[0])
            self._refuse_names(names, expected, "a record")
        given = dict(zip(names, values, strict=True))
        missing = [None] * len(records)
        arrays = [
            self._array(None if known is None else known.field(name), name, column, records)
            for name in expected
            for column in [given.get(name, missing)]
        ]
        batch: pa.RecordBatch = pyarrow.RecordBatch.from_arrays(arrays, expected)
        if known is None:
            self.schema = batch.schema
            return batch
        if self._has_unknown(known):
            self._learn(batch.schema)
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(
        self, field: pa.Field | None, name: str, values: Sequence[Any], records: Sequence[Any]
    ) -> pa.Array:
        """A column of values; of a field of the schema, or of the type that they have."""
        pyarrow = import_pyarrow(self._sink)
        unknown = field is None or (not self._is_given and pyarrow.types.is_null(field.type))

        def made(some: Sequence[Any]) -> pa.Array:
            return array_of(some) if unknown else field_of(some, field)

        try:
            return made(values)
        except TypeError as error:
            at = _first_failing(made, values)
            self._failing.on(records[at])
            kind = "a value like those before" if unknown else str(field and field.type)
            raise TypeError(
                f"column {name!r} is {values[at]!r:.80}, expected {kind}: {error}\n\n"
                f"hint: convert it in .map(...) first, or give {self._sink} another schema="
            ) from None

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Columns in the schema's types and order."""
        pyarrow = import_pyarrow(self._sink)
        names = batch.schema.names
        if self.schema is None:
            self._check_names(names)
            if self._names is not None and sorted(names) != sorted(self._names):
                self._refuse_names(names, self._names, "a batch")
            self.schema = batch.schema
        known = self.schema
        if batch.schema.equals(known):
            return batch
        if sorted(names) != sorted(known.names):
            self._refuse_names(names, known.names, "a batch")
        if self._has_unknown(known):
            now = [
                batch.schema.field(each.name) if pyarrow.types.is_null(each.type) else each
                for each in known
            ]
            self._learn(pyarrow.schema(now))
            known = self.schema
        arrays = [self._column(field, column_of(batch, field.name)) for field in known]
        found: pa.RecordBatch = pyarrow.RecordBatch.from_arrays(arrays, schema=known)
        return found

    def _column(self, field: pa.Field, column: Any) -> pa.Array:
        pyarrow = import_pyarrow(self._sink)
        found = column.type
        try:
            if found != field.type:
                is_alike = _plain(found) == _plain(field.type) or pyarrow.types.is_null(found)
                if not (self._is_given or is_alike):
                    raise TypeError("batches before have another type")
                column = as_type(column, field.type)
            check_nulls(field, column)
        except TypeError as error:
            raise TypeError(
                f"column {field.name!r} is {found}, expected {field.type}"
                f"{'' if field.nullable else ' and not null'}: {error}\n\n"
                f"hint: cast it in .map_batches(...), or give {self._sink} a schema="
            ) from None
        return column

    def _has_unknown(self, schema: pa.Schema) -> bool:
        """Whether a column has had only nulls so far."""
        is_null = import_pyarrow(self._sink).types.is_null
        return not self._is_given and any(is_null(each.type) for each in schema)

    def _learn(self, schema: pa.Schema) -> None:
        """Take the types of columns that had only nulls."""
        assert self.schema is not None
        for before, now in zip(self.schema, schema, strict=True):
            if self.is_fixed and before.type != now.type:
                raise TypeError(
                    f"column {now.name!r} is {now.type}, and files are written in which it has "
                    f"only nulls and no type, expected the same in all\n\nhint: give {self._sink} "
                    "a schema="
                )
        self.schema = schema

    def _check_names(self, names: Sequence[Any]) -> None:
        for name in names:
            if not isinstance(name, str) or list(names).count(name) > 1:
                raise TypeError(
                    f"{self._sink} got the column names {', '.join(map(repr, names))}, expected "
                    "texts, each once"
                )
        if not names:
            raise TypeError(f"{self._sink} got records without a column, expected one at least")

    def _refuse_names(self, names: Sequence[Any], expected: Sequence[str], what: str) -> None:
        new = [repr(name) for name in names if name not in expected]
        gone = [repr(name) for name in expected if name not in names]
        told = [f"{' and '.join(new)} more"] if new else []
        told += [f"no {' and '.join(gone)}"] if gone and what == "a batch" else []
        raise TypeError(
            f"{self._sink} got {what} with {', '.join(told)}, expected the columns "
            f"{', '.join(map(repr, expected))}\n\n"
            f"hint: give {self._sink} a schema= with all columns, or leave others out in front"
        )


def _names_of(kind: type) -> list[str] | None:
    """The names of the columns of dataclasses, named tuples and pydantic models."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return list(kind._fields)
    if isinstance(found := getattr(kind, "model_fields", None), dict):
        return list(found)
    return None


def _values(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """The function that gives a record's values, in a tuple."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


def _first_failing(made: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> int:
    """The least index up to which, included, the values fail; all of them together do."""

    def fails(at: int) -> bool:
        try:
            made(values[: at + 1])
        except TypeError:
            return True
        return False

    return bisect_left(range(len(values) - 1), True, key=fails)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without what only says how values are stored: dictionaries, wide offsets."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind
