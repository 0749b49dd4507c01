"""The output of driver sinks as a record: checkpoints keep all of it with each epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from engine.columns import is_columns, packed, unpacked
from engine.graph.context import TaskContext
from engine.network import Batch
from engine.state import trust

Gathered: TypeAlias = tuple[int, int, Any]
"""Index and parallelism of a task, and all its output so far."""


def gathered(context: TaskContext, what: Any) -> Gathered:
    """The prepared output of a task for an epoch."""
    return context.index, context.parallelism, what


def newest(prepared: Iterable[tuple[int, Gathered]]) -> list[Any]:
    """The output of each task of a checkpoint, from its prepared output epoch by epoch."""
    of_task = {(index, parallelism): what for _, (index, parallelism, what) in prepared}
    return list(of_task.values())


def encoded(batch: Any) -> tuple[int, bytes]:
    """Records, or columns, as bytes; the number is that of records, or -1.

    >>> decoded(encoded(Batch.from_list(["a", "b"]))).to_list()
    ['a', 'b']
    """
    if not is_columns(batch):
        frames: list[tuple[int, bytes]] = batch.__reduce__()[1][0]
        return sum(count for count, _ in frames), b"".join(data for _, data in frames)
    return -1, packed(batch)


def decoded(kept: tuple[int, bytes]) -> Any:
    """The decoded batch."""
    records, data = kept
    if records >= 0:
        return Batch.from_bytes(data, records)
    return unpacked(data)


def restored(kept: tuple[int, bytes]) -> Any:
    """As `decoded`, for bytes of a checkpoint. Raises CheckpointError."""
    records, data = kept
    if records >= 0:
        trust.check("what a sink has gathered", data)
    return decoded(kept)
