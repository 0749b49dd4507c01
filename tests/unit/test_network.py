"""Gates between networks of one process: who gets which record, and what happens when it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.network import (
    Batch,
    Cancelled,
    Control,
    EncodeError,
    KeyExtractError,
    LatencyHistogram,
    Network,
    NetworkError,
    Paired,
    open_output_gate,
    partition,
)
from engine.partitioner import Broadcast, Forward, Hash, Partitioner, Rebalance
from engine.system import LOCAL_TRANSPORT

Open = Callable[..., tuple[Network, list[Network]]]


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Open]:
    """Makes a sending network and receiving ones, joined by channels 0, 1, …"""
    networks = []

    def listening(name: str, **settings: Any) -> Network:
        networks.append(Network([f"ipc://{tmp_path}/{name}"], **settings))
        return networks[-1]

    def connect(receivers: int = 1, **settings: Any) -> tuple[Network, list[Network]]:
        sender = listening("sender", **settings)
        targets = [listening(f"target-{index}", **settings) for index in range(receivers)]
        sender.connect([(i, target.endpoints[0]) for i, target in enumerate(targets)], [])
        for index, target in enumerate(targets):
            target.connect([], [(index, sender.endpoints[0])])
        return sender, targets

    yield connect
    for network in networks:
        network.close()
    assert list(tmp_path.iterdir()) == []


def gather(network: Network) -> tuple[list[Any], list[int]]:
    """Every record and marker until the end."""
    records, markers = [], []
    while (batch := network.receive()) is not None:
        assert len(batch) == len(batch.to_list())
        records += batch.to_list()
        markers += batch.markers
    return records, markers


def finish(sender: Network, targets: list[Network]) -> list[tuple[list[Any], list[int]]]:
    """Ends the sender; what each target received."""
    with ThreadPoolExecutor(len(targets)) as pool:
        gathered = [pool.submit(gather, target) for target in targets]
        sender.finish(timeout_seconds=30)
        return [future.result(timeout=300) for future in gathered]


def test_forward_keeps_the_order(connected: Open) -> None:
    sender, targets = connected()
    gate = open_output_gate(sender, Forward(), [0])
    for start in range(0, 1000, 7):
        gate.emit(list(range(start, min(start + 7, 1000))), [start])
    gate.emit([])
    assert finish(sender, targets) == [(list(range(1000)), list(range(0, 1000, 7)))]


def test_hash_sends_each_key_to_its_task(connected: Open) -> None:
    sender, targets = connected(3)
    gate = open_output_gate(sender, Hash(1), [0, 1, 2])
    records = [(number, f"key {number % 50}") for number in range(1000)]
    gate.emit(records[:500])
    gate.emit(records[500:])
    received = finish(sender, targets)
    for index, (got, _) in enumerate(received):
        expected = [r for r in records if partition([r[1]], 3) == [index]]
        assert got == expected != []


@pytest.mark.parametrize(
    ("key", "record"),
    [(-1, (1, "k")), (0, ["k", 1]), ("field", {"field": "k", "x": 1}), (None, "k")],
)
def test_hash_finds_keys_in_every_kind_of_record(connected: Open, key: Any, record: Any) -> None:
    sender, targets = connected(5)
    open_output_gate(sender, Hash(key), range(5)).emit([record] * 3)
    received = [records for records, _ in finish(sender, targets)]
    (target,) = partition(["k"], 5)
    assert received[target] == [record] * 3
    assert sum(map(len, received)) == 3


def test_rebalance_takes_turns_across_batches(connected: Open) -> None:
    sender, targets = connected(3)
    gate = open_output_gate(sender, Rebalance(), [0, 1, 2])
    gate.emit([0, 1, 2, 3])
    gate.emit([4], [77])
    gate.emit([5, 6])
    received = finish(sender, targets)
    assert [records for records, _ in received] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [markers for _, markers in received] == [[], [77], []]


def test_broadcast_copies_records_and_markers(connected: Open) -> None:
    sender, targets = connected(3)
    gate = open_output_gate(sender, Broadcast(), [0, 1, 2])
    records = [("x" * 1000, number) for number in range(500)]
    gate.emit(records, [1, 2])
    assert finish(sender, targets) == [(records, [1, 2])] * 3


def test_markers_of_a_batch_without_records_travel_on(connected: Open) -> None:
    sender, targets = connected()
    open_output_gate(sender, Hash(None), [0]).emit([], [5])
    assert finish(sender, targets) == [([], [5])]


def test_large_records_are_frames_of_their_own(connected: Open) -> None:
    sender, targets = connected()
    gate = open_output_gate(sender, Forward(), [0])
    records = ["small", "x" * 5_000_000, "small"]
    emitting = threading.Thread(target=gate.emit, args=(records,))
    emitting.start()
    received: list[Any] = []
    while len(received) < 3:
        batch = targets[0].receive()
        assert batch is not None
        received += batch.to_list()
    emitting.join()
    assert received == records


@pytest.mark.parametrize("partitioner", [Forward(), Hash(None), Rebalance(), Broadcast()])
def test_a_record_that_is_too_large_is_named_and_alone_refused(
    connected: Open, partitioner: Any
) -> None:
    receivers = 1 if partitioner == Forward() else 2
    sender, targets = connected(receivers, max_frame_bytes=100_000)
    gate = open_output_gate(sender, partitioner, list(range(receivers)))
    fine = [
        "small",
        *(letter * 60_000 for letter in "abcdef"),
    ]  # two of them are too large together
    message = (
        r"^record 7 of the batch, 'zz.*zz': it takes 200005 bytes, expected at most 100000\n\n"
        "hint: raise max_record_bytes, or split it"
    )
    with ThreadPoolExecutor(receivers) as pool:
        gathered = [pool.submit(gather, target) for target in targets]
        with pytest.raises(EncodeError, match=message):
            gate.emit([*fine, "z" * 200_000, "never"])
        sender.finish(timeout_seconds=30)
    received = [record for future in gathered for record in future.result()[0]]
    copies = receivers if partitioner == Broadcast() else 1
    assert sorted(received) == sorted(fine * copies)


def test_a_record_that_cannot_travel_leaves_the_ones_before_it(connected: Open) -> None:
    sender, targets = connected(2)
    gate = open_output_gate(sender, Rebalance(), [0, 1])
    with pytest.raises(EncodeError, match=r"^record 2 of the batch, \('c', <object"):
        gate.emit(["a", "b", ("c", object()), "d"], [1])
    gate.emit(["e"])
    received = [record for records, _ in finish(sender, targets) for record in records]
    assert sorted(received) == ["a", "b", "e"]


@pytest.mark.parametrize(
    "partitioner", [Forward(), Rebalance(), Broadcast(), Hash(0), Hash(1), Hash(None)], ids=str
)
def test_pairs_go_where_their_tuples_go(connected: Open, partitioner: Partitioner) -> None:
    receivers = 1 if partitioner == Forward() else 3
    words: list[Any] = [f"word {number}" for number in range(51)] + [(1, 2), None, "x" * 5000]
    sender, targets = connected(receivers)
    gate = open_output_gate(sender, partitioner, list(range(receivers)))
    gate.emit(Paired(words, 2**40), [7])
    gate.emit([(word, 2**40) for word in words], [7])
    for records, markers in finish(sender, targets):
        half = len(records) // 2
        assert records[:half] == records[half:]
        assert set(markers) <= {7}
    assert Paired(words, "!").to_list() == [(word, "!") for word in words]


@pytest.mark.parametrize(("beside", "place"), [(1, 1), (object(), 0)])
def test_a_pair_that_cannot_travel_leaves_the_ones_before_it(
    connected: Open, beside: Any, place: int
) -> None:
    sender, targets = connected()
    gate = open_output_gate(sender, Forward(), [0])
    with pytest.raises(EncodeError, match=f"^record {place} of the batch, <object"):
        gate.emit(Paired(["a", object(), "b"], beside))
    gate.emit(["c"])
    assert finish(sender, targets) == [([("a", 1)] * place + ["c"], [])]


@pytest.mark.parametrize(
    ("key", "record", "message"),
    [
        (2, (1, 2), r"record 1 of the batch, \(1, 2\), key 2: the record has no such key"),
        (-3, [1, 2], "no such key"),
        (0, "text", "the record is a str, expected a tuple or list"),
        ("a", {"b": 1}, "key 'a': the record has no such key"),
        ("a", (1,), "the record is a tuple, expected a dict or an object with fields"),
        (None, [1], "a list cannot be a key: it is not hashable"),
        (0, ({},), "a dict cannot be a key"),
        (0, (object(),), "object cannot be a key"),
    ],
)
def test_a_record_without_a_key_is_named(
    connected: Open, key: Any, record: Any, message: str
) -> None:
    sender, _ = connected(2)
    gate = open_output_gate(sender, Hash(key), [0, 1])
    fine = {"a": 1} if isinstance(key, str) else (1, 2, 3)
    with pytest.raises(KeyExtractError, match=message) as raised:
        gate.emit([fine, record])
    assert "\n\nhint: " in str(raised.value)


def test_a_gate_blocks_while_its_receiver_does_not_consume(connected: Open) -> None:
    sender, targets = connected(window_bytes=65_536, send_buffer_bytes=65_536)
    gate = open_output_gate(sender, Forward(), [0])
    emitted = []

    def emit() -> None:
        for number in range(2000):
            gate.emit(["x" * 1000])
            emitted.append(number)

    emitting = threading.Thread(target=emit)
    emitting.start()
    while sender.statistics().backlog_bytes < 65_536:
        pass
    assert len(emitted) < 2000
    received = 0
    while received < 2000:
        batch = targets[0].receive()
        assert batch is not None
        received += len(batch)
    emitting.join(timeout=300)
    statistics = sender.statistics()
    assert statistics.blocked_seconds > 0
    assert statistics.outputs[0].records == 2000
    assert targets[0].statistics().inputs[0].records == 2000


def test_cancel_wakes_a_gate_that_blocks(connected: Open) -> None:
    sender, _ = connected(window_bytes=65_536, send_buffer_bytes=65_536)
    gate = open_output_gate(sender, Forward(), [0])

    def emit_forever() -> None:
        while True:
            gate.emit(["x" * 1000] * 100)

    with ThreadPoolExecutor() as pool:
        emitting = pool.submit(emit_forever)
        while sender.statistics().backlog_bytes <= 32_768:  # a gate that waits goes on at half
            pass
        sender.cancel()
        assert isinstance(emitting.exception(timeout=300), Cancelled)
    with pytest.raises(Cancelled):
        gate.emit(["more"] * 100_000)


def test_controls_come_in_their_place_and_in_order(connected: Open) -> None:
    sender, (target,) = connected()
    gate = open_output_gate(sender, Forward(), [0])
    for control in [Control.idle(), Control.watermark(-5)]:
        gate.send_control(control)
        assert target.receive() == control
    gate.emit(["a"])
    gate.send_control(Control.watermark(7))
    gate.send_control(Control.barrier(1))
    gate.emit(["b"])
    batch = target.receive()
    assert isinstance(batch, Batch)
    assert batch.to_list() == ["a"]
    assert [target.receive(), target.receive()] == [Control.watermark(7), Control.barrier(1)]
    with pytest.raises(ValueError, match="released"):
        batch.to_list()
    batch = target.receive()
    assert isinstance(batch, Batch)
    assert batch.to_list() == ["b"]


def test_a_control_tells_what_it_is() -> None:
    watermark, idle, barrier = Control.watermark(7), Control.idle(), Control.barrier(7)
    assert [(each.time_us, each.epoch) for each in (watermark, idle, barrier)] == [
        (7, None),
        (None, None),
        (None, 7),
    ]
    assert {watermark, Control.watermark(7), barrier} == {watermark, barrier}
    assert repr([watermark, idle, barrier]) == (
        "[Control.watermark(7), Control.idle(), Control.barrier(7)]"
    )


def test_every_channel_of_a_gate_gets_a_control(connected: Open) -> None:
    sender, targets = connected(3)
    open_output_gate(sender, Hash(None), [0, 1, 2]).send_control(Control.barrier(1))
    assert [target.receive() for target in targets] == [Control.barrier(1)] * 3


def test_what_does_not_come_in_time_is_no_end(connected: Open) -> None:
    sender, (target,) = connected()
    with pytest.raises(TimeoutError):
        target.receive(0)
    with pytest.raises(TimeoutError):
        target.receive(timeout_seconds=0.02)
    with pytest.raises(ValueError, match="timeout_seconds is -1"):
        target.receive(-1)
    with ThreadPoolExecutor() as pool:
        ending = pool.submit(sender.finish, 30)
        assert target.receive(30) is None
        ending.result()


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[tuple[list[Network], Network]]:
    """Two senders, of channels 0 and 1, which are inputs 0 and 1 of a target; 1 is a side input."""
    names = ["records", "side", "target"]
    networks = [Network([f"{LOCAL_TRANSPORT}://{tmp_path}/{name}"]) for name in names]
    *senders, target = networks
    with ThreadPoolExecutor() as pool:
        connecting = [
            pool.submit(sender.connect, [(at, target.endpoints[0])])
            for at, sender in enumerate(senders)
        ]
        target.connect(
            [], *([(at, each.endpoints[0])] for at, each in enumerate(senders)), side=[1]
        )
        for each in connecting:
            each.result()
    yield senders, target
    for network in networks:
        network.close()


def test_a_batch_holds_records_of_one_input(beside: tuple[list[Network], Network]) -> None:
    senders, target = beside
    for number, sender in enumerate(senders):
        open_output_gate(sender, Forward(), [number]).emit([number])
    found = {}
    while len(found) < 2:
        batch = target.receive(30)
        assert isinstance(batch, Batch)
        found[batch.input] = batch.to_list()
    assert found == {0: [0], 1: [1]}


def test_nobody_waits_for_the_end_of_a_side_input(beside: tuple[list[Network], Network]) -> None:
    senders, target = beside
    with ThreadPoolExecutor() as pool:
        ending = pool.submit(senders[0].finish, 30)
        assert target.receive() is None
        assert target.receive() is None
        ending.result()
        target.include_side_inputs()
        with pytest.raises(TimeoutError):
            target.receive(0.01)
        ending = pool.submit(senders[1].finish, 30)
        assert target.receive() is None
        ending.result()


def test_holds_for_different_reasons_do_not_free_each_other(
    beside: tuple[list[Network], Network],
) -> None:
    senders, target = beside
    open_output_gate(senders[0], Forward(), [0]).emit(["held"])
    for reason in ("model", "memory"):
        target.pause([0], reason)
    for reason in ("memory", "memory", "other"):
        target.resume([0, 1], reason)
    with pytest.raises(TimeoutError):
        target.receive(0.05)
    target.resume([0], "model")
    batch = target.receive(30)
    assert isinstance(batch, Batch)
    assert batch.to_list() == ["held"]
    with pytest.raises(ValueError, match="channel 7 is no input of this task"):
        target.resume([7], "model")


def test_cancel_wakes_a_network_that_receives(connected: Open) -> None:
    _, (target,) = connected()
    with ThreadPoolExecutor() as pool:
        receiving = pool.submit(target.receive)
        target.cancel()
        assert isinstance(receiving.exception(timeout=300), Cancelled)
    with pytest.raises(Cancelled):
        target.receive()


def test_a_network_that_receives_is_woken_once(connected: Open) -> None:
    sender, (target,) = connected()
    with ThreadPoolExecutor() as pool:
        receiving = pool.submit(target.receive)
        target.wake()
        assert isinstance(receiving.exception(timeout=300), InterruptedError)
    open_output_gate(sender, Forward(), [0]).emit(["word"])
    batch = target.receive(30)
    assert isinstance(batch, Batch)
    assert batch.to_list() == ["word"]


def test_what_a_gate_cannot_be_is_refused(connected: Open) -> None:
    sender, _ = connected(2)
    for channels, name, expected in [
        ([], "forward", "expected at least one"),
        ([0, 1], "forward", "expected one for forward"),
        ([0, 1], "sideways", "expected forward, hash, rebalance or broadcast"),
        ([7], "forward", "channel 7 is no output of this task"),
    ]:
        with pytest.raises(ValueError, match=expected):
            sender.output_gate(channels, name)
    with pytest.raises(TypeError, match="expected None, int or str"):
        sender.output_gate([0, 1], "hash", 1.5)


def test_records_are_given_as_a_list(connected: Open) -> None:
    sender, _ = connected()
    gate: Any = open_output_gate(sender, Forward(), [0])
    with pytest.raises(TypeError):
        gate.emit("text")
    with pytest.raises(TypeError):
        Batch.from_list((1, 2))  # type: ignore[arg-type]


def test_networks_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        Network(["udp://127.0.0.1:1"])
    with pytest.raises(NetworkError, match="cannot listen"):
        Network([f"ipc://{tmp_path}/missing/x"])
    with pytest.raises(ValueError, match=r"linger_ms is -0\.001 s"):
        Network([f"ipc://{tmp_path}/x"], linger_ms=-1)


def test_latencies_merge_and_travel_as_bytes() -> None:
    histogram = LatencyHistogram()
    histogram.record(1_000_000)
    histogram.record_many([1_000, 2_000, 99_000_000], 12_000)
    other = LatencyHistogram()
    other.merge(histogram.to_bytes())
    again = LatencyHistogram.from_bytes(other.to_bytes())
    assert again.count == 4
    assert again.max == pytest.approx(1000, rel=1e-2)
    assert again.percentile(75) == pytest.approx(11, rel=1e-2)
    assert again.mean == pytest.approx((1000 + 11 + 10 + 0) / 4, rel=1e-2)
    with pytest.raises(ValueError, match="no latency histogram"):
        histogram.merge(b"garbage")
