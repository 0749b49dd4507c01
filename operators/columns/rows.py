"""Rows of columns in the order of their keys, and what state they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from engine.columns import joined
from operators.columns.numbers import Numbers


def in_order(batch: pa.RecordBatch, keys: Numbers) -> tuple[pa.RecordBatch, Numbers]:
    """The rows in the order of these numbers of their keys, and those; those of a key as before."""
    order = np.argsort(keys, kind="stable")
    return batch.take(pa.array(order)), keys[order]


def runs(keys: Numbers) -> Iterator[tuple[int, int]]:
    """Where the rows of each key begin and end, if those of one key are behind each other."""
    return pairwise([0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)])


def encoded(batch: pa.RecordBatch) -> bytes:
    """The rows as bytes, in a stream of Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def decoded(parts: Iterable[bytes]) -> pa.RecordBatch:
    """One batch of the rows in these, of which there is one at least."""
    tables = (pa.ipc.open_stream(part).read_all() for part in parts)
    return joined([batch for table in tables for batch in table.to_batches()])
