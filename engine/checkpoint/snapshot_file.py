"""The bytes of one file of a task's snapshot: a head, parts and the checksum of both.

8 bytes   "OKA-SNP5"; "OKA-SNAP" before format 5
4 bytes   length of the head, little-endian
head      JSON: format, what the task was, and name and length of each part, in their order; with
          spaces behind it up to a multiple of 8 bytes from the beginning
parts     entries of operators as Arrow IPC streams; other values as encoded records
16 bytes  XXH3 of all before; BLAKE2b before format 5
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import accumulate, chain, pairwise
from typing import Any, TypeAlias

from engine.checkpoint.manifest import FORMAT, damaged
from engine.errors import CheckpointError
from engine.network import DecodeError, xxh3

Part: TypeAlias = bytes | memoryview
Parts: TypeAlias = Mapping[tuple[str, str], memoryview]
"""By their kind, and the operator that they are of, or "": places in the bytes of the file."""


def pack(head: Mapping[str, Any], parts: Mapping[tuple[str, str], Sequence[Part]]) -> list[Part]:
    """The bytes of a file in parts without copies; the last part is the checksum.

    The bytes of each name may come in several consecutive parts.
    """
    parts = dict(sorted(parts.items(), key=_in_place_first))
    lengths = [[*name, size(part)] for name, part in parts.items()]
    encoded = json.dumps({"format": FORMAT, **head, "parts": lengths}).encode()
    encoded += b" " * (-(len(_MAGIC) + 4 + len(encoded)) % _ALIGNED)
    told = [_MAGIC, len(encoded).to_bytes(4, "little"), encoded]
    whole = [*told, *chain.from_iterable(parts.values())]
    return [*whole, xxh3(whole)]


def _in_place_first(part: tuple[tuple[str, str], Sequence[Part]]) -> bool:
    """Entries come first: their columns are read where they are, if that is a multiple of 8."""
    (kind, _), _ = part
    return kind not in ("entries", "changed")


def unpack(name: str, data: bytes | memoryview) -> tuple[dict[str, Any], Parts]:
    """The contents of the file of this name. Raises CheckpointError if it is damaged."""
    digest = _DIGESTS.get(bytes(data[: len(_MAGIC)]))
    if digest is None:
        raise damaged(name, "it does not begin as a snapshot does")
    whole = memoryview(data)[:-_DIGEST]
    if digest(whole).hex() != checksum(data):
        raise damaged(name, "its content does not have the checksum that is at its end")
    start = len(_MAGIC) + 4
    end = start + int.from_bytes(whole[len(_MAGIC) : start], "little")
    with readable(name):
        head = json.loads(bytes(whole[start:end]))
        version = head["format"]
        if version > FORMAT:
            raise CheckpointError(
                f"{name} is of format {version}, expected at most {FORMAT}",
                "it was written by a newer version of Oka: run the job with that",
            )
        ends = list(accumulate((part[2] for part in head["parts"]), initial=end))
        parts = {
            (kind, operator): whole[first:last]
            for (kind, operator, _), (first, last) in zip(
                head["parts"], pairwise(ends), strict=True
            )
        }
        return head, parts


def size(parts: Sequence[Part]) -> int:
    """The bytes of all parts together."""
    return sum(map(len, parts))


def checksum(data: bytes | memoryview) -> str:
    """The checksum for the end of a file."""
    return data[-_DIGEST:].hex()


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn errors in the content of this file into CheckpointError, which names the file."""
    try:
        yield
    except _UNREADABLE as error:
        raise CheckpointError(
            f"{name} cannot be read: {type(error).__name__}: {error}",
            "is it of the same version of the pipeline, with the classes of its records?",
        ) from error


def _blake2b(whole: memoryview) -> bytes:
    return blake2b(whole, digest_size=_DIGEST).digest()


_MAGIC = b"OKA-SNP5"
_DIGEST = 16
_ALIGNED = 8
_DIGESTS: Mapping[bytes, Callable[[memoryview], bytes]] = {
    _MAGIC: lambda whole: xxh3([whole]),  # many times as fast as the other
    b"OKA-SNAP": _blake2b,
}
_UNREADABLE = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError),
    *(struct.error, DecodeError),
)
