"""Columns whose values are in the names of folders, as Hive writes them: `day=2026-11-25/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from engine.columns import import_pyarrow
from engine.errors import GraphError
from operators.sinks.files.partition_by import NULL

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


def folder_values(path: str) -> dict[str, str | None]:
    """The names and values in the folders of a path; of two of one name, the inner one.

    >>> folder_values("s3://lake/day=2026-11-25/city=Z%C3%BCrich/a=b.parquet")
    {'day': '2026-11-25', 'city': 'Zürich'}
    >>> folder_values("/lake/city=__HIVE_DEFAULT_PARTITION__/a.parquet")
    {'city': None}
    """
    pairs = [folder.split("=", 1) for folder in path.split("/")[:-1] if "=" in folder]
    return {
        _unescaped(name, path): None if text == NULL else _unescaped(text, path)
        for name, text in pairs
        if name
    }


def typed(
    found: Mapping[str, str | None], fields: Iterable[pa.Field], path: str
) -> dict[str, pa.Scalar]:
    """The values of these fields in their types; GraphError for one that a type does not have."""
    pyarrow = import_pyarrow("a file of columns")
    values = {}
    for field in fields:
        if field.name not in found:
            raise GraphError(f"{path} is in no folder {field.name}=…, expected one")
        text = found[field.name]
        if text is None and not field.nullable:
            raise GraphError(f"{path} is in a folder {field.name}={NULL}, expected no null")
        try:
            values[field.name] = pyarrow.scalar(text, pyarrow.string()).cast(field.type)
        except (ValueError, NotImplementedError) as error:
            raise GraphError(
                f"{path}: its folder {field.name}={text} is not of {field.type}: {error}",
                hint="partition_columns= and schema= say which type it has",
            ) from None
    return values


def check_in_files(names: Iterable[str], values: Iterable[str], path: str) -> None:
    """Raise GraphError for a column that a file has, and its folder, too."""
    both = [name for name in values if name in set(names)]
    if both:
        raise GraphError(
            f"{path} has a column {both[0]!r}, and it is in a folder {both[0]}=…",
            hint="partition_columns={} takes what is in the files, and no folders",
        )


def may_have(where: pc.Expression, values: Mapping[str, pa.Scalar], schema: pa.Schema) -> bool:
    """Whether a condition may hold for rows with these values."""
    import pyarrow.dataset as dataset  # here, since most jobs have no condition

    form = dataset.ParquetFileFormat()
    nothing = import_pyarrow("a condition").py_buffer(b"")
    fragment = form.make_fragment(nothing, partition_expression=guarantee(values))
    found = dataset.FileSystemDataset([fragment], schema, form).get_fragments(filter=where)
    return any(True for _ in found)


def guarantee(values: Mapping[str, pa.Scalar]) -> pc.Expression:
    """What is true of each row with these values."""
    import pyarrow.compute as pc

    true = pc.scalar(True)
    for name, value in values.items():
        field = pc.field(name)
        true = true & (field == value if value.is_valid else field.is_null())
    return true


def _unescaped(text: str, path: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise GraphError(f"{path}: {text!r} is not UTF-8, expected a folder's name in it") from None
