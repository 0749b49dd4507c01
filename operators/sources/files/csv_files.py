"""A source of CSV files as columns."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.columns import without_rows
from engine.errors import GraphError
from engine.network import DecodeError
from engine.record.column_values import check_nulls
from operators.sources.encodings import check_encoding
from operators.sources.files.partition_columns import check_in_files
from operators.sources.files.text import Rows, TextColumnFiles

if TYPE_CHECKING:
    import pyarrow as pa


class CsvFiles(TextColumnFiles):
    """The rows of CSV files as columns: paths, folders or glob patterns, on disk or `s3://…`.

    The types are those of `schema`, else what the first rows of the first file show; each column is
    found by its name in a file's header. Without a header, the names are those of the schema, else
    f0, f1 and so on. `columns` are those that are wanted, in that order. A field that is not quoted
    and one of `nulls` is null. A quote in a quoted field is written twice, and such a field may
    have line feeds.

    Values in the names of folders, such as `day=2026-11-25`, are columns: texts, unless `schema` or
    `partition_columns={"day": "date32"}` says otherwise. `partition_columns={}` leaves them out.

    Files that end in `.gz` and `.zst` are unpacked on the way. A file is read by one task; by
    several, in parts of 64 MB, if it is not packed and `newlines_in_values=False` says that no
    quoted field has a line feed. A job that goes on from a checkpoint reads rows that were added to
    files, too; one that was changed otherwise ends it with an error. `watch`: new files and rows
    are looked for every so many seconds, and the job does not end.

        source(CsvFiles("sales/*.csv.gz", columns=["city", "amount"]))
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        schema: pa.Schema | Mapping[str, Any] | None = None,
        columns: Iterable[str] | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        quote: str | None = '"',
        nulls: Iterable[str] = ("",),
        encoding: str = "utf-8",
        newlines_in_values: bool = True,
        watch: float | None = None,
        partition_columns: pa.Schema | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(paths, schema, columns, watch, partition_columns)
        for name, mark in (("delimiter", delimiter), ("quote", quote)):
            if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in "\r\n"):
                raise GraphError(f"{name} is {mark!r:.80}, expected one ASCII character")
        if delimiter == quote:
            raise GraphError(f"delimiter and quote are both {quote!r}, expected two characters")
        self.header = header
        self.delimiter = delimiter
        self.quote = quote
        check_encoding(encoding, "strict")
        self.encoding = encoding
        self.nulls = list(nulls)
        self.newlines_in_values = newlines_in_values
        if newlines_in_values:
            self.part_bytes = None

    def rows_of(
        self, stream: Any, path: str, schema: pa.Schema | None, in_folders: Sequence[str]
    ) -> Rows:
        """Rows with the columns that the file's header names."""
        return _CsvRows(self, stream, path, schema, in_folders)


class _CsvRows(Rows):
    def __init__(
        self,
        source: CsvFiles,
        stream: Any,
        path: str,
        schema: pa.Schema | None,
        in_folders: Sequence[str],
    ) -> None:
        self._delimiter, self._quote = source.delimiter.encode(), (source.quote or "").encode()
        begin, first = self._first_row(stream)
        fields = _fields(first, source, path)
        self.start = begin + len(first) if source.header else begin
        if source.header:
            names = fields
        elif source.given is not None:
            names = source.given.names
        else:
            names = [f"f{number}" for number in range(len(fields))]
        if first:
            check_in_files(names, in_folders, path)
            _check_names(names, source, path, schema)
        self._names, self._schema = names, schema
        self._has_newlines = source.newlines_in_values
        import pyarrow.csv  # here, since most jobs read none

        self._arrow, self._read = pyarrow, pyarrow.csv.read_csv
        self._options = {
            "parse_options": pyarrow.csv.ParseOptions(
                delimiter=source.delimiter,
                quote_char=source.quote or False,
                newlines_in_values=True,
            ),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types={}
                if schema is None
                else dict(zip(schema.names, schema.types, strict=True)),
                null_values=source.nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=None if schema is None else schema.names,
            ),
        }
        self._read_options = {
            "use_threads": False,
            "column_names": names,
            "encoding": source.encoding,
        }

    def ends(self, block: bytes) -> Sequence[int]:
        """Behind each line end that is not inside of quotes."""
        import numpy as np  # here, since most jobs need none

        feed = b"\n" if b"\n" in block else b"\r"
        feeds = np.flatnonzero(np.frombuffer(block, np.uint8) == feed[0])
        if self._quote and self._quote in block:
            if (quotes := self._quotes(block)) is None:
                return self._ends_one_by_one(block, feed)
            feeds = feeds[np.searchsorted(quotes, feeds) % 2 == 0]
        return list((feeds + 1).tolist())

    def _quotes(self, block: bytes) -> Any:
        """Where quotes are; None, if some of them may be in fields that are not quoted."""
        import numpy as np

        data = np.frombuffer(block, np.uint8)
        quotes = np.flatnonzero(data == self._quote[0])
        opening = quotes[::2]
        begins_field = np.zeros(256, bool)
        begins_field[[*self._delimiter, *b"\r\n", *self._quote]] = True
        fine = begins_field[data[opening - 1]]
        return quotes if np.all(fine | (opening == 0)) else None

    def _ends_one_by_one(self, block: bytes, feed: bytes) -> list[int]:
        """The same for a block that has quotes inside of fields that are not quoted."""
        ends: list[int] = []
        quote, at = self._quote, 0
        stop = re.compile(b"[" + re.escape(self._delimiter) + feed + b"]")
        while at < len(block):
            if block[at : at + 1] == quote:
                at += 1
                while (at := block.find(quote, at)) >= 0 and block[at + 1 : at + 2] == quote:
                    at += 2
                if at < 0:
                    break
            found = stop.search(block, at)
            if found is None:
                break
            at = found.end()
            if found[0] == feed:
                ends.append(at)
        return ends

    def last_end(self, block: bytes) -> int:
        """Fast where the last line feed is not inside of quotes."""
        last = block.rfind(b"\n")
        if last >= 0:
            if not self._has_newlines or not self._quote or self._quote not in block:
                return last + 1
            quotes = self._quotes(block)
            if quotes is not None and quotes.searchsorted(last) % 2 == 0:
                return last + 1
        ends = self.ends(block)
        return ends[-1] if ends else 0

    def decode(self, block: bytes) -> pa.RecordBatch:
        """PyArrow reads the block, in this thread."""
        may_be_wrong = not self._has_newlines and self._quote and self._quote in block
        if may_be_wrong and len(self.ends(block)) < block.count(b"\n"):
            raise ValueError("a quoted field has a line feed, despite newlines_in_values=False")
        read_options = self._arrow.csv.ReadOptions(block_size=len(block) + 1, **self._read_options)
        try:
            table = self._read(
                self._arrow.BufferReader(block), read_options=read_options, **self._options
            )
        except (self._arrow.ArrowInvalid, NotImplementedError, KeyError) as error:
            if not block.strip():
                return self._without_rows()
            raise ValueError(_told(str(error), self._names)) from None
        batches = table.combine_chunks().to_batches()
        if self._schema is None:
            return batches[0] if batches else self._without_rows()
        if not batches:
            return self._without_rows()
        try:
            for field, column in zip(self._schema, batches[0].columns, strict=True):
                check_nulls(field, column)
        except TypeError as error:
            raise ValueError(f"column {field.name!r}: {error}") from None
        return self._arrow.RecordBatch.from_arrays(batches[0].columns, schema=self._schema)

    def _without_rows(self) -> pa.RecordBatch:
        return without_rows(self._schema or self._arrow.schema([]))

    def _first_row(self, stream: Any) -> tuple[int, bytes]:
        """The first row that is not empty, and its offset; an empty one, and the end, for none."""
        block = b""
        while True:
            more = bytes(stream.read(max(_HEADER_BYTES, len(block))))
            block += more
            begin = len(_BYTE_ORDER_MARK) if block.startswith(_BYTE_ORDER_MARK) else 0
            ends = [*self.ends(block[begin:])] if block else []
            if not more:
                ends.append(len(block) - begin)
            for before, end in zip([0, *ends], ends, strict=False):
                row = block[begin + before : begin + end]
                if row.strip():
                    return begin + before, row
            if not more:
                return len(block), b""


def _fields(row: bytes, source: CsvFiles, path: str) -> list[str]:
    try:
        text = io.StringIO(row.decode(source.encoding), newline="")
        rows = csv.reader(
            text,
            delimiter=source.delimiter,
            quotechar=source.quote,
            quoting=csv.QUOTE_MINIMAL if source.quote else csv.QUOTE_NONE,
        )
        return next(rows, [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DecodeError(f"{path}: its first row cannot be read: {error}") from None


def _check_names(names: list[str], source: CsvFiles, path: str, schema: pa.Schema | None) -> None:
    """Raise GraphError unless the file has the columns, each once, and no others but known ones."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise GraphError(f"{path} has several columns {twice[0]!r}, expected names that differ")
    if schema is None:
        return
    for name in schema.names:
        if name not in names:
            raise GraphError(
                f"{path} has no column {name!r}: it has {', '.join(map(repr, names[:20]))}",
                hint="columns=[...] says which are wanted",
            )
    source.check_no_more(names, path)


def _told(error: str, names: list[str]) -> str:
    """PyArrow's words, with the name of the column for its number, and without that of the row."""
    error = _ROW.sub("", error)
    return _COLUMN.sub(lambda found: f"column {names[int(found[1])]!r}: ", error)


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEADER_BYTES = 1 << 14
_ROW = re.compile(r"(CSV parse error: )?Row #[0-9]+: ")
_COLUMN = re.compile(r"In CSV column #([0-9]+): (CSV )?")
