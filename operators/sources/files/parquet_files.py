"""A source of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engine.columns import import_pyarrow, without_rows
from engine.errors import GraphError
from engine.graph.partitions import Partition
from operators.sources.files.partition_columns import check_in_files, guarantee, may_have
from operators.sources.files.parts import FilePart
from operators.sources.files.source import ColumnFiles, FileReader
from operators.sources.files.stores import Store
from operators.sources.layout import Piece

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq


class ParquetFiles(ColumnFiles):
    """The rows of Parquet files: paths, folders or glob patterns, on disk or `s3://…`.

    The columns are those of `schema`, else of the first file; a file may have them in another
    order, and narrower numbers. A column of `schema` that a file lacks is null, and texts are read
    as a dictionary where it says so, which is faster where they repeat. `columns` are those
    that are wanted, in that order: no other is read. `where` is an expression of
    `pyarrow.compute`: rows for which it is false or null are left out, and of row groups whose
    statistics exclude it nothing is read, nor of folders whose values do.

    Values in the names of folders, such as `day=2026-11-25`, are columns: texts, unless `schema` or
    `partition_columns={"day": "date32"}` says otherwise. `partition_columns={}` leaves them out.

    Large files are read by several tasks, in parts of some 64 MB that begin with a row group. A job
    that goes on from a checkpoint ends with an error if a file was changed that it has read.
    `watch`: new files are looked for every so many seconds, and the job does not end.

        source(ParquetFiles("s3://lake/sales/*.parquet", where=pc.field("amount") > 100))
    """

    part_bytes = 64 << 20

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        schema: pa.Schema | Mapping[str, Any] | None = None,
        columns: Iterable[str] | None = None,
        where: pc.Expression | None = None,
        *,
        watch: float | None = None,
        partition_columns: pa.Schema | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(paths, schema, columns, watch, partition_columns)
        self.where = where
        self.read: list[str] = []
        """The columns that are read: those that come out, and those of `where`."""

    def schema_of(self, file: Piece, store: Store) -> pa.Schema:
        """The schema in the file's footer."""
        with store.open(file) as opened:
            schema: pa.Schema = _parquet(opened, file.path).schema_arrow
        return schema.remove_metadata()

    def chosen(self, schema: pa.Schema) -> pa.Schema:
        """The columns that come out; also settles which are read for `where`."""
        chosen = super().chosen(schema)
        self.read = chosen.names
        if self.where is not None:
            nothing, told = without_rows(schema), str(self.where)
            _filtered(nothing, self.where)
            more = [name for name in schema.names if name not in self.read and name in told]
            if not _is_enough(nothing.select(self.read + more), self.where):
                more = [name for name in schema.names if name not in self.read]
            for name in more[:_MOST_TRIED]:
                fewer = [each for each in more if each != name]
                if _is_enough(nothing.select(self.read + fewer), self.where):
                    more = fewer
            self.read = self.read + more
        return chosen

    def wants(self, path: str) -> bool:
        """Whether the condition may hold for values that are in the names of its folders."""
        values = self.values_of(path)
        if self.where is None or not values:
            return True
        assert self.whole is not None
        return may_have(self.where, values, self.whole)

    def open_part(self, part: FilePart, position: Any, reader: FileReader) -> Partition:
        """The row groups that begin in the part."""
        return _ParquetPart(self, part, position, reader)


class _ParquetPart(Partition):
    """Row groups of a file. A position is a row group, and the number of its rows before."""

    def __init__(
        self, source: ParquetFiles, part: FilePart, position: Any, reader: FileReader
    ) -> None:
        self._source, self._path, self._reader = source, part.file.path, reader
        self._values = source.values_of(self._path)
        self._opened = reader.store(part.file).open(part.file)
        try:
            self._file = _parquet(self._opened, self._path, _dictionaries(source))
            self._columns = _columns(self._file.schema_arrow, source, self._values, self._path)
            groups = self._groups(part)
            start: tuple[int, int] = position or (next(iter(groups), 0), 0)
            self._group, self._row = start
            self._left = [group for group in groups if group >= self._group]
        except BaseException:
            self._opened.close()
            raise
        self._batches: Iterator[pa.RecordBatch] | None = None

    def poll(self, limit: int) -> Any:
        """The next rows; none, if all of them are left out."""
        while True:
            if self._batches is None:
                if not self._left:
                    return None
                if self._left[0] != self._group:
                    self._group, self._row = self._left[0], 0
                self._batches = self._of_group(self._group, self._row)
            try:
                batch = next(self._batches, None)
            except (OSError, ValueError, NotImplementedError) as error:
                raise _unreadable(error, self._path, f"row group {self._group}") from error
            if batch is None:
                self._batches = None
                del self._left[0]
                continue
            self._row += batch.num_rows
            batch = self._fitted(batch)
            if batch.num_rows:
                return batch
            self._reader.may_have_more = True
            return []

    @property
    def position(self) -> tuple[int, int]:
        """The row group, and the number of its rows that were read."""
        return self._group, self._row

    def close(self) -> None:
        """Close the file."""
        self._batches = None
        self._file.close()
        self._opened.close()

    def _groups(self, part: FilePart) -> list[int]:
        """The row groups of the part that may have wanted rows, by their statistics."""
        metadata = self._file.metadata
        groups = [
            group
            for group in range(metadata.num_row_groups)
            if part.begin <= _begin(metadata.row_group(group)) < part.end
        ]
        if self._source.where is None or not groups:
            return groups
        import pyarrow.dataset as dataset  # here, since most jobs have no condition

        fragment = dataset.ParquetFileFormat().make_fragment(
            self._opened, partition_expression=guarantee(self._values), row_groups=groups
        )
        kept = fragment.subset(filter=self._source.where, schema=self._source.whole)
        return [group.id for group in kept.row_groups]

    def _of_group(self, group: int, row: int) -> Iterator[pa.RecordBatch]:
        """The batches of a row group from a row on."""
        count = self._file.metadata.row_group(group).num_rows
        if row >= count:
            return
        for batch in self._file.iter_batches(
            self._batch_rows(group), [group], self._columns, use_threads=False
        ):
            if row < batch.num_rows:
                yield batch.slice(row)
            row = max(0, row - batch.num_rows)

    def _batch_rows(self, group: int) -> int:
        """So many rows that a batch has some megabytes."""
        metadata = self._file.metadata.row_group(group)
        size = sum(metadata.column(at).total_uncompressed_size for at in self._leaves)
        rows = int(_BATCH_BYTES * metadata.num_rows // max(1, size))
        return max(1, min(_MOST_ROWS, rows))

    @cached_property
    def _leaves(self) -> list[int]:
        """The columns of the file that are read, by their indices in a row group."""
        wanted, schema = set(self._columns), self._file.schema
        return [
            at for at in range(len(schema)) if schema.column(at).path.partition(".")[0] in wanted
        ]

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted rows, with the columns of the source."""
        source = self._source
        assert source.whole is not None
        pyarrow = import_pyarrow("ParquetFiles")
        arrays, fields = [], []
        for name in source.read:
            field = source.whole.field(name)
            at = batch.schema.get_field_index(name)
            if name in self._values:
                column = pyarrow.repeat(self._values[name], len(batch))
            else:
                column = batch.column(at) if at >= 0 else pyarrow.nulls(len(batch), field.type)
            if column.type != field.type:
                try:
                    column = column.cast(field.type)
                except (ValueError, NotImplementedError) as error:
                    raise _unreadable(error, self._path, f"column {name!r}") from error
            arrays.append(column)
            fields.append(field)
        found = pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))
        if source.where is not None:
            found = found.filter(source.where)
        assert source.schema is not None
        return found if len(fields) == len(source.schema) else found.select(source.schema.names)


def _dictionaries(source: ParquetFiles) -> list[str]:
    """The columns that are read as dictionaries, whether or not the file says that they are."""
    assert source.whole is not None
    types = import_pyarrow("ParquetFiles").types
    return [name for name in source.read if types.is_dictionary(source.whole.field(name).type)]


def _parquet(opened: Any, path: str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    import pyarrow.parquet  # here, since most jobs read none

    is_local = isinstance(opened, pyarrow.OSFile)
    try:
        metadata = pyarrow.parquet.read_metadata(opened)
        there = metadata.schema.to_arrow_schema().names if dictionaries else ()
        return pyarrow.parquet.ParquetFile(
            opened,
            metadata=metadata,
            read_dictionary=[name for name in dictionaries if name in there],
            pre_buffer=not is_local,  # fewer, longer ranges of an object
            buffer_size=_BUFFER_BYTES if is_local else 0,  # rather than a whole row group
            page_checksum_verification=True,
        )
    except (OSError, ValueError) as error:
        raise _unreadable(error, path, "its footer") from error


def _begin(group: Any) -> int:
    """The offset of a row group's first page."""
    if not group.num_columns:
        return 0
    first = group.column(0)
    if first.has_dictionary_page:
        return min(int(first.dictionary_page_offset), int(first.data_page_offset))
    return int(first.data_page_offset)


def _columns(found: pa.Schema, source: ParquetFiles, values: Iterable[str], path: str) -> list[str]:
    """The file's columns to read; GraphError for one that cannot be what the source gives."""
    assert source.whole is not None
    columns = []
    check_in_files(found.names, [name for name in values if name in source.read], path)
    for name in source.read:
        if name in values:
            continue
        field, count = source.whole.field(name), found.names.count(name)
        if count > 1:
            raise GraphError(f"{path} has several columns {name!r}, expected names that differ")
        if count:
            columns.append(name)
            _check_type(found.field(name), field, path)
        elif source.given is None or not field.nullable:
            raise GraphError(
                f"{path} has no column {name!r}",
                hint="a column of schema=, if it may be null, is null where a file lacks it",
            )
    source.check_no_more(found.names, path)
    return columns


def _check_type(found: pa.Field, wanted: pa.Field, path: str) -> None:
    """Raise GraphError unless the wanted type has every value of the one that was found."""
    if found.type == wanted.type:
        return
    pyarrow = import_pyarrow("ParquetFiles")
    both = [pyarrow.schema([wanted.with_name("")]), pyarrow.schema([found.with_name("")])]
    try:
        fits = pyarrow.unify_schemas(both, promote_options="permissive").field(0).type
    except (ValueError, TypeError, NotImplementedError):
        fits = None
    if fits != wanted.type:
        raise GraphError(
            f"{path}: column {found.name!r} is {found.type}, expected {wanted.type}",
            hint="schema= says which types all files can have",
        )


def _filtered(batch: pa.RecordBatch, where: pc.Expression) -> None:
    try:
        batch.filter(where)
    except (ValueError, TypeError, NotImplementedError, KeyError) as error:
        raise GraphError(
            f"where is {where!s:.200}, expected a condition on columns: {error}",
            hint="such as pyarrow.compute.field('amount') > 100",
        ) from None


def _is_enough(batch: pa.RecordBatch, where: pc.Expression) -> bool:
    """Whether the condition needs no other column than those of the batch."""
    try:
        batch.filter(where)
    except (ValueError, KeyError):
        return False
    return True


def _unreadable(error: Exception, path: str, what: str) -> OSError:
    return OSError(f"{path}: {what} cannot be read: {error}")


_BATCH_BYTES = 4 << 20
_BUFFER_BYTES = 1 << 18
"""Bytes of each column of a file on disk that are read at once."""
_MOST_ROWS = 1 << 16
_MOST_TRIED = 100
"""Columns that the text of a condition seems to name, of which it is tried whether it does."""
