"""A sink that writes CSV files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from engine.errors import GraphError
from operators.sinks.files.column_files import ColumnContents, ColumnFiles
from operators.sinks.files.contents import Content, Layout
from operators.sinks.files.partition_by import PartitionBy
from operators.sinks.files.places import Draft
from operators.sinks.files.table import Schema

if TYPE_CHECKING:
    import pyarrow as pa


class CsvSink(ColumnFiles):
    """CSV files in a folder or at s3://bucket/prefix, `part-00000.csv` and so on.

    Texts are in quotes, null is an empty field, times are as ISO 8601 writes them. `compression` is
    "gzip" or "zstd". Nested columns and bytes are refused; `JsonLines` and `ParquetSink` take
    nested ones. Everything else is as in `ParquetSink`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        schema: Schema = None,
        *,
        partition_by: PartitionBy = (),
        max_bytes: int | None = None,
        max_seconds: float | None = None,
        max_open_files: int = 64,
        replace: bool = False,
        compression: Literal["gzip", "zstd"] | None = None,
        header: bool = True,
        delimiter: str = ",",
    ) -> None:
        super().__init__(folder, schema, partition_by)
        if compression not in _ENDS:
            raise GraphError(f"compression is {compression!r}, expected gzip, zstd or None")
        if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
            raise GraphError(f"delimiter is {delimiter!r}, expected one character, no quote")
        self.layout = Layout(
            ".csv",
            _ENDS[compression],
            folders=self.by.pattern,
            replace=replace,
            max_bytes=max_bytes,
            max_seconds=max_seconds,
            max_open_files=max_open_files,
        )
        self.compression, self.header, self.delimiter = compression, header, delimiter

    def refusal(self, field: pa.Field) -> str | None:
        """Whatever has no text of its own."""
        import pyarrow as pa
        import pyarrow.csv

        try:
            none = pa.RecordBatch.from_arrays([pa.nulls(0, _as_written(field.type))], ["n"])
            pa.csv.write_csv(none, pa.BufferOutputStream())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            return f"CSV does not have: {error}"
        return "CSV does not have: it is text" if _is_bytes(field.type) else None

    def has_empty_files(self) -> bool:
        """No: of a file that is a header alone, readers would infer columns of nulls."""
        return False

    def begin(self, draft: Draft, contents: ColumnContents) -> Content:
        """A file of lines."""
        return _Csv(self, draft, contents)


class _Csv(Content):
    """One file; each batch is written at once."""

    def __init__(self, sink: CsvSink, draft: Draft, contents: ColumnContents) -> None:
        import pyarrow as pa
        from pyarrow.csv import WriteOptions

        self._options = WriteOptions(include_header=False, delimiter=sink.delimiter)
        self._file = draft.again()
        self._stream: Any = pa.PythonFile(self._file, "w")
        if sink.compression is not None:
            self._stream = pa.CompressedOutputStream(self._stream, sink.compression)
        if sink.header:
            names = (f'"{name.replace(_QUOTE, _QUOTE * 2)}"' for name in contents.schema.names)
            self._stream.write(sink.delimiter.join(names).encode() + b"\n")

    def write(self, piece: pa.RecordBatch) -> None:
        import pyarrow as pa
        from pyarrow.csv import write_csv

        if piece.num_columns == 1 and piece.column(0).null_count:
            raise TypeError(
                f"column {piece.schema.names[0]!r} is null, and is the only one of its file: many "
                "readers skip its empty line, expected a value\n\n"
                "hint: write another column beside it, or filter nulls"
            )
        kinds = [field.with_type(_as_written(field.type)) for field in piece.schema]
        write_csv(piece.cast(pa.schema(kinds)), self._stream, self._options)
        self._file.flush()  # so that the draft's size is right

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._file.close()


def _as_written(kind: pa.DataType) -> pa.DataType:
    """The type that PyArrow writes with the same text."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _as_written(kind.value_type)
    if pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return pa.string()
    return kind


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_a = pa.types
    tests = (is_a.is_binary, is_a.is_large_binary, is_a.is_binary_view, is_a.is_fixed_size_binary)
    return any(test(_as_written(kind)) for test in tests)


_ENDS = {None: "", "gzip": ".gz", "zstd": ".zst"}
_QUOTE = '"'
