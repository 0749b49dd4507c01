"""A source of files with a JSON object per line as columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.columns import without_rows
from operators.sources.files.text import Rows, TextColumnFiles

if TYPE_CHECKING:
    import pyarrow as pa


class JsonFiles(TextColumnFiles):
    """The lines of JSON files, an object each, as columns: paths, folders or patterns, or `s3://…`.

    The types are those of `schema`, which leaves out other fields; else they are what the first
    lines of the first file show, and another field is an error. `columns` are those that are
    wanted, in that order. A field that an object lacks is null.

    Values in the names of folders, such as `day=2026-11-25`, are columns: texts, unless `schema` or
    `partition_columns={"day": "date32"}` says otherwise. `partition_columns={}` leaves them out.

    Files that end in `.gz` and `.zst` are unpacked on the way, each by one task; others are read by
    several, in parts of 64 MB. A job that goes on from a checkpoint reads lines that were added to
    files, too; one that was changed otherwise ends it with an error. `watch`: new files and lines
    are looked for every so many seconds, and the job does not end.

        source(JsonFiles("events/*.jsonl", columns=["user", "at"]))
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        schema: pa.Schema | Mapping[str, Any] | None = None,
        columns: Iterable[str] | None = None,
        *,
        watch: float | None = None,
        partition_columns: pa.Schema | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(paths, schema, columns, watch, partition_columns)

    def rows_of(
        self, stream: Any, path: str, schema: pa.Schema | None, in_folders: Sequence[str]
    ) -> Rows:
        """Each line is a row."""
        unexpected = "ignore" if self.leaves_out else "error"
        return _JsonRows(schema, "infer" if schema is None else unexpected, in_folders)


class _JsonRows(Rows):
    def __init__(
        self, schema: pa.Schema | None, unexpected: str, in_folders: Sequence[str]
    ) -> None:
        import pyarrow.json  # here, since most jobs read none

        self._arrow, self._schema, self._in_folders = pyarrow, schema, in_folders
        if in_folders:  # no object may have such a field
            none = [pyarrow.field(name, pyarrow.null()) for name in in_folders]
            schema = pyarrow.schema([*(schema or ()), *none])
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=unexpected
        )

    def ends(self, block: bytes) -> Sequence[int]:
        """Behind each line feed: a text has none."""
        return [found.end() for found in re.finditer(b"\n", block)]

    def last_end(self, block: bytes) -> int:
        """Behind the last one."""
        return block.rfind(b"\n") + 1

    def decode(self, block: bytes) -> pa.RecordBatch:
        """PyArrow reads the block, in this thread."""
        schema = self._schema or self._arrow.schema([])
        begin = block.lstrip()[:1]
        if not begin:
            return without_rows(schema)
        if begin != b"{":  # PyArrow does not survive some of these
            raise ValueError("expected an object in each line")
        options = self._arrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            table = self._arrow.json.read_json(
                self._arrow.BufferReader(block), options, self._options
            )
        except (self._arrow.ArrowInvalid, NotImplementedError) as error:
            told = _ROW.sub("", str(error))
            if self._in_folders and ("to null" in told or "from null" in told):
                told = (
                    f"a field has the name of a folder, {' or '.join(self._in_folders)}: "
                    "partition_columns={} takes the field"
                )
            raise ValueError(told) from None
        (batch,) = table.combine_chunks().to_batches()
        if self._schema is None:
            return batch
        return self._arrow.RecordBatch.from_arrays(batch.columns[: len(schema)], schema=schema)


_ROW = re.compile(r"^JSON parse error: | in row [0-9]+$")
