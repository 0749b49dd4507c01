"""Several decoders in one process, of which one has the caches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from engine.network import Batch
from engine.record import registry

SECONDS = 60


class Meeting:
    """Two threads meet in the middle of what each decodes."""

    def __init__(self) -> None:
        self.unpickling, self.hashing, self.is_over = (threading.Event() for _ in range(3))


meeting = Meeting()


class Pickled:
    """While it is unpickled, the caches are free, and the other decoder takes them."""

    def __reduce__(self) -> tuple[Callable[[], str], tuple[()]]:
        return unpickled, ()


def unpickled() -> str:
    meeting.unpickling.set()
    assert meeting.hashing.wait(SECONDS)
    return "unpickled"


@dataclass
class Key:
    """While it is hashed, its decoder has the caches."""

    number: int

    def __hash__(self) -> int:
        if meeting.unpickling.is_set():
            meeting.hashing.set()
            assert meeting.is_over.wait(SECONDS)
        return self.number


@pytest.fixture
def trusted() -> Iterator[None]:
    before = registry.is_trusted()
    registry.trust(True)
    yield
    registry.trust(before)


@pytest.mark.usefixtures("trusted")
def test_a_decoder_goes_on_without_the_caches_that_another_has_taken() -> None:
    records = Batch.from_list([(Pickled(), 0), *[(number, 0) for number in range(100)]], True)
    keys = Batch.from_list([{Key(7): 1}])
    found: list[Any] = []

    def decode_keys() -> None:
        assert meeting.unpickling.wait(SECONDS)
        found.extend(keys.decode())

    thread = threading.Thread(target=decode_keys)
    thread.start()
    try:
        assert records.decode() == [("unpickled", 0), *[(number, 0) for number in range(100)]]
    finally:
        meeting.is_over.set()
        thread.join()
    assert found == [{Key(7): 1}]
