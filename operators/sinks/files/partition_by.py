"""Sub-folders by the values of columns, as Hive names them: `country=CH/day=2026-11-25/`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote

from engine.errors import GraphError

if TYPE_CHECKING:
    import pyarrow as pa

Unit = Literal["year", "month", "day", "hour"]


@dataclass(frozen=True)
class ByTime:
    """Sub-folders by a column of times or dates: `day=2026-11-25`, `hour=2026-11-25T07`.

    Times with a zone are those of UTC. The column stays in the files.
    """

    column: str
    unit: Unit = "day"

    def __post_init__(self) -> None:
        if self.unit not in _LENGTHS:
            raise GraphError(f"unit is {self.unit!r}, expected one of {', '.join(_LENGTHS)}")


PartitionBy: TypeAlias = "str | ByTime | Sequence[str | ByTime]"


class Folders:
    """Splits batches by sub-folder. It can be pickled."""

    def __init__(self, partition_by: PartitionBy) -> None:
        levels = [partition_by] if isinstance(partition_by, str | ByTime) else list(partition_by)
        for level in levels:
            if not isinstance(level, str | ByTime):
                raise GraphError(
                    f"partition_by has {level!r:.80}, expected names of columns and ByTime(column)"
                )
        self._levels = levels
        names = [self._key(level) for level in levels]
        for name in names:
            if names.count(name) > 1:
                raise GraphError(f"partition_by has {name!r} twice, expected different ones")
            if name.startswith((".", "_")) or not name:
                raise GraphError(
                    f"partition_by has {name!r}, expected a name that does not begin with . or _: "
                    "readers take such folders for hidden ones"
                )

    @property
    def pattern(self) -> str:
        """The pattern of all sub-folders; "" for none."""
        return "/".join(f"{quote(self._key(level), safe='')}=*" for level in self._levels)

    def check(self, schema: pa.Schema) -> None:
        """Raise TypeError, which names a column, if batches of this schema cannot be split."""
        names = schema.names
        for level in self._levels:
            column = level.column if isinstance(level, ByTime) else level
            if column not in names:
                raise TypeError(
                    f"partition_by has {column!r}, expected one of the columns {', '.join(names)}"
                )
            kind = _value_type(schema.field(column).type)
            if isinstance(level, ByTime):
                if not _is_time(kind, level.unit):
                    expected = "times" if level.unit == "hour" else "times or dates"
                    raise TypeError(
                        f"ByTime({column!r}) is of {kind}, expected a column of {expected}\n\n"
                        f"hint: partition_by={column!r} makes a sub-folder for each value"
                    )
                if level.unit in names:
                    raise TypeError(
                        f"there is a column {level.unit!r}, which readers would take for the "
                        f"sub-folders {level.unit}=…, expected none\n\nhint: rename the column"
                    )
            elif not _has_text(kind):
                raise TypeError(
                    f"partition_by has {column!r} of {kind}, expected texts, integers, booleans, "
                    "decimals or dates\n\nhint: ByTime(column) is for times"
                )
        if not len(self.kept(schema)):
            raise TypeError(
                f"partition_by has all columns, {', '.join(names)}, expected that one is left for "
                "the files"
            )

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """The schema of files: what a folder's name says is not in them."""
        import pyarrow as pa

        fields = [field for field in schema if field.name not in self._levels]
        return pa.schema(fields, schema.metadata)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each sub-folder, in their order, with the columns of files."""
        import numpy as np

        if not self._levels:
            yield "", batch
            return
        first, *others = self._levels
        codes, folders = self._coded(first, batch)
        for level in others:
            found, segments = self._coded(level, batch)
            pairs = codes * len(segments) + found  # of which few occur
            some, codes = np.unique(pairs, return_inverse=True)
            folders = [
                f"{folders[pair // len(segments)]}/{segments[pair % len(segments)]}"
                for pair in some.tolist()
            ]
        rest = batch.select(self.kept(batch.schema).names)
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        starts = np.flatnonzero(np.diff(sorted_codes, prepend=-1))
        if len(starts) == 1:
            yield folders[int(sorted_codes[0])], rest
            return
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            # Rows that are copied do not keep the whole batch in memory.
            yield folders[int(sorted_codes[start])], rest.take(order[start:end])

    def _coded(self, level: str | ByTime, batch: pa.RecordBatch) -> tuple[Any, list[str]]:
        """For each row the number of its sub-folder, and the sub-folders' names."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = batch.column(level.column if isinstance(level, ByTime) else level)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if isinstance(level, ByTime):
            if pa.types.is_timestamp(column.type) and column.type.tz is not None:
                column = column.cast(pa.timestamp(column.type.unit, "UTC"))
            column = pc.floor_temporal(column, unit=level.unit)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("s", column.type.tz))
        coded = column.dictionary_encode("encode")
        name = quote(self._key(level), safe="")
        segments = [_segment(name, _text(value, level)) for value in coded.dictionary.to_pylist()]
        return coded.indices.to_numpy().astype("int64"), segments

    @staticmethod
    def _key(level: str | ByTime) -> str:
        return level.unit if isinstance(level, ByTime) else level


def _text(value: Any, level: str | ByTime) -> str | None:
    if value is None:
        return None
    if isinstance(level, ByTime):
        return str(value.isoformat()[: _LENGTHS[level.unit]])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _segment(name: str, text: str | None) -> str:
    """The name of a sub-folder; ValueError for one that is too long for a file system."""
    segment = f"{name}={NULL if text is None else quote(text, safe='')}"
    if len(segment) > _LONGEST:
        raise ValueError(
            f"the sub-folder of {text!r:.80} would have a name of {len(segment)} bytes, expected "
            f"{_LONGEST} at most\n\nhint: partition_by a column of few short values"
        )
    return segment


def _value_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_time(kind: pa.DataType, unit: Unit) -> bool:
    import pyarrow as pa

    return pa.types.is_timestamp(kind) or (pa.types.is_date(kind) and unit != "hour")


def _has_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_a = pa.types
    tests = (is_a.is_string, is_a.is_large_string, is_a.is_string_view, is_a.is_integer)
    others = (is_a.is_boolean, is_a.is_decimal, is_a.is_date, is_a.is_null)
    return any(test(kind) for test in (*tests, *others))


NULL = "__HIVE_DEFAULT_PARTITION__"
"""The text of null, in Hive and its readers."""
_LONGEST = 255
_LENGTHS: dict[str, int] = {"year": 4, "month": 7, "day": 10, "hour": 13}
"""How many characters of an ISO time say which it is."""
