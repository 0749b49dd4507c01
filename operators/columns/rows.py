"""Rows of columns by key, and their encoding as state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.columns import joined
from engine.network import ipc_streams, take_rows
from operators.columns.numbers import Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray


def taken(batch: pa.RecordBatch, rows: Numbers) -> pa.RecordBatch:
    """The rows with these indexes, for columns of all types."""
    try:
        return batch.take(pa.array(rows))
    except pa.ArrowNotImplementedError:  # PyArrow cannot take from views and runs
        found: pa.RecordBatch = take_rows(batch, pa.array(rows))
        return found


def chosen(batch: pa.RecordBatch, which: NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows for which this is true."""
    return taken(batch, np.flatnonzero(which))


def in_order(batch: pa.RecordBatch, keys: Numbers) -> tuple[pa.RecordBatch, Numbers]:
    """The rows sorted by these key numbers, and the numbers; rows of a key keep their order."""
    order = np.argsort(keys, kind="stable")
    return taken(batch, order), keys[order]


def runs(keys: Numbers) -> Iterator[tuple[int, int]]:
    """The begin and end of each key's rows, if rows of one key are adjacent."""
    return pairwise(_bounds(keys).tolist())


def encoded_runs(
    batch: pa.RecordBatch, order: Numbers, keys: Numbers
) -> Iterator[tuple[int, int, int, bytes]]:
    """For each key its number, the begin and end of its rows, and these in a stream of Arrow IPC.

    The rows must be in an order in which rows of one key are adjacent; `keys` are their keys.
    """
    bounds = _bounds(keys)
    for at in range(0, len(bounds) - 1, _AT_ONCE):
        some = bounds[at : at + _AT_ONCE + 1]
        begins, ends = some[:-1].tolist(), some[1:].tolist()
        rows = order[begins[0] : ends[-1]].tolist()
        streams = ipc_streams(batch, rows, [end - begins[0] for end in ends])
        yield from zip(keys[begins].tolist(), begins, ends, streams, strict=True)


def decoded(parts: Iterable[bytes]) -> pa.RecordBatch:
    """One batch of the rows in these parts, of which there is at least one."""
    return joined(list(decoded_parts(parts)))


def decoded_parts(parts: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows in these parts, each with a schema of its own."""
    for part in parts:
        yield from pa.ipc.open_stream(part).read_all().to_batches()


def _bounds(keys: Numbers) -> Numbers:
    """The begins of runs of equal keys, and the end of the last run."""
    return np.flatnonzero(np.diff(keys, prepend=~keys[:1], append=~keys[-1:]))


_AT_ONCE = 1024
"""The number of keys whose rows are encoded together, without the GIL."""
