"""Partitioners: how an edge picks, for each record, the task that receives it."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class Forward:
    """Each task sends to exactly one task, so no record overtakes another.

    Task i of n sends to task i; towards fewer tasks, neighbours share a target.
    """

    name: ClassVar[str] = "forward"


@dataclass(frozen=True)
class Rebalance:
    """Records go to the target tasks in turn, whatever their content."""

    name: ClassVar[str] = "rebalance"


@dataclass(frozen=True)
class Hash:
    """Records of one key go to one task.

    `key` is the index of a tuple's or list's item, the name of a dict's field, several of them,
    which are one key, or None: the record itself is the key. `columns` has the key of columns where
    it is in another place. With `rows`, the operator behind it makes rows of columns, and each goes
    where a record with its key goes: keys of times and decimals too.
    """

    key: int | str | tuple[int | str, ...] | None
    columns: int | str | tuple[int | str, ...] | None = None
    rows: bool = False
    name: ClassVar[str] = "hash"


@dataclass(frozen=True)
class Broadcast:
    """Every record goes to every target task."""

    name: ClassVar[str] = "broadcast"


Partitioner: TypeAlias = Forward | Rebalance | Hash | Broadcast


def label(partitioner: Partitioner) -> str:
    """The partitioner's name, with its key, for people."""
    if not isinstance(partitioner, Hash):
        return partitioner.name
    key = partitioner.key if isinstance(partitioner.key, tuple) else (partitioner.key,)
    return f"hash by {', '.join('record' if item is None else repr(item) for item in key)}"
