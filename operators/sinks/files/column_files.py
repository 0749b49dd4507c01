"""The common part of sinks that write columns into files: Parquet and CSV."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from engine.columns import import_pyarrow
from engine.errors import GraphError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from operators.formats.schema import schema_of
from operators.sinks.files.contents import Content, Contents
from operators.sinks.files.file_sink import KEPT, FileSink
from operators.sinks.files.partition_by import Folders, PartitionBy
from operators.sinks.files.places import Draft
from operators.sinks.files.table import Schema, Table

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnFiles(FileSink):
    """Files of one schema, in sub-folders by the values of columns."""

    properties = Properties(accepts_columns=True, meaning=KEPT)

    def __init__(
        self,
        folder: str | os.PathLike[str],
        schema: Schema,
        partition_by: PartitionBy,
    ) -> None:
        super().__init__(folder)
        import_pyarrow(self.name)
        if isinstance(schema, Mapping):
            schema = schema_of(self.name, schema)
        names = list(getattr(schema, "names", schema) or ())
        self.schema = schema if schema is None or _is_schema(schema) else tuple(names)
        if isinstance(schema, str) or len(set(names)) < len(names):
            raise GraphError(
                f"schema is {schema!r}, expected a pyarrow.Schema or a list of names, each once"
            )
        self.by = Folders(partition_by)

    @property
    def name(self) -> str:
        """The name of the sink in messages."""
        return type(self).__name__

    def validate(self) -> None:
        """Make the folder; `GraphError` also for a schema that files cannot have."""
        if _is_schema(self.schema):
            try:
                self.check(self.schema)
            except TypeError as error:
                raise GraphError(f"{self.name}: {error}") from None
        super().validate()

    def check(self, schema: pa.Schema) -> None:
        """Raise TypeError, which names a column, for what files cannot hold."""
        self.by.check(schema)
        for field in self.by.kept(schema):
            if (reason := self.refusal(field)) is not None:
                raise TypeError(
                    f"column {field.name!r} is of {field.type}, which {reason}\n\n"
                    "hint: cast it in .map_batches(...), or leave it out"
                )

    @abstractmethod
    def refusal(self, field: pa.Field, /) -> str | None:
        """Why files cannot have such a column; None where they can."""

    @abstractmethod
    def has_empty_files(self) -> bool:
        """Whether a task without records writes a file, if its schema is known."""

    @abstractmethod
    def begin(self, draft: Draft, contents: ColumnContents, /) -> Content:
        """The content of a new file."""

    def contents(self, context: TaskContext) -> Contents:
        """Columns, in sub-folders."""
        return ColumnContents(self, context)


class ColumnContents(Contents):
    """What a task writes: pieces are record batches."""

    def __init__(self, sink: ColumnFiles, context: TaskContext) -> None:
        self._sink = sink
        self._failing = context.failing
        self.table = Table(sink.name, sink.schema, context.failing)
        self._checked: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of files, as far as it is known now."""
        schema = self.table.schema
        assert schema is not None, "a file begins with its first batch"
        return self._sink.by.kept(schema)

    @property
    def begins_empty(self) -> bool:
        """An empty file has a schema, so that must be known."""
        is_known = self.table.schema is not None and not self._sink.layout.folders
        return is_known and self._sink.has_empty_files()

    def split(self, records: Any) -> Iterable[tuple[str, pa.RecordBatch]]:
        """Columns of the batch, in the schema of all."""
        batch = self.table.of(records)
        if self._checked is None or not self._checked.equals(batch.schema):
            self._sink.check(batch.schema)
            self._checked = batch.schema
        return self._sink.by.split(batch)

    def begin(self, draft: Draft) -> Content:
        """A file of the sink's format."""
        return self._sink.begin(draft, self)


def _is_schema(schema: Any) -> bool:
    return isinstance(schema, import_pyarrow("a schema").Schema)
