"""Requests whose bodies are rows of columns, and rows that are answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.column_values import field_of
from engine.columns import import_pyarrow, rows
from engine.gateway.request import Response, response

if TYPE_CHECKING:
    import pyarrow as pa

REQUEST = "_request"
"""The column with the ids of requests."""


def is_schema(schema: object) -> bool:
    """Whether it is a `pyarrow.Schema`; does not import PyArrow."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(schema, pyarrow.Schema)


def row_of(body: bytes, schema: pa.Schema) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a body says in JSON for the fields of a schema, and what is wrong with it."""
    try:
        said = json.loads(body)
    except ValueError as error:
        return {}, [_wrong((), "json_invalid", str(error))]
    if type(said) is not dict:
        return {}, [_wrong((), "dict_type", f"got {type(said).__name__}, expected an object")]
    row, wrong = {}, []
    for field in schema:
        name = field.name
        if name not in said:
            wrong.append(_wrong((name,), "missing", f"expected {field.type}"))
            continue
        value = row[name] = said[name]
        try:
            field_of([value], field)
        except TypeError:
            message = f"got {type(value).__name__} {value!r:.80}, expected {field.type}"
            wrong.append(_wrong((name,), "type_error", message))
    return row, wrong


def _wrong(field: tuple[str, ...], kind: str, message: str) -> dict[str, Any]:
    return {"loc": field, "type": kind, "msg": message}


def columns_of_requests(
    ids: Sequence[int], found: Sequence[dict[str, Any]], schema: pa.Schema
) -> pa.RecordBatch:
    """The rows as columns, and their requests."""
    pyarrow = import_pyarrow("HttpSource(schema=pa.schema(…))")
    arrays = [
        pyarrow.array([row[field.name] for row in found], type=field.type) for field in schema
    ]
    arrays.append(pyarrow.array(ids, type=pyarrow.int64()))
    fields = [*schema, pyarrow.field(REQUEST, pyarrow.int64(), nullable=False)]
    batch: pa.RecordBatch = pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))
    return batch


def responses_of(
    batch: pa.RecordBatch, rescue: Callable[[Sequence[Any], str], object]
) -> list[Response]:
    """The answer of each row: what else is in it, as JSON.

    Rows that JSON has no words for are for `rescue`. Raises TypeError where there are no requests.
    """
    if REQUEST not in batch.schema.names:
        raise TypeError(
            f"respond() got the columns {', '.join(batch.schema.names)}, expected one more: "
            f"{REQUEST}, as HttpSource(schema=pa.schema(…)) gives it"
        )
    found = []
    for row in rows(batch):
        said = {name: value for name, value in row.items() if name != REQUEST}
        try:
            found.append(response(row[REQUEST], said))
        except (TypeError, ValueError) as error:
            rescue([row], f"respond(): {error}")
    return found
