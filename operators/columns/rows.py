"""Rows of columns in the order of their keys, and their encoding as state."""

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
    """The rows of these numbers, of columns of all types."""
    try:
        return batch.take(pa.array(rows))
    except pa.ArrowNotImplementedError:  # of views and runs
        found: pa.RecordBatch = take_rows(batch, pa.array(rows))
        return found


def chosen(batch: pa.RecordBatch, which: NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows for which this is true."""
    return taken(batch, np.flatnonzero(which))


def in_order(batch: pa.RecordBatch, keys: Numbers) -> tuple[pa.RecordBatch, Numbers]:
    """The rows in the order of these numbers of their keys, and those; those of a key as before."""
    order = np.argsort(keys, kind="stable")
    return taken(batch, order), keys[order]


def runs(keys: Numbers) -> Iterator[tuple[int, int]]:
    """Where the rows of each key begin and end, if those of one key are behind each other."""
    return pairwise(_bounds(keys).tolist())


def encoded_runs(
    batch: pa.RecordBatch, order: Numbers, keys: Numbers
) -> Iterator[tuple[int, int, int, bytes]]:
    """Of each key its number, where its rows begin and end, and these, in a stream of Arrow IPC.

    The rows come in an order in which those of one key are behind each other; `keys` are theirs.
    """
    bounds = _bounds(keys)
    for at in range(0, len(bounds) - 1, _AT_ONCE):
        some = bounds[at : at + _AT_ONCE + 1]
        begins, ends = some[:-1].tolist(), some[1:].tolist()
        rows = order[begins[0] : ends[-1]].tolist()
        streams = ipc_streams(batch, rows, [end - begins[0] for end in ends])
        yield from zip(keys[begins].tolist(), begins, ends, streams, strict=True)


def decoded(parts: Iterable[bytes]) -> pa.RecordBatch:
    """One batch of the rows in these, of which there is one at least."""
    return joined(list(decoded_parts(parts)))


def decoded_parts(parts: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows in these, each part with a schema of its own."""
    for part in parts:
        yield from pa.ipc.open_stream(part).read_all().to_batches()


def _bounds(keys: Numbers) -> Numbers:
    """Where runs of equal keys begin, and where the last of them ends."""
    return np.flatnonzero(np.diff(keys, prepend=~keys[:1], append=~keys[-1:]))


_AT_ONCE = 1024
"""Keys whose rows are encoded together, without the GIL."""
