"""Text files whose rows are columns: blocks of whole rows, unpacked on the way, with their places.

A row belongs to the part in which it begins. A position is the offset of the next row in the
unpacked file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.columns import import_pyarrow
from engine.graph.partitions import Partition
from engine.network import DecodeError
from operators.sources.files.parts import FilePart
from operators.sources.files.source import ColumnFiles, FileReader
from operators.sources.files.stores import Store
from operators.sources.layout import Piece
from operators.sources.lines import line_start
from operators.sources.unpacked import Unpacked

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(ABC):
    """How the bytes of one file become rows."""

    start = 0
    """The offset of the first row."""

    @abstractmethod
    def ends(self, block: bytes) -> Sequence[int]:
        """The offsets behind the rows that end in a block, which begins with a row."""

    @abstractmethod
    def last_end(self, block: bytes) -> int:
        """The last of these, 0 where there is none."""

    @abstractmethod
    def decode(self, block: bytes) -> pa.RecordBatch:
        """The columns of whole rows; ValueError, in words for people, for wrong ones."""


class TextColumnFiles(ColumnFiles):
    """Text files whose rows are columns."""

    grows = True
    part_bytes: int | None = 64 << 20

    @abstractmethod
    def rows_of(
        self, stream: Any, path: str, schema: pa.Schema | None, in_folders: Sequence[str]
    ) -> Rows:
        """How a file's rows are read; its stream is at its start.

        None: their types are shown. Columns that are in the names of folders are not in files.
        """

    def schema_of(self, file: Piece, store: Store) -> pa.Schema | None:
        """The types of the first rows; a column without a value there is text."""
        text = TextPart(self, FilePart(file, 0, 0, file.end), None, store, None)
        try:
            batch = text.poll(1)
        finally:
            text.close()
        if batch is None:
            return None
        pyarrow = import_pyarrow(self._name)
        return pyarrow.schema(
            field.with_type(pyarrow.string()) if pyarrow.types.is_null(field.type) else field
            for field in batch.schema
        )

    def open_part(self, part: FilePart, position: Any, reader: FileReader) -> Partition:
        """The rows that begin in the part."""
        return TextPart(self, part, position, reader.store(part.file), self.schema)


class TextPart(Partition):
    """The rows that begin in a part of a file."""

    def __init__(
        self,
        source: TextColumnFiles,
        part: FilePart,
        position: Any,
        store: Store,
        schema: pa.Schema | None,
    ) -> None:
        self._part, self._store, self._schema = part, store, schema
        self._values = source.values_of(part.file.path) if schema is not None else {}
        self._stream = _opened(part.file, store)
        try:
            self._rows = source.rows_of(self._stream, part.file.path, *self._in_file_and_folders())
            begin, self._end = part.begin, part.end
            if not part.file.is_packed:
                begin, self._end = (
                    line_start(self._stream, at, part.file.end, (b"\n",)) for at in part[2:]
                )
            self._at = max(begin, self._rows.start) if position is None else position
            self._stream.seek(self._at)
        except BaseException:
            self._stream.close()
            raise
        self._rest = b""

    def poll(self, limit: int) -> pa.RecordBatch | None:
        """The rows of the next block that has any."""
        while block := self._block():
            batch = self._whole(self._decoded(block))
            self._at += len(block)
            if batch.num_rows:
                return batch
        return None

    @property
    def position(self) -> int:
        """The offset of the next row."""
        return self._at

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _in_file_and_folders(self) -> tuple[pa.Schema | None, list[str]]:
        """The columns in the file itself, or None if any will do, and the others."""
        if self._schema is None:
            return None, []
        fields = [field for field in self._schema if field.name not in self._values]
        others = [name for name in self._schema.names if name in self._values]
        return import_pyarrow("a file of columns").schema(fields) if fields else None, others

    def _whole(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns that the folders have."""
        if self._schema is None or not self._values:
            return rows
        pyarrow = import_pyarrow("a file of columns")
        columns = [
            pyarrow.repeat(self._values[name], len(rows))
            if name in self._values
            else rows.column(name)
            for name in self._schema.names
        ]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _block(self) -> bytes:
        """The next whole rows; none at the end."""
        file, size = self._part.file, _BLOCK_BYTES
        while True:
            left = size
            if not file.is_packed:
                left = max(0, self._end - self._at - len(self._rest))
            try:
                more = self._stream.read(min(size, left))
            except OSError as error:
                if not file.is_packed:
                    raise
                raise OSError(f"{file.path} cannot be unpacked: {error}") from error
            if not more:
                if left and not file.is_packed:
                    raise OSError(
                        f"{file.path} has {self._end - left:,} bytes, expected {file.end:,} as "
                        "when it was found"
                    )
                block, self._rest = self._rest, b""
                if block and self._rows.last_end(block + b"\n") <= len(block):
                    raise DecodeError(f"{self._place(0)}: the row has no end: {_shown(block)}")
                return block
            block = self._rest + bytes(more)
            end = self._rows.last_end(block)
            if end:
                self._rest = block[end:]
                return block[:end]
            self._rest = block
            size *= 2

    def _decoded(self, block: bytes) -> pa.RecordBatch:
        """The columns of a block; DecodeError names the line that is wrong."""
        try:
            return self._rows.decode(block)
        except ValueError:
            ends = [*self._rows.ends(block)]
            if not ends or ends[-1] < len(block):
                ends.append(len(block))
            others = ends[:-1]  # all rows together are wrong
            wrong = bisect_left(others, True, key=lambda end: self._error(block[:end]) is not None)
            begin = ends[wrong - 1] if wrong else 0
            row = block[begin : ends[wrong]]
            error = self._error(row) or self._error(block)
            raise DecodeError(f"{self._place(begin)}: {error}: {_shown(row)}") from None

    def _error(self, rows: bytes) -> ValueError | None:
        try:
            self._rows.decode(rows)
        except ValueError as error:
            return error
        return None

    def _place(self, begin: int) -> str:
        """The file and the line of a place in the current block, for people."""
        line, left = 1, self._at + begin
        with _opened(self._part.file, self._store) as stream:
            while left > 0 and (block := bytes(stream.read(min(left, _BLOCK_BYTES)))):
                line += block.count(b"\n")
                left -= len(block)
        return f"{self._part.file.path}, line {line:,}"


def _opened(file: Piece, store: Store) -> Any:
    """The unpacked bytes of a file."""
    opened = partial(store.open, file)
    return opened() if file.codec is None else Unpacked(opened, file.codec)


def _shown(row: bytes) -> str:
    text = row[:_SHOWN_BYTES].rstrip(b"\r\n").decode(errors="replace")
    return repr(text) + ("…" if len(row) > _SHOWN_BYTES else "")


_BLOCK_BYTES = 1 << 20
_SHOWN_BYTES = 80
