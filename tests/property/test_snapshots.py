"""Files of snapshots: whatever was written comes back, and whatever was not is refused."""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint import SnapshotWriter, TaskSnapshot
from engine.checkpoint.snapshot import decode_snapshot
from engine.errors import CheckpointError
from engine.state import KeyedState
from tests.memory_storage import MemoryStorage

NAMES = st.text(max_size=8)
KEYS = st.one_of(st.integers(), st.text(max_size=9), st.tuples(st.integers(), st.booleans()))
LARGE = st.binary(min_size=1, max_size=2).map(lambda some: some * (1 << 16))
"""Parts of their own."""
POSITIONS = st.recursive(
    st.one_of(st.none(), st.integers(), st.binary(max_size=9), st.text(max_size=9), LARGE),
    lambda inner: st.one_of(st.tuples(inner, inner), st.lists(inner, max_size=2)),
    max_leaves=4,
)
STATES = st.builds(
    lambda kept, shared: KeyedState.of(kept.items(), shared=shared),
    st.dictionaries(KEYS, st.lists(st.floats(allow_nan=False), max_size=3), max_size=6),
    st.one_of(st.none(), st.integers()),
)
SNAPSHOTS = st.builds(
    TaskSnapshot,
    vertex=NAMES,
    index=st.integers(0, 9),
    parallelism=st.integers(1, 9),
    finished=st.booleans(),
    chain=st.lists(NAMES, max_size=3).map(tuple),
    operators=st.dictionaries(NAMES, STATES, max_size=3),
    watermarks=st.dictionaries(NAMES, st.integers(-(1 << 63), (1 << 63) - 1), max_size=2),
    positions=st.dictionaries(NAMES, st.dictionaries(st.integers(0, 9), POSITIONS), max_size=2),
    shares=st.integers(0, 9),
    prepared=st.dictionaries(NAMES, POSITIONS, max_size=2),
)


def written(snapshot):
    """The bytes of its file."""
    storage = MemoryStorage()
    SnapshotWriter(storage, 1).write(1, snapshot)
    (data,) = storage.files.values()
    return data


@given(SNAPSHOTS)
def test_snapshot_comes_back(snapshot):
    assert decode_snapshot([("file", written(snapshot))]) == snapshot


@given(SNAPSHOTS, st.data())
def test_torn_and_flipped_files_are_named(snapshot, data):
    whole = written(snapshot)
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    grown = whole + data.draw(st.binary(min_size=1, max_size=9))
    for other in (whole[:at], bytes(flipped), grown):
        with pytest.raises(CheckpointError, match=r"^some-file is damaged"):
            decode_snapshot([("some-file", other)])


@given(SNAPSHOTS, st.data())
def test_no_content_with_a_right_checksum_raises_anything_else(snapshot, data):
    whole = written(snapshot)[:-16]
    at, size = data.draw(st.integers(8, len(whole))), data.draw(st.integers(0, 9))
    other = whole[:at] + data.draw(st.binary(max_size=9)) + whole[at + size :]
    with suppress(CheckpointError):
        digest = blake2b(other, digest_size=16).digest()
        decode_snapshot([("some-file", other + digest)])
