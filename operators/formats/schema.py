"""Schemas of columns as users write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.columns import import_pyarrow
from engine.errors import GraphError

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(what: str, given: Any) -> pa.Schema:
    """A `pyarrow.Schema` as it is, or one of a dict of names and types.

    A type is a text, a `pyarrow.DataType`, a list of the type of its items, or a dict for a struct.
    """
    pyarrow = import_pyarrow(f"{what}(schema)")
    if isinstance(given, pyarrow.Schema):
        schema = given
    elif isinstance(given, Mapping):
        schema = pyarrow.schema(_fields(what, given))
    else:
        raise GraphError(
            f"{what} got the schema {given!r:.80}, expected a pyarrow.Schema or a dict",
            hint='such as {"user": "string", "count": "int64", "at": "timestamp[us]"}',
        )
    if not len(schema):
        raise GraphError(f"{what} got a schema without a field, expected one at least")
    if len(set(schema.names)) < len(schema):
        raise GraphError(f"{what} got a schema with two fields of a name: {schema.names}")
    return schema


def _fields(what: str, given: Mapping[str, Any]) -> list[pa.Field]:
    pyarrow = import_pyarrow(f"{what}(schema)")
    return [pyarrow.field(name, _type(what, name, kind)) for name, kind in given.items()]


def _type(what: str, name: str, kind: Any) -> pa.DataType:
    pyarrow = import_pyarrow(f"{what}(schema)")
    if isinstance(kind, pyarrow.DataType):
        return kind
    if isinstance(kind, Mapping):
        return pyarrow.struct(_fields(what, kind))
    if isinstance(kind, list) and len(kind) == 1:
        return pyarrow.list_(_type(what, name, kind[0]))
    try:
        return pyarrow.type_for_alias(kind)
    except (AttributeError, TypeError, ValueError):
        raise GraphError(
            f"{what} got the type {kind!r:.80} for {name!r}, expected one such as 'string', "
            "'int64', 'double', 'bool', 'timestamp[us]' or 'date32'",
            hint='["int64"] is a list, {"x": "double"} a struct; types of pyarrow are taken, too',
        ) from None
