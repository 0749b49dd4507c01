"""The encoding of a value in parts: that of a record, of which large byte strings are no copies."""

from dataclasses import dataclass

import pytest

from engine.checkpoint import SnapshotWriter, TaskSnapshot
from engine.network import DecodeError, EncodeError, decode_value, encode_parts, keyed_entries
from engine.state import KeyedState
from tests.memory_storage import MemoryStorage

LARGE = bytes(range(256)) * 256
"""Of the least size that is a part of its own."""
SMALL = LARGE[1:]


@dataclass(frozen=True)
class Blob:
    data: bytes


def encoded(value):
    """As in an entry of keyed state, which is one piece."""
    return keyed_entries([(None, value)])[0][2]


@pytest.mark.parametrize(
    ("value", "lent"),
    [
        (LARGE, 1),
        (SMALL, 0),
        ((LARGE, 1, LARGE), 2),
        ([LARGE, LARGE], 2),
        ([[LARGE], [[], [SMALL, LARGE]], "end"], 2),
        ({"a": LARGE, LARGE: (LARGE,)}, 3),
        ({"sink": [(7, ("writer", 0, None, "content", (LARGE, SMALL, LARGE)))]}, 2),
        ([(), [], {}, None, -1, 2.5, "text", {1, 2}, frozenset()], 0),
        (([LARGE], [SMALL], [LARGE], []), 2),
        (Blob(LARGE), 0),  # they have classes around them
        ({LARGE, SMALL}, 0),
    ],
)
def test_parts_are_the_encoding_of_the_value(value, lent):
    parts = encode_parts(value)
    assert sum(part is LARGE for part in parts) == lent
    assert all(len(part) for part in parts)
    whole = b"".join(parts)
    assert whole == encoded(value)
    for read in (decode_value(whole), decode_value(memoryview(whole))):
        assert read == value
        assert type(read) is type(value)


def nested(depth, inner=()):
    for _ in range(depth):
        inner = (inner,) if depth % 2 else [inner]
    return inner


@pytest.mark.parametrize("value", [object(), [LARGE, (object(),)], nested(200), nested(201)])
def test_what_is_no_record_is_refused(value):
    with pytest.raises(EncodeError) as expected:
        encoded(value)
    with pytest.raises(EncodeError) as raised:
        encode_parts(value)
    assert str(raised.value).rpartition(": ")[2] == str(expected.value).rpartition(": ")[2]


@pytest.mark.parametrize("data", [b"", b"\xc6\x00\x01\x00\x00" + SMALL, b"\x01\x02"])
def test_other_bytes_are_refused(data):
    with pytest.raises(DecodeError):
        decode_value(data)


def test_a_snapshot_file_is_written_from_the_bytes_themselves():
    parts = []

    class Storage(MemoryStorage):
        def put(self, name, *given):
            parts.extend(given)
            super().put(name, *given)

    state = KeyedState.of([("key", 1)], own=(0, [LARGE]))
    snapshot = TaskSnapshot(
        *("vertex", 0, 1),
        operators={"calls": state},
        positions={"source": {0: (LARGE,)}},
        prepared={"sink": [(1, ("one", LARGE, SMALL)), (2, ("two", [LARGE]))]},
    )
    SnapshotWriter(Storage(), 1).write(1, snapshot)
    assert sum(part is LARGE for part in parts) == 3
    assert sum(part is state.encoded_own[0] for part in parts) == 1
