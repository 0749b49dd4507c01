"""A gate sends encoded records where it sends their objects, byte by byte."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.network import (
    Batch,
    Control,
    EncodeError,
    KeyExtractError,
    Network,
    OutputGate,
    open_output_gate,
)
from engine.partitioner import Broadcast, Forward, Hash, Partitioner, Rebalance
from tests.part import examples
from tests.property.test_codec import hashable
from tests.pythonvalues import KEYS, REFUSED_KEYS, Pair, Place

TASKS = 3
MOST_BYTES = 150_000
BY_KEY = [None, 0, 1, -1, "row", "name", ("row", "name"), (0, 1), (1,), ()]
SHAPES: list[Callable[[Any], Any]] = [
    lambda key: key,
    lambda key: (key, 1),
    lambda key: [0, key],
    lambda key: {"name": "x", "row": key},
    lambda key: Place(key, "x"),
    lambda key: Pair(key, 2),
]


class Channels:
    """A gate's channels to some tasks of this process."""

    def __init__(self, folder: str) -> None:
        room: Any = {
            "window_bytes": 1 << 25,
            "send_buffer_bytes": 1 << 25,
        }  # nobody reads meanwhile
        sender, *targets = (
            Network([f"ipc://{folder}/{at}"], max_frame_bytes=MOST_BYTES, **room)
            for at in range(TASKS + 1)
        )
        self._sender, self._targets = sender, targets
        ends = [(at, each.endpoints[0]) for at, each in enumerate(self._targets)]
        self._sender.connect(ends, [])
        for at, each in enumerate(self._targets):
            each.connect([], [(at, self._sender.endpoints[0])])
        self._epoch = 0

    def gate(self, partitioner: Partitioner) -> OutputGate:
        tasks = range(1 if partitioner == Forward() else TASKS)
        return open_output_gate(self._sender, partitioner, list(tasks))

    def emitted(self, gate: OutputGate, batches: list[Any], tasks: int) -> tuple[Any, ...]:
        """What raised, and the records' bytes and markers that came to each task."""
        raised = []
        for number, batch in enumerate(batches):
            try:
                gate.emit(batch, [number])
            except (EncodeError, KeyExtractError) as error:
                index = getattr(error, "record_index", None)
                raised.append((type(error), str(error), index, repr(error.__cause__)))
        self._epoch += 1
        gate.send_control(Control.barrier(self._epoch))
        return raised, [self._received(target) for target in self._targets[:tasks]]

    def _received(self, target: Network) -> tuple[int, bytes, list[int]]:
        count, data, markers = 0, b"", []
        while isinstance(batch := target.receive(), Batch):
            count += len(batch)
            data += encoded(batch)
            markers += batch.markers
        return count, data, markers

    def next_batch(self) -> Batch:
        batch = self._targets[0].receive()
        assert isinstance(batch, Batch)
        return batch

    def close(self) -> None:
        for network in (self._sender, *self._targets):
            network.close()


def encoded(batch: Batch) -> bytes:
    try:
        (frames,) = batch.__reduce__()[1]
    except ValueError:  # of columns
        return repr(batch.to_list()).encode()
    return b"".join(body for _, body in frames)


@pytest.fixture(scope="module")
def channels() -> Iterator[Channels]:
    with tempfile.TemporaryDirectory(prefix="oka-") as folder:
        made = Channels(folder)
        yield made
        made.close()


def check(channels: Channels, partitioner: Partitioner, batches: list[list[Any]]) -> Any:
    """What is emitted of lists, which is what is emitted of encoded batches."""
    tasks = 1 if partitioner == Forward() else TASKS
    lists = channels.emitted(channels.gate(partitioner), batches, tasks)
    copied = [Batch.from_list(batch) for batch in batches]
    assert channels.emitted(channels.gate(partitioner), copied, tasks) == lists
    return lists


@pytest.mark.parametrize("key", BY_KEY, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_kind_of_key_goes_to_its_task(channels: Channels, key: Any, shape: Any) -> None:
    kinds = [*KEYS.values(), *(v for kind, v in REFUSED_KEYS.items() if kind != "range")]
    batches = [[shape(value)] for kind in kinds for value in kind]
    raised, received = check(channels, Hash(key), batches)
    assert len(raised) + sum(count for count, _, _ in received) == len(batches)


@pytest.mark.parametrize("partitioner", [Forward(), Rebalance(), Broadcast(), Hash(0)], ids=str)
def test_frames_are_cut_and_large_records_refused(
    channels: Channels, partitioner: Partitioner
) -> None:
    batches = [
        [],
        [(number, "x" * number) for number in range(400)],
        [(0, "x" * 60_000), (0, "y" * 60_000), (0, "z" * 60_000), (1, "a")],
        [(number, "b") for number in range(20_000)],
        [(0, "before"), (0, "x" * MOST_BYTES), (0, "never")],
        [(0, "last")],
    ]
    raised, _ = check(channels, partitioner, batches)
    assert [each[2] for each in raised] == [1]


@pytest.mark.parametrize("partitioner", [Forward(), Rebalance(), Hash("n")], ids=str)
def test_columns_of_a_batch_go_as_columns(channels: Channels, partitioner: Partitioner) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = pyarrow.record_batch({"n": list(range(50)), "w": ["x"] * 50})
    tasks = 1 if partitioner == Forward() else TASKS
    both = [columns], [Batch.from_columns(columns)]
    left, right = (channels.emitted(channels.gate(partitioner), each, tasks) for each in both)
    assert left == right
    assert sum(count for count, _, _ in left[1]) == 50


def test_a_batch_that_was_released_is_refused(channels: Channels) -> None:
    gate = channels.gate(Forward())
    gate.emit([1])
    batch = channels.next_batch()
    gate.emit([2])
    channels.next_batch()
    with pytest.raises(ValueError, match="released"):
        gate.emit(batch)


keys = hashable | st.sampled_from([value for kind in KEYS.values() for value in kind])


@settings(max_examples=examples(40))
@given(
    partitioner=st.sampled_from([Rebalance(), Broadcast(), *map(Hash, BY_KEY)]),
    shape=st.sampled_from(SHAPES),
    batches=st.lists(st.lists(keys, max_size=5), max_size=2),
)
def test_random_records(
    channels: Channels, partitioner: Partitioner, shape: Any, batches: list[list[Any]]
) -> None:
    check(channels, partitioner, [[*map(shape, batch)] for batch in batches])
