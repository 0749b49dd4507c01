"""Requests whose bodies are rows of columns, and rows that are answers."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from engine.columns import import_pyarrow, is_columns, rows
from engine.gateway.request import REQUEST, Response, response, said_in_json
from engine.record.column_values import field_of

if TYPE_CHECKING:
    import pyarrow as pa


def is_schema(schema: object) -> bool:
    """Whether it is a `pyarrow.Schema`; does not import PyArrow."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(schema, pyarrow.Schema)


def row_of(body: bytes, schema: pa.Schema) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The values of a JSON body for the fields of a schema, and its errors."""
    try:
        said = said_in_json(body)
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
        except Exception:  # noqa: BLE001 - whatever a client may have put there
            message = f"got {type(value).__name__} {reprlib.repr(value):.80}, expected {field.type}"
            wrong.append(_wrong((name,), "type_error", message.encode(errors="replace").decode()))
    return row, wrong


def _wrong(field: tuple[str, ...], kind: str, message: str) -> dict[str, Any]:
    return {"loc": field, "type": kind, "msg": message}


def columns_of_requests(
    ids: Sequence[int], found: Sequence[dict[str, Any]], schema: pa.Schema
) -> pa.RecordBatch:
    """The rows as columns, and their requests. Raises where they do not go into one batch."""
    pyarrow = import_pyarrow("HttpSource(schema=pa.schema(…))")
    arrays = [
        pyarrow.array([row[field.name] for row in found], type=field.type) for field in schema
    ]
    arrays.append(pyarrow.array(ids, type=pyarrow.int64()))
    fields = [*schema, pyarrow.field(REQUEST, pyarrow.int64(), nullable=False)]
    batch: pa.RecordBatch = pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))
    return batch


def check_answer(answer: Any) -> None:
    """Raise TypeError unless it is a result of `Request.reply`, or rows with their requests."""
    if (
        type(answer) is Response
        and type(answer.id) is int
        and type(answer.status) is int
        and (type(answer.body) is bytes or isinstance(answer.body, Iterator))
    ):
        return
    if is_columns(answer):
        check_requests(answer)
        return
    kind = type(answer).__name__
    raise TypeError(
        f"respond() got {kind} {reprlib.repr(answer)}, expected what request.reply(…) makes"
    )


def check_requests(batch: pa.RecordBatch) -> None:
    """Raise TypeError unless the rows have their requests."""
    names = batch.schema.names
    kind = batch.schema.field(REQUEST).type if names.count(REQUEST) == 1 else None
    if kind is not None and batch.column(REQUEST).null_count:
        raise TypeError(f"respond() got a row whose {REQUEST} is null, expected a request's")
    if kind is None or str(kind) != "int64":
        got = f"{REQUEST} of {kind}" if kind is not None else f"the columns {', '.join(names)}"
        raise TypeError(
            f"respond() got {got}, expected one column {REQUEST} of int64, as "
            "HttpSource(schema=pa.schema(…)) gives it"
        )


def responses_of(
    batch: pa.RecordBatch, rescue: Callable[[Sequence[Any], str], object]
) -> list[Response]:
    """The answer of each row: what else is in it, as JSON.

    Rows that JSON has no words for are for `rescue`. Raises TypeError where there are no requests.
    """
    check_requests(batch)
    try:
        told = rows(batch)
    except Exception as error:  # noqa: BLE001 - such as text that is none
        if batch.num_rows > 1:
            each = (batch.slice(start, 1) for start in range(batch.num_rows))
            return [answer for row in each for answer in responses_of(row, rescue)]
        rescue([{REQUEST: batch.column(REQUEST)[0].as_py()}], f"respond(): {error}")
        return []
    found = []
    for row in told:
        said = {name: value for name, value in row.items() if name != REQUEST}
        try:
            found.append(response(row[REQUEST], said))
        except Exception as error:  # noqa: BLE001 - of this row alone, which is answered so
            rescue([row], f"respond(): {error}")
    return found
