"""One task at a barrier, and the files that it is kept in.

The first file has the whole state. Each later file has the state without keys and the changes of
keyed state since the file before: for each 64-bit hash of a key with a change, all entries it has
now. A file names the checksum of the file that it is based on.
"""

from __future__ import annotations

import re
import secrets
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from engine.checkpoint.lasting import keeping
from engine.checkpoint.manifest import SnapshotEntry, SnapshotFile, damaged
from engine.checkpoint.snapshot_file import Part, Parts, checksum, pack, readable, size, unpack
from engine.checkpoint.storage import Storage, is_missing
from engine.errors import CheckpointError, StorageError
from engine.network import Digests, KeyedEntries, decode_value, encode_parts
from engine.record import registry as record_registry
from engine.state import KeyedState, trust


@dataclass(frozen=True)
class TaskSnapshot:
    """The state of one task at a barrier."""

    vertex: str
    index: int
    parallelism: int
    finished: bool = False
    """Whether it had ended: it has no state, and nothing is to come from it."""
    chain: tuple[str, ...] = ()
    """Identities of all its operators, in their order."""
    operators: Mapping[str, KeyedState] = field(default_factory=dict)
    """The state of operators, by their identity."""
    watermarks: Mapping[str, int] = field(default_factory=dict)
    """How far event time was in the chain's stretches, by the identity of the operator that each
    begins behind; "" is the inputs."""
    positions: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    """Of sources by identity: where each of the task's shares goes on."""
    shares: int = 0
    """Into how many shares its source is divided: the parallelism of the job's first start."""
    prepared: Mapping[str, Any] = field(default_factory=dict)
    """The prepared output of sinks, by identity."""
    counts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Counts of each operator, by identity and the names of `OperatorStatistics`; "" has those
    of the task, by the names of `Metrics`."""


class SnapshotWriter:
    """Writes the snapshots of one task in one attempt. One thread at a time.

    A file is based on the one before it, whether or not an epoch was stored with that one: a file
    of the running attempt stays until a later epoch is stored, and then as long as a manifest names
    it. With `pickle`, as `TaskContext.pickle` says, values without another encoding are pickled. It
    keeps 28 bytes in memory for each key of its last file.
    """

    def __init__(self, storage: Storage, generation: int, *, pickle: bool = False) -> None:
        self._storage = storage
        self._generation = generation
        self._pickle = pickle
        self._files: tuple[SnapshotFile, ...] = ()
        """All that the last snapshot needs."""
        self._digests: dict[str, Digests] = {}
        """What it had of keyed state."""
        self._oldest: dict[str, int] = {}
        """Since when there has been the key that has been there longest, by time.monotonic."""

    def write(self, epoch: int, snapshot: TaskSnapshot) -> SnapshotEntry:
        """Write a file, and return the task's entry of the manifest.

        Raises StorageError, and CheckpointError if a value cannot be encoded; the next file is then
        based on the one before.
        """
        digests = {}
        for identity, state in snapshot.operators.items():
            with keeping(identity, "saved"):  # what was copied alone is encoded now
                before = self._digests.get(identity)
                digests[identity] = state.entries.digests(before, int(time.monotonic()))
        base, parts = self._encode(snapshot, digests)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", snapshot.vertex).strip("-")[:60] or "task"
        token = secrets.token_hex(4)  # so that no late writer of a former attempt writes over it
        name = f"data/{epoch:08}/{self._generation}-{slug}-{snapshot.index}-{token}.oka"
        self._storage.put(name, *parts)
        self._files = (*base, SnapshotFile(name, size(parts), parts[-1].hex()))
        self._digests = digests
        self._oldest = {
            identity: each.oldest for identity, each in digests.items() if each.oldest is not None
        }
        return SnapshotEntry(
            vertex=snapshot.vertex,
            index=snapshot.index,
            parallelism=snapshot.parallelism,
            finished=snapshot.finished,
            shares=snapshot.shares,
            operators=snapshot.chain,
            files=self._files,
            keys={identity: len(state.entries) for identity, state in snapshot.operators.items()},
            sources=tuple(snapshot.positions),
            sinks=tuple(snapshot.prepared),
            classes=tuple(record_registry.known().items()),
        )

    def oldest_seconds(self, identity: str) -> float:
        """How long the operator has had the key of its last file that it has had longest.

        That is known since this writer began; 0 where there is no key. Any thread may ask.
        """
        since = self._oldest.get(identity)
        return 0.0 if since is None else max(0.0, time.monotonic() - since)

    def _encode(
        self, snapshot: TaskSnapshot, digests: Mapping[str, Digests]
    ) -> tuple[tuple[SnapshotFile, ...], list[Part]]:
        """The files that the next is based on, if any, and its bytes, in parts."""
        head, parts = _head(snapshot), dict(_parts(snapshot, self._pickle))
        deltas = self._files[1:]
        if snapshot.operators and self._files and len(deltas) < _MOST_DELTAS:
            most = self._files[0].bytes // 2 - sum(file.bytes for file in deltas)
            changes = self._changes(snapshot, digests, most)
            if changes is not None:
                packed = pack(
                    {**head, "based_on": self._files[-1].checksum, "changed": changes[0]},
                    {**parts, **changes[1]},
                )
                if size(packed) <= most:
                    return self._files, packed
        for identity, state in snapshot.operators.items():
            parts["entries", identity] = state.entries.to_parts()
        return (), pack(head, parts)

    def _changes(
        self, snapshot: TaskSnapshot, digests: Mapping[str, Digests], most: int
    ) -> tuple[dict[str, int], dict[tuple[str, str], Sequence[Part]]] | None:
        """The changes since the last file, with the numbers of entries; None if too many."""
        counts: dict[str, int] = {}
        parts: dict[tuple[str, str], Sequence[Part]] = {}
        for identity, state in snapshot.operators.items():
            if identity not in self._digests:
                parts["entries", identity] = state.entries.to_parts()
                continue
            now = digests[identity]
            changes = state.entries.changes(self._digests[identity], now, max(0, most))
            if changes is None:
                return None
            changed, removed = changes
            counts[identity] = len(changed)
            parts["removed", identity] = [removed]
            parts["changed", identity] = changed.to_parts()
        return counts, parts


def read_snapshot(storage: Storage, entry: SnapshotEntry) -> TaskSnapshot:
    """Read a snapshot; raises CheckpointError, which names the file, where one is gone or damaged.

    It also raises CheckpointError, which names the operator, for objects of classes that have
    changed since.
    """
    snapshot = decode_snapshot((file.name, _view(storage, file)) for file in entry.files)
    if record_registry.changed():
        for identity, state in snapshot.operators.items():
            _check_classes(identity, state)
    return snapshot


def _check_classes(identity: str, state: KeyedState) -> None:
    """Decode all of it: in native tables nobody else does, or much later."""
    with keeping(identity, "read"):
        for _ in state.items():
            pass
        _ = state.shared, state.own


def decode_snapshot(files: Iterable[tuple[str, bytes | memoryview]]) -> TaskSnapshot:
    """The snapshot in files of these names and bytes; raises CheckpointError if they hold none."""
    kept: dict[str, _Kept] = {}
    last: str | None = None
    for name, data in files:
        head, parts = unpack(name, data)
        based_on = head.get("based_on")
        if based_on != last:
            raise damaged(name, f"it is based on a file of checksum {based_on}, expected {last}")
        with readable(name):
            kept = {identity: _next(kept, head, parts, identity) for identity in head["operators"]}
        last = checksum(data)
    with readable(name):
        for source in ("positions", "prepared"):
            trust.check(f"{name}: what is {source}", parts[source, ""])
        return TaskSnapshot(
            head["vertex"],
            head["index"],
            head["parallelism"],
            head["finished"],
            tuple(head["chain"]),
            {
                identity: _state(parts, identity, kept[identity], count)
                for identity, count in head["operators"].items()
            },
            head["watermarks"],
            decode_value(parts["positions", ""]),
            head["shares"],
            decode_value(parts["prepared", ""]),
            head.get("counts", {}),
        )


@dataclass(frozen=True)
class _Kept:
    """Entries of an operator and the later changes to them, the oldest first."""

    entries: KeyedEntries
    changes: tuple[tuple[KeyedEntries, bytes], ...] = ()


def _head(snapshot: TaskSnapshot) -> dict[str, Any]:
    return {
        "vertex": snapshot.vertex,
        "index": snapshot.index,
        "parallelism": snapshot.parallelism,
        "finished": snapshot.finished,
        "chain": snapshot.chain,
        "shares": snapshot.shares,
        "watermarks": dict(snapshot.watermarks),
        "counts": {identity: dict(counts) for identity, counts in snapshot.counts.items()},
        "operators": {
            identity: len(state.entries) for identity, state in snapshot.operators.items()
        },
    }


def _parts(
    snapshot: TaskSnapshot, pickle: bool
) -> Iterator[tuple[tuple[str, str], Sequence[Part]]]:
    """All but entries."""
    positions = {source: dict(shares) for source, shares in snapshot.positions.items()}
    with keeping(", ".join(positions), "saved"):
        yield ("positions", ""), encode_parts(positions, pickle)
    with keeping(", ".join(snapshot.prepared), "saved"):
        yield ("prepared", ""), encode_parts(dict(snapshot.prepared), pickle)
    for identity, state in snapshot.operators.items():
        yield ("columns", identity), [state.columns]
        yield ("shared", identity), [state.encoded_shared]
        yield ("own", identity), encode_parts(dict(state.encoded_own), pickle)


def _view(storage: Storage, file: SnapshotFile) -> bytes | memoryview:
    try:
        data = storage.view(file.name)
    except StorageError as error:
        if not is_missing(error):
            raise
        raise CheckpointError(
            f"{file.name} is not there, expected this file of an epoch in {storage.url}",
            "do all machines of the job see the same folder? If it was deleted, "
            "`oka checkpoint list` shows other epochs: go on from one of these by its number",
        ) from None
    if len(data) != file.bytes:
        raise damaged(file.name, f"it has {len(data)} bytes, expected {file.bytes}")
    if checksum(data) != file.checksum:
        raise damaged(file.name, f"its checksum is {checksum(data)}, expected {file.checksum}")
    return data


def _next(
    before: Mapping[str, _Kept], head: Mapping[str, Any], parts: Parts, identity: str
) -> _Kept:
    """The state of an operator after one more file."""
    if ("changed", identity) in parts:
        changed = KeyedEntries.from_bytes(parts["changed", identity], head["changed"][identity])
        change = changed, bytes(parts["removed", identity])
        return _Kept(before[identity].entries, (*before[identity].changes, change))
    count = head["operators"][identity]
    if ("entries", identity) in parts:
        return _Kept(KeyedEntries.from_bytes(parts["entries", identity], count))
    return _Kept(_entries_of_format_1(parts, identity, count))


def _state(parts: Parts, identity: str, kept: _Kept, count: int) -> KeyedState:
    entries = kept.entries.with_changes(list(kept.changes)) if kept.changes else kept.entries
    if len(entries) != count:
        raise ValueError(f"{identity!r} has {len(entries)} keys, expected {count}")
    columns, shared = (bytes(parts[kind, identity]) for kind in ("columns", "shared"))
    own = parts["own", identity]
    what = f"the state of operator {identity!r}"
    trust.check(what, entries, shared, own)
    of_tasks: dict[int, bytes] = decode_value(own)
    for encoded in of_tasks.values():
        trust.check(what, encoded)
    return KeyedState(entries, columns, shared, of_tasks)


def _entries_of_format_1(parts: Parts, identity: str, count: int) -> KeyedEntries:
    def numbers(kind: str) -> list[int]:
        return [number for (number,) in struct.iter_unpack("<Q", parts[kind, identity])]

    def cut(of: str) -> Iterator[bytes]:
        ends = accumulate(numbers(f"{of}_lengths"), initial=0)
        return (bytes(parts[f"{of}s", identity][first:last]) for first, last in pairwise(ends))

    entries = list(zip(numbers("hashes"), cut("key"), cut("value"), strict=True))
    if len(entries) != count:
        raise ValueError(f"{identity!r} has {len(entries)} keys, expected {count}")
    return KeyedEntries(entries)


_MOST_DELTAS = 8
"""The most files of changes after a first one; together they have at most half its size."""
