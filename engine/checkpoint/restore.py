"""Which snapshots a task goes on with: operators by identity, keys by hash, shares by number.

Pure: a manifest and the tasks of the job to be, in; what each of them reads, out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from engine.checkpoint.manifest import Manifest, SnapshotEntry
from engine.errors import CheckpointError


@dataclass(frozen=True)
class RestoredTask:
    """A future task, and the snapshots that it reads."""

    entries: tuple[SnapshotEntry, ...]
    """Snapshots with state for the task, in the order of vertices and indexes.

    The task takes the keys whose hashes it receives, and the positions of the shares j for which j
    modulo its parallelism is its index. It commits the prepared output of the tasks of such
    indexes.
    """
    finished: bool
    """Whether all of these tasks had ended: this one then ends at once, with its sink's commit."""


def plan_restore(
    manifest: Manifest,
    tasks: Sequence[tuple[Collection[str], int, int]],
    drop: Iterable[str] = (),
    *,
    committed: bool = False,
    meanings: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> list[RestoredTask]:
    """What each of `tasks` reads: of (identities of its operators, index, parallelism) each.

    Operators that the manifest does not have start empty. Raises CheckpointError for state, a
    position, or output that is not `committed`, of an operator that no task has and `drop` does not
    name. It raises the same for state with another meaning now, as `meanings` says.
    """
    wanted = {identity for operators, _, _ in tasks for identity in operators}
    _check_all_wanted(manifest, wanted, set(drop), committed)
    _check_meanings(manifest, meanings)
    entries_of: dict[str, list[SnapshotEntry]] = {}
    for entry in manifest.tasks:
        for identity in entry.operators:
            entries_of.setdefault(identity, []).append(entry)
    return [
        _restored(manifest, {name: entries_of.get(name, []) for name in operators}, index, count)
        for operators, index, count in tasks
    ]


def _restored(
    manifest: Manifest, entries_of: Mapping[str, Sequence[SnapshotEntry]], index: int, count: int
) -> RestoredTask:
    found = {
        id(entry)
        for entries in entries_of.values()
        for entry in entries
        if _has_part_of(entry, index, count)
    }
    read = tuple(entry for entry in manifest.tasks if id(entry) in found)
    return RestoredTask(read, bool(read) and all(entry.finished for entry in read))


def _has_part_of(entry: SnapshotEntry, index: int, count: int) -> bool:
    """Whether there may be something in it for the task of this index, of so many."""
    overlaps = entry.index * count < (index + 1) * entry.parallelism and (
        index * entry.parallelism < (entry.index + 1) * count
    )
    shares = range(entry.index, entry.shares, entry.parallelism)
    some = shares[:count]  # then the rests come again
    return overlaps or entry.index % count == index or any(j % count == index for j in some)


def _check_meanings(manifest: Manifest, meanings: Mapping[str, Mapping[str, Any]]) -> None:
    kept = {name for task in manifest.tasks for name in (*task.keys, *task.sources, *task.sinks)}
    for identity in sorted(kept & manifest.meanings.keys() & meanings.keys()):
        then, now = manifest.meanings[identity], meanings[identity]
        differ = [name for name in then if name not in now or now[name] != then[name]]
        if not differ:
            continue
        if "kind" in differ:  # all others are of another thing
            differ = ["kind"]
        before, after = (
            ", ".join(f"{name} {each[name]!r}" if name in each else f"no {name}" for name in differ)
            for each in (then, now)
        )
        raise CheckpointError(
            f"operator {identity!r} kept something else until epoch {manifest.epoch}: it had "
            f"{before}, and has {after} now",
            "what it kept would be read as what it is not. A new name lets it begin anew: "
            f".named(…), with drop_state={[identity]!r} "
            f"(`--set drop_state='{json.dumps([identity])}'`)",
        )


def _check_all_wanted(
    manifest: Manifest, wanted: set[str], drop: set[str], committed: bool
) -> None:
    kept: dict[str, str] = {}
    for entry in manifest.tasks:
        for identity, keys in entry.keys.items():
            kept[identity] = f"the state of {keys} keys"
        kept |= dict.fromkeys(entry.sources, "the position of a source")
        if not committed:
            kept |= dict.fromkeys(entry.sinks, "output that is not committed yet")
    left = sorted(kept.keys() - wanted - drop)
    if not left:
        return
    new = sorted(
        identity
        for identity in wanted - manifest.operators.keys()
        if _kind(identity) in (identity, _kind(left[0]))
    )
    raise CheckpointError(
        f"epoch {manifest.epoch} has {kept[left[0]]} of operator {left[0]!r}, which the pipeline "
        "does not have" + (f"; so it is with {', '.join(map(repr, left[1:]))}" if left[1:] else ""),
        (f"is it now {' or '.join(map(repr, new))}? " if new else "")
        + "Operators keep their state by name: give it the name again with .named(…), or drop the "
        f"state with drop_state={left!r} (`--set drop_state='{json.dumps(left)}'`)",
    )


def _kind(identity: str) -> str:
    """The identity of an operator that has a name; else what it is, without where it is."""
    return _WHERE.sub("", identity)


_WHERE = re.compile(r"(-[0-9a-f]{12})+(-\d+)?$")
