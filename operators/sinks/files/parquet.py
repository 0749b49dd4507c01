"""A sink that writes Parquet files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from engine.errors import GraphError
from engine.graph.context import TaskContext
from operators.sinks.files.column_files import ColumnContents, ColumnFiles
from operators.sinks.files.contents import Content, Contents, Layout
from operators.sinks.files.partition_by import PartitionBy
from operators.sinks.files.places import Draft
from operators.sinks.files.table import Schema

if TYPE_CHECKING:
    import pyarrow as pa


class ParquetSink(ColumnFiles):
    """Parquet files in a folder or at s3://bucket/prefix, `part-00000.parquet` and so on.

    It takes columns, and records: dicts, dataclasses, named tuples, pydantic models, and tuples,
    whose columns `schema` names. `schema` is one of PyArrow, a dict of names and types, or the
    names alone. What it does not say is inferred from the first batch of each task; a column that
    changes then is an error.

    Each task writes one file, and with checkpoints one for each epoch. Further files
    (`part-00000-c0001.parquet`) begin when one has `max_bytes` or is `max_seconds` old.
    `partition_by` names columns, or times by `ByTime`, for sub-folders such as `day=2026-11-25`;
    the values are not in the files then. Of its sub-folders, a task has `max_open_files` files open
    at once, and ends those it has not written for longest.

    A folder that has such files is refused; `replace=True` removes them once the job has succeeded,
    in a job without checkpoints. `row_group_rows` bounds the rows of a row group; a group ends
    earlier at 64 MiB, or at an eighth of `max_bytes`. `settings` go to PyArrow's `ParquetWriter`,
    such as use_dictionary, compression_level.
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
        compression: str = "snappy",
        row_group_rows: int = 1 << 17,
        **settings: Any,
    ) -> None:
        super().__init__(folder, schema, partition_by)
        self.layout = Layout(
            ".parquet",
            folders=self.by.pattern,
            replace=replace,
            max_bytes=max_bytes,
            max_seconds=max_seconds,
            max_open_files=max_open_files,
        )
        if row_group_rows < 1:
            raise GraphError(f"row_group_rows is {row_group_rows!r}, expected 1 at least")
        self.row_group_rows = row_group_rows
        self.settings = {"compression": compression, **settings}
        self._check_settings()

    def _check_settings(self) -> None:
        import pyarrow as pa

        try:
            self._writer(pa.BufferOutputStream(), pa.schema([("n", pa.int8())])).close()
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise GraphError(
                f"PyArrow's ParquetWriter refuses these settings: {error}",
                "see pyarrow.parquet.ParquetWriter for names and values",
            ) from None

    def _writer(self, file: Any, schema: pa.Schema) -> Any:
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(file, schema, **self.settings)

    def refusal(self, field: pa.Field) -> str | None:
        """PyArrow's own reason."""
        import pyarrow as pa

        try:
            self._writer(pa.BufferOutputStream(), pa.schema([field])).close()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            return f"Parquet does not have: {error}"
        return None

    def has_empty_files(self) -> bool:
        """Yes: readers learn the columns."""
        return True

    def contents(self, context: TaskContext) -> Contents:
        """Row groups, which share a bound of memory."""
        return _Contents(self, context)

    def begin(self, draft: Draft, contents: ColumnContents) -> Content:
        """A file of row groups."""
        assert isinstance(contents, _Contents)
        return _Parquet(self, draft, contents)


class _Contents(ColumnContents):
    """The files of a task: the row groups of all that are open fit into memory together."""

    def __init__(self, sink: ParquetSink, context: TaskContext) -> None:
        super().__init__(sink, context)
        self.open: dict[_Parquet, int] = {}
        """Bytes that wait in each open file."""

    def bound(self) -> None:
        """Write row groups, the largest first, until the others fit."""
        while sum(self.open.values()) > _MEMORY:
            max(self.open, key=self.open.__getitem__).flush()


class _Parquet(Content):
    """One file; its columns are compressed when a row group is complete."""

    def __init__(self, sink: ParquetSink, draft: Draft, contents: _Contents) -> None:
        self._sink, self._draft, self._contents = sink, draft, contents
        self._rows = 0
        self._batches: list[pa.RecordBatch] = []
        most = sink.layout.max_bytes
        self._group_bytes = _GROUP_BYTES if most is None else min(_GROUP_BYTES, 1 + most // 8)
        self._writer: Any = None
        self._file: Any = None
        contents.open[self] = 0

    def write(self, piece: pa.RecordBatch) -> None:
        self._batches.append(piece)
        self._rows += piece.num_rows
        waiting = self._contents.open
        waiting[self] += piece.nbytes
        if waiting[self] >= self._group_bytes or self._rows >= self._sink.row_group_rows:
            self.flush()
        elif len(waiting) > 1:
            self._contents.bound()

    def flush(self) -> None:
        """Write what waits as a row group."""
        import pyarrow as pa

        if self._writer is None:
            self._contents.table.is_fixed = True
            self._file = self._draft.again()
            self._writer = self._sink._writer(self._file, self._contents.schema)
        schema = self._contents.schema
        batches = [
            each if each.schema.equals(schema) else each.cast(schema) for each in self._batches
        ]
        self._writer.write_table(pa.Table.from_batches(batches, schema), self._sink.row_group_rows)
        self._file.flush()
        self._batches, self._rows = [], 0
        self._contents.open[self] = 0

    def close(self) -> None:
        try:
            if self._batches or self._writer is None:
                self.flush()
            self._writer.close()
        finally:
            self._contents.open.pop(self, None)
            if self._writer is not None:
                self._writer.is_open = False  # otherwise it would try again when it is dropped
                self._file.close()


_MEMORY = 128 << 20
"""Bytes of columns that wait in all open files of a task."""
_GROUP_BYTES = 64 << 20
