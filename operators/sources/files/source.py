"""What the sources of columns from files share: which files, which parts, and what is new."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.columns import import_pyarrow
from engine.errors import CheckpointError, GraphError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.partitions import Partition, PartitionedSource, PartitionReader
from operators.formats.schema import schema_of as declared
from operators.sources.files.partition_columns import check_in_files, folder_values, typed
from operators.sources.files.parts import FilePart, cut
from operators.sources.files.stores import Store, store_of
from operators.sources.layout import Piece

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnFiles(PartitionedSource[Any]):
    """Files as columns. A part of a file is a partition.

    The driver fixes the files, unless they are watched, and their schema.
    """

    bounded = True
    part_bytes: int | None = None
    """The bytes of a part of a file that is not packed; None: a file is one part."""
    grows = False
    """Whether rows may be added to files."""

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        schema: pa.Schema | Mapping[str, Any] | None,
        columns: Iterable[str] | None,
        watch: float | None,
        partition_columns: pa.Schema | Mapping[str, Any] | None,
    ) -> None:
        self._name = type(self).__name__
        several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self.patterns = [os.fspath(path) for path in several]
        if not self.patterns:
            raise GraphError(f"{self._name} got no path, expected at least one")
        for pattern in self.patterns:
            _check_pattern(pattern)
        if watch is not None and (
            isinstance(watch, bool) or not isinstance(watch, int | float) or not 0 < watch < 1e9
        ):
            raise GraphError(
                f"watch is {watch!r:.80}, expected seconds > 0, or None",
                hint="None reads the files that there are, and ends",
            )
        if isinstance(columns, str):
            raise GraphError(f"columns is {columns!r}, expected a list of names")
        self.columns = None if columns is None else list(columns)
        if self.columns is not None and not self.columns:
            raise GraphError("columns has no name, expected at least one")
        self.discover_seconds = watch
        self.given = None if schema is None else declared(self._name, schema)
        """The schema that the user gave."""
        self.schema: pa.Schema | None = None
        """The schema of what comes out."""
        self.whole: pa.Schema | None = None
        """The schema of the files, and of the columns that their folders have."""
        self.partition_columns: pa.Schema | None = None
        """The columns that the user expects in the names of folders; None: those that are there."""
        if partition_columns is not None:
            some = partition_columns if len(partition_columns) else None
            nothing = import_pyarrow(self._name).schema([])
            self.partition_columns = declared(self._name, some) if some is not None else nothing
        self._files: list[Piece] | None = None

    @property
    def properties(self) -> Properties:
        """That columns come out, without waiting."""
        return Properties(emits_columns=True, never_waits=True)

    def validate(self) -> None:
        """Fix the files, unless they are watched, and the schema."""
        import_pyarrow(self._name)
        stores = [store_of(pattern) for pattern in self.patterns]
        files = list(_found(stores))
        if self.discover_seconds is None:
            self._check_found(stores, files)
        schema = self.given
        if schema is None:
            if not files:
                raise GraphError(
                    f"{self._name} has no file yet whose schema it could take: "
                    f"{', '.join(self.patterns)}",
                    hint='give one, such as schema={"city": "string", "amount": "double"}',
                )
            schema = self._shown(files)
        self.whole = schema = self._with_partition_columns(schema, files)
        names = schema.names
        if len(set(names)) < len(names):
            raise GraphError(f"the columns are {', '.join(names)}, expected names that differ")
        self.schema = self.chosen(schema)
        if self.discover_seconds is None:
            self._files = [file for file in files if self.wants(file.path)]

    def _with_partition_columns(self, schema: pa.Schema, files: list[Piece]) -> pa.Schema:
        """The schema, and the columns that the folders of files have."""
        pyarrow = import_pyarrow(self._name)
        more = list(self.partition_columns or ())
        if self.partition_columns is None and self.given is None:
            more = [pyarrow.field(name, pyarrow.string()) for name in folder_values(files[0].path)]
        names = [field.name for field in more]
        if self.given is None:
            check_in_files(schema.names, names, files[0].path)
        return pyarrow.schema([*(each for each in schema if each.name not in names), *more])

    def values_of(self, path: str) -> dict[str, pa.Scalar]:
        """The values of the columns that the folders of a file have."""
        if self.whole is None or self.partition_columns is not None:
            fields = list(self.partition_columns or ())
            return typed(folder_values(path), fields, path) if fields else {}
        found = folder_values(path)
        self.check_no_more(found, path)
        return typed(found, [field for field in self.whole if field.name in found], path)

    def wants(self, path: str) -> bool:
        """Whether a file may have wanted rows, as far as its path says."""
        self.values_of(path)
        return True

    def _shown(self, files: list[Piece]) -> pa.Schema:
        """The schema of the first file that shows one."""
        for file in files:
            if (schema := self.schema_of(file, store_of(file.path))) is not None:
                return schema
        raise GraphError(
            f"{files[0].path} has no row whose types could be taken",
            hint='give one, such as schema={"city": "string", "amount": "double"}',
        )

    def chosen(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the schema that come out, in the order in which they were asked for."""
        if self.columns is None:
            return schema
        for name in self.columns:
            if name not in schema.names:
                raise GraphError(
                    f"there is no column {name!r}, expected one of {', '.join(schema.names[:50])}"
                )
        return import_pyarrow(self._name).schema([schema.field(name) for name in self.columns])

    @property
    def leaves_out(self) -> bool:
        """Whether other columns of files are left out: the user has said which are wanted."""
        return self.given is not None or self.columns is not None

    def check_no_more(self, names: Iterable[str], path: str) -> None:
        """Raise GraphError for a column of a file that is neither known nor left out."""
        assert self.schema is not None
        for name in () if self.leaves_out else names:
            if name not in self.schema.names:
                raise GraphError(
                    f"{path} has a column {name!r}, which the first file has not",
                    hint="schema= or columns=[...] says which are wanted",
                )

    @abstractmethod
    def schema_of(self, file: Piece, store: Store) -> pa.Schema | None:
        """The schema of a file, or None where it has no row that shows it. Called on the driver."""

    @abstractmethod
    def open_part(self, part: FilePart, position: Any, reader: FileReader) -> Partition:
        """Begin to read a part of a file, which is as it was."""

    def number(self, name: str) -> int:
        """By the path of the file."""
        return FilePart.of(name).number

    def open(self, context: TaskContext) -> FileReader:  # type: ignore[override]
        """The files at work in one task."""
        if self.schema is None:
            self.validate()
        return FileReader(self, self._files)

    def _check_found(self, stores: Iterable[Store], files: list[Piece]) -> None:
        for pattern, store in zip(self.patterns, stores, strict=True):
            if not any(map(store.has, files)) and not store.has_any():
                here = f"relative paths begin at {os.getcwd()}"  # noqa: PTH109 - it is shown
                raise GraphError(
                    f"there is no file at {pattern!r}, expected at least one",
                    hint="keys are case-sensitive" if pattern.startswith("s3:") else here,
                )


class FileReader(PartitionReader):
    """Files at work in one task. It knows the last version of each file that was found."""

    def __init__(self, source: ColumnFiles, files: list[Piece] | None) -> None:
        self._source, self._fixed = source, files
        self._stores = [store_of(pattern) for pattern in source.patterns]
        self._known: dict[str, Piece] = {}
        self._ends: dict[tuple[str, int], int] = {}
        """Where each part that was found ended; only the task that reads a part has to know."""
        self._restored: set[str] = set()
        self.may_have_more = False
        """Whether a partition has given nothing, but needs no pause to go on."""

    def restore(self, names: Iterable[str]) -> None:
        """Note which versions of files were read before."""
        for name in names:
            self._restored.add(name)
            file, at, _, end = FilePart.of(name)
            self._ends[file.path, at] = max(end, self._ends.get((file.path, at), 0))
            known = self._known.setdefault(file.path, file)
            if file.end > known.end:
                self._known[file.path] = file

    def partitions(self) -> Iterator[str]:
        """The parts of all files, each once, and what was added to them.

        Raises CheckpointError for a file that was replaced or changed.
        """
        if self._fixed is not None:
            files: Iterable[Piece] = self._fixed
        else:
            found = _found(self._stores, self._source.discover_seconds)
            files = (file for file in found if self._source.wants(file.path))
        for file in files:
            before = self._known.get(file.path)
            if before is not None and file != before:
                if not self._source.grows:
                    raise CheckpointError(
                        f"{file.path} has changed, expected it as it was when it was read",
                        "put new rows into new files, or start the job anew",
                    )
                self.store(file).check_grown(before, file)
            for part in cut(file, None if file.is_packed else self._source.part_bytes):
                begin = self._ends.get((file.path, part.at), part.begin)
                if begin < part.end:
                    yield part._replace(begin=begin).name
                    self._ends[file.path, part.at] = part.end
            self._known[file.path] = file

    def open_partition(self, name: str, position: Any) -> Partition:
        """Open the part; the file must be as it was."""
        part = FilePart.of(name)
        try:
            return self._source.open_part(part, position, self)
        except CheckpointError as error:
            if name in self._restored:
                raise
            raise OSError(error.message) from None

    def wait(self, seconds: float) -> None:
        """Wait, unless a partition only has had no row yet that is wanted."""
        if not self.may_have_more:
            super().wait(seconds)
        self.may_have_more = False

    def store(self, file: Piece) -> Store:
        """The store of a file."""
        return next(store for store in self._stores if store.has(file))


def _found(stores: Iterable[Store], settle_seconds: float | None = None) -> Iterator[Piece]:
    """The files of all stores, each once."""
    found: set[str] = set()
    for store in stores:
        for file in store.files(settle_seconds):
            if file.path not in found:
                found.add(file.path)
                yield file


def _check_pattern(pattern: str) -> None:
    if pattern.startswith("s3:/") and not pattern.startswith("s3://"):
        raise GraphError(
            f"the path is {pattern!r}, expected a path or s3://bucket/…",
            "give s3://… as a text: a Path has one slash where there were two",
        )
    if not pattern or ("://" in pattern and not pattern.startswith("s3://")):
        raise GraphError(f"the path is {pattern!r}, expected a path or s3://bucket/…")
