"""One task at a barrier, and the file that it is kept in.

A file is a head, parts and the checksum of both:

    8 bytes   "OKA-SNAP"
    4 bytes   length of the head, little-endian
    head      JSON: format, what the task was, and name and length of each part, in their order
    parts     entries of operators as Arrow IPC streams; other values as encoded records
    16 bytes  BLAKE2b of all before
"""

from __future__ import annotations

import json
import re
import secrets
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Any

from engine.checkpoint.manifest import FORMAT, SnapshotEntry, SnapshotFile, damaged
from engine.checkpoint.storage import Storage
from engine.errors import CheckpointError
from engine.network import DecodeError, KeyedEntries
from engine.state import KeyedState, decode_value, encode_value


@dataclass(frozen=True)
class TaskSnapshot:
    """What one task is at a barrier."""

    vertex: str
    index: int
    parallelism: int
    finished: bool = False
    """Whether it had ended: it has no state, and nothing is to come from it."""
    chain: tuple[str, ...] = ()
    """Identities of all its operators, in their order."""
    operators: Mapping[str, KeyedState] = field(default_factory=dict)
    """What operators keep, by their identity."""
    watermarks: Mapping[str, int] = field(default_factory=dict)
    """How far event time was in the chain's stretches, by the identity of the operator that each
    begins behind; "" is the inputs."""
    positions: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    """Of sources by identity: where each of the task's shares goes on."""
    shares: int = 0
    """Into how many shares its source is divided: the parallelism of the job's first start."""
    prepared: Mapping[str, Any] = field(default_factory=dict)
    """What sinks by identity are to commit."""


def write_snapshot(
    storage: Storage, epoch: int, generation: int, snapshot: TaskSnapshot, *, pickle: bool = False
) -> SnapshotEntry:
    """Write a task's file and say what the manifest has to hold of it.

    With `pickle`, as `TaskContext.pickle` says, what cannot be encoded otherwise is pickled. Raises
    StorageError, and EncodeError where a position or prepared output cannot travel.
    """
    data = encode_snapshot(snapshot, pickle=pickle)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", snapshot.vertex).strip("-")[:60] or "task"
    token = secrets.token_hex(4)  # so that no late writer of a former attempt writes over it
    name = f"data/{epoch:08}/{generation}-{slug}-{snapshot.index}-{token}.oka"
    storage.put(name, data)
    return SnapshotEntry(
        vertex=snapshot.vertex,
        index=snapshot.index,
        parallelism=snapshot.parallelism,
        finished=snapshot.finished,
        shares=snapshot.shares,
        operators=snapshot.chain,
        files=(SnapshotFile(name, len(data), data[-_DIGEST:].hex()),),
        keys={identity: len(state.entries) for identity, state in snapshot.operators.items()},
        sources=tuple(snapshot.positions),
        sinks=tuple(snapshot.prepared),
    )


def read_snapshot(storage: Storage, entry: SnapshotEntry) -> TaskSnapshot:
    """The snapshot again; CheckpointError, naming the file, where it is not what was written."""
    (file,) = entry.files
    data = storage.get(file.name)
    if len(data) != file.bytes:
        raise damaged(file.name, f"it has {len(data)} bytes, expected {file.bytes}")
    if data[-_DIGEST:].hex() != file.checksum:
        raise damaged(
            file.name, f"its checksum is {data[-_DIGEST:].hex()}, expected {file.checksum}"
        )
    return decode_snapshot(file.name, data)


def encode_snapshot(snapshot: TaskSnapshot, *, pickle: bool = False) -> bytes:
    """The bytes of a file."""
    parts = dict(_parts(snapshot, pickle))
    head = json.dumps(
        {
            "format": FORMAT,
            "vertex": snapshot.vertex,
            "index": snapshot.index,
            "parallelism": snapshot.parallelism,
            "finished": snapshot.finished,
            "chain": snapshot.chain,
            "shares": snapshot.shares,
            "watermarks": dict(snapshot.watermarks),
            "operators": {
                identity: len(state.entries) for identity, state in snapshot.operators.items()
            },
            "parts": [[*name, len(part)] for name, part in parts.items()],
        }
    ).encode()
    whole = (_MAGIC, len(head).to_bytes(4, "little"), head, *parts.values())
    digest = blake2b(digest_size=_DIGEST)
    for part in whole:
        digest.update(part)
    return b"".join((*whole, digest.digest()))


def decode_snapshot(name: str, data: bytes) -> TaskSnapshot:
    """The snapshot in the bytes of the file of this name; CheckpointError if they are none."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise damaged(name, "it does not begin as a snapshot does")
    whole = memoryview(data)[:-_DIGEST]
    if _digest(whole) != data[-_DIGEST:]:
        raise damaged(name, "its content does not have the checksum that is at its end")
    start = len(_MAGIC) + 4
    end = start + int.from_bytes(whole[len(_MAGIC) : start], "little")
    try:
        head = json.loads(bytes(whole[start:end]))
        version = head["format"]
        if version > FORMAT:
            raise CheckpointError(
                f"{name} is of format {version}, expected at most {FORMAT}",
                "it was written by a newer version of Oka: run the job with that",
            )
        ends = list(accumulate((part[2] for part in head["parts"]), initial=end))
        parts = {
            (kind, operator): bytes(whole[first:last])
            for (kind, operator, _), (first, last) in zip(
                head["parts"], pairwise(ends), strict=True
            )
        }
        return TaskSnapshot(
            head["vertex"],
            head["index"],
            head["parallelism"],
            head["finished"],
            tuple(head["chain"]),
            {
                identity: _state(parts, identity, count)
                for identity, count in head["operators"].items()
            },
            head["watermarks"],
            decode_value(parts["positions", ""]),
            head["shares"],
            decode_value(parts["prepared", ""]),
        )
    except _UNREADABLE as error:
        raise CheckpointError(
            f"{name} cannot be read: {type(error).__name__}: {error}",
            "is it of the same version of the pipeline, with the classes of its records?",
        ) from error


def _parts(snapshot: TaskSnapshot, pickle: bool) -> Iterator[tuple[tuple[str, str], bytes]]:
    positions = {source: dict(shares) for source, shares in snapshot.positions.items()}
    yield ("positions", ""), encode_value(positions, pickle)
    yield ("prepared", ""), encode_value(dict(snapshot.prepared), pickle)
    for identity, state in snapshot.operators.items():
        yield ("entries", identity), state.entries.to_bytes()
        yield ("columns", identity), state.columns
        yield ("shared", identity), state.encoded_shared
        yield ("own", identity), encode_value(dict(state.encoded_own), pickle)


def _state(parts: Mapping[tuple[str, str], bytes], identity: str, count: int) -> KeyedState:
    if ("entries", identity) in parts:
        entries = KeyedEntries.from_bytes(parts["entries", identity], count)
    else:
        entries = _entries_of_format_1(parts, identity, count)
    columns, shared, own = (parts[kind, identity] for kind in ("columns", "shared", "own"))
    return KeyedState(entries, columns, shared, decode_value(own))


def _entries_of_format_1(
    parts: Mapping[tuple[str, str], bytes], identity: str, count: int
) -> KeyedEntries:
    def numbers(kind: str) -> list[int]:
        return [number for (number,) in struct.iter_unpack("<Q", parts[kind, identity])]

    def cut(of: str) -> Iterator[bytes]:
        ends = accumulate(numbers(f"{of}_lengths"), initial=0)
        return (parts[f"{of}s", identity][first:last] for first, last in pairwise(ends))

    entries = list(zip(numbers("hashes"), cut("key"), cut("value"), strict=True))
    if len(entries) != count:
        raise ValueError(f"{identity!r} has {len(entries)} keys, expected {count}")
    return KeyedEntries(entries)


def _digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()


_MAGIC = b"OKA-SNAP"
_DIGEST = 16
_UNREADABLE = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError),
    *(struct.error, DecodeError),
)
