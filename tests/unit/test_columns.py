"""Columns over gates and channels, and what the native aggregates make of them."""

from __future__ import annotations

import contextlib
import mmap
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.columns import (
    as_columns,
    check_columns,
    columns_of,
    is_columns,
    packed,
    rows,
    slices,
    unpacked,
)
from engine.errors import GraphError
from engine.network import (
    Aggregate,
    AggregateError,
    Batch,
    Cancelled,
    ChannelLost,
    EncodeError,
    KeyedEntries,
    KeyExtractError,
    Network,
    WindowAggregate,
    open_output_gate,
    partition,
)
from engine.partitioner import Broadcast, Forward, Hash, Partitioner, Rebalance
from operators.sources import Collection

Received = list[tuple[Any, list[int]]]
Send = Callable[..., list[Received]]


@pytest.fixture
def send(tmp_path: Path) -> Iterator[Send]:
    """Emits batches through a gate; what each target received: batches, decoded, and markers.

    With an aggregate, its updates instead of the batches.
    """
    networks = []

    def run(
        partitioner: Partitioner,
        batches: list[Any],
        targets: int = 1,
        aggregate: Aggregate | None = None,
    ) -> list[Received]:
        def listening(name: str) -> Network:
            networks.append(Network([f"ipc://{tmp_path}/{len(networks)}-{name}"]))
            return networks[-1]

        sender = listening("sender")
        receivers = [listening(f"target-{index}") for index in range(targets)]
        sender.connect([(i, target.endpoints[0]) for i, target in enumerate(receivers)], [])
        for index, target in enumerate(receivers):
            target.connect([], [(index, sender.endpoints[0])])
        found: list[Received] = [[] for _ in receivers]

        def receive(index: int) -> None:
            with contextlib.suppress(Cancelled, ChannelLost):
                receive_all(index)

        def receive_all(index: int) -> None:
            while (batch := receivers[index].receive()) is not None:
                if aggregate is not None:
                    try:
                        found[index].append((aggregate.update(batch), batch.markers))
                    except Exception as error:  # noqa: BLE001 - the test looks at it
                        found[index].append((error, batch.markers))
                    continue
                decoded = batch.decode()
                assert len(batch) == len(decoded)
                found[index].append((decoded, batch.markers))

        threads = [threading.Thread(target=receive, args=(i,)) for i in range(targets)]
        for thread in threads:
            thread.start()
        gate = open_output_gate(sender, partitioner, list(range(targets)))
        for number, batch in enumerate(batches):
            gate.emit(batch, [number])
        sender.finish(timeout_seconds=30)
        for thread in threads:
            thread.join()
        return found

    yield run
    for network in networks:
        network.close()


def table(received: Received) -> pa.Table:
    return pa.Table.from_batches([batch for batch, _ in received if len(batch)])


def words(*texts: str | None, **more: Any) -> pa.RecordBatch:
    return pa.record_batch({"word": pa.array(texts, pa.string()), **more})


def test_columns_arrive_equal_and_in_order_between_records(send: Send) -> None:
    first, second = words("to", None, "be"), words("or")
    numbers = pa.record_batch({"n": pa.array([1, None, 3])})
    sent = [first, second, ["a record"], numbers, [("another", 1)], first.slice(1, 2)]
    (received,) = send(Forward(), sent)
    records = [r for batch, _ in received for r in (batch if type(batch) is list else [batch])]
    rows = [r for r in records if not is_columns(r)]
    assert rows == ["a record", ("another", 1)]
    flat = [row for r in records for row in (r.to_pylist() if is_columns(r) else [r])]
    assert flat == [
        {"word": "to"},
        {"word": None},
        {"word": "be"},
        {"word": "or"},
        "a record",
        {"n": 1},
        {"n": None},
        {"n": 3},
        ("another", 1),
        {"word": None},
        {"word": "be"},
    ]
    assert [marker for _, markers in received for marker in markers] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("of", ["an aggregate", "windows"])
@pytest.mark.parametrize("key", ["numbers", "coded", "both"])
def test_keys_copied_behind_batches_are_those_copied_at_once(send: Send, key: str, of: str) -> None:
    columns: Any = {"numbers": [["n"]], "coded": [["text"]], "both": [["n"], ["text"]]}[key]

    def made(copies: bool) -> Any:
        wanted: Any = [("count", [])]
        if of == "an aggregate":
            return Aggregate(columns, wanted, copies_keys=copies)
        slices: Any = {
            "windows": ("slices", [10, 10, 0]),
            "time": (["t"], "us", None, 0),
            "times": None,
        }
        return WindowAggregate(columns, wanted, None, **slices, copies_keys=copies)

    class Taking:
        """Takes snapshots of two aggregates, of which one copies keys behind each batch."""

        def __init__(self) -> None:
            self.kept = [made(copies) for copies in (True, False)]
            self.taken: list[list[KeyedEntries]] = []

        def update(self, batch: Batch) -> None:
            for each in self.kept:
                each.add(batch)
            if len(self.taken) != 1:  # of the second, keys are copied and no snapshot is taken
                self.taken.append([each.snapshot()[1] for each in self.kept])
            else:
                self.taken.append([])

    codes = pa.array([*range(0, 6000, 2), None, 5999], pa.int32())
    coded = pa.DictionaryArray.from_arrays(codes, [f"text {at}" for at in range(6000)])
    none = pa.nulls(len(codes), pa.int64())
    times = pa.array([0, 10] * (len(codes) // 2))  # of two slices
    parts = [
        pa.record_batch({"n": numbers, "text": coded, "t": times})
        for numbers in (
            *(pa.array(range(first, first + len(codes))) for first in range(0, 15000, 2500)),
            none,
        )
    ]
    taking: Any = Taking()
    send(Forward(), parts, aggregate=taking)
    assert len(taking.taken) > 2  # small batches may come together
    for copied, at_once in filter(None, reversed(taking.taken)):
        assert len(copied) > 3000
        assert copied == at_once


@pytest.mark.parametrize("of", ["an aggregate", "windows"])
def test_a_snapshot_is_of_its_time_whoever_reads_it_when(send: Send, of: str) -> None:
    class Taking:
        """Takes a snapshot behind each batch, and reads none."""

        def __init__(self) -> None:
            wanted: Any = [("count", [])]
            counts: Any = {
                "windows": ("counts", [10**6] * 2),
                "time": ([], None, None, 0),
                "times": None,
            }
            self.kept: Any = Aggregate([["word"]], wanted)
            if of == "windows":
                self.kept = WindowAggregate([["word"]], wanted, None, **counts)
            self.rows = 0
            self.taken: list[tuple[int, KeyedEntries]] = []

        def update(self, batch: Batch) -> None:
            self.kept.add(batch)
            self.rows += len(batch)
            self.taken.append((self.rows, self.kept.snapshot()[1]))

    texts = [f"key {number * number % 97}" for number in range(500)]
    parts = [words(*texts[first : first + 50]) for first in range(0, len(texts), 50)]
    taking: Any = Taking()
    send(Forward(), parts, aggregate=taking)
    assert taking.rows == len(texts)
    for count, entries in reversed(taking.taken):
        counts = Counter(texts[:count])
        values = entries.values()
        if (
            of == "windows"
        ):  # how many records there were, and windows: where each begins, and its count
            values = [value for _, ((_, value),) in values]
        assert len(entries) == len(counts)
        assert dict(zip(entries.keys(), values, strict=True)) == counts


def test_rows_go_where_records_with_their_key_go(send: Send) -> None:
    texts = [f"key {number % 50}" for number in range(1000)]
    plain = words(*texts, n=pa.array(range(1000)))
    coded = pa.record_batch([plain["word"].dictionary_encode(), plain["n"]], ["word", "n"])
    for batch in (plain, coded):
        for index, received in enumerate(send(Hash("word"), [batch.slice(0, 500), batch], 3)):
            found = table(received)
            expected = [n for n in range(1000) if partition([texts[n]], 3) == [index]]
            halves = [n for n in expected if n < 500]
            assert found["n"].to_pylist() == halves + expected
            assert found.schema == batch.schema


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, 1, None], pa.int8()),
        pa.array([1, 2**63, 1, None], pa.uint64()),
        pa.array([True, False, True, None]),
        pa.array([1.0, 0.5, float("nan"), None]),
        pa.array([b"a", b"b", b"a", None]),
        pa.array(["a", "b", "a", None], pa.large_string()),
        pa.array(["a", "b", "a", None], pa.string_view()),
        pa.array(["a", "b", "a", None]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_of_key_is_partitioned_and_counted(send: Send, column: pa.Array) -> None:
    batch = pa.record_batch([column], ["key"])
    for index, received in enumerate(send(Hash(0), [batch], 5)):
        keys = table(received)["key"].to_pylist() if any(len(b) for b, _ in received) else []
        assert all(partition([key], 5) == [index] for key in keys)
    (((counts, _),),) = send(Forward(), [batch], aggregate=Aggregate([[0]], [("count", [])]))
    kind = column.type
    if not (pa.types.is_primitive(kind) or pa.types.is_dictionary(kind)):
        kind = pa.dictionary(pa.int32(), kind)  # results share their keys
    assert counts.schema.field("key").type == kind
    is_float = pa.types.is_floating(column.type)
    assert counts["count"].to_pylist() == ([1] * 4 if is_float else [2, 1, 1])


def test_rebalance_deals_out_batches_and_broadcast_copies_them(send: Send) -> None:
    batches = [words(f"{number}") for number in range(5)]
    received = send(Rebalance(), batches, 2)
    found = [table(target)["word"].to_pylist() for target in received]
    assert found == [["0", "2", "4"], ["1", "3"]]
    for target in send(Broadcast(), batches, 3):
        assert table(target)["word"].to_pylist() == ["0", "1", "2", "3", "4"]
        assert [marker for _, markers in target for marker in markers] == [0, 1, 2, 3, 4]


def test_a_large_batch_travels_in_pieces(send: Send) -> None:
    batch = words(*(f"{number:01000}" for number in range(2000)))
    (received,) = send(Forward(), [batch])
    assert len(received) > 1
    assert table(received)["word"].to_pylist() == batch["word"].to_pylist()


def test_a_batch_without_rows_gives_its_markers_on(send: Send) -> None:
    (received,) = send(Forward(), [words(), words("a")])
    assert [marker for _, markers in received for marker in markers] == [0, 1]
    assert table(received)["word"].to_pylist() == ["a"]


def test_sums_keep_the_dictionary_of_the_key(send: Send) -> None:
    coded = pa.array(["a", "b", "a"]).dictionary_encode()
    batch = pa.record_batch({"word": coded, "n": pa.array([1, 2, 3])})
    by_word = Aggregate([["word"]], [("sum", ["n"])])
    (((sums, _),),) = send(Forward(), [batch], aggregate=by_word)
    assert sums.to_pylist() == [{"word": "a", "sum": 4}, {"word": "b", "sum": 2}]
    assert sums.schema.field("word").type == coded.type


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (Aggregate([["m"]], [("count", [])]), 'no column "m"; the columns are word'),
        (Aggregate([[]], [("count", [])]), "key_by() names no column"),
        (Aggregate([["word"]], [("sum", [])]), "names no column"),
        (Aggregate([["word"]], [("sum", ["word"])]), 'sum of column "word" of type Utf8'),
        (Aggregate([[0, 1]], [("count", [])]), "names no column"),
    ],
)
def test_an_aggregate_that_does_not_suit_says_so(
    send: Send, aggregate: Aggregate, message: str
) -> None:
    (((error, _),),) = send(Forward(), [words("a")], aggregate=aggregate)
    assert isinstance(error, AggregateError)
    assert message in str(error)
    assert "\n\nhint: " in str(error)


def test_records_and_columns_mix_in_an_aggregate_of_named_keys(send: Send) -> None:
    (received,) = send(Forward(), [["a"], words("a")], aggregate=Aggregate([[]], [("count", [])]))
    assert [type(update) for update, _ in received] == [list, AggregateError]
    by_name = Aggregate([["word"]], [("count", [])])
    (received,) = send(Forward(), [words("a"), [{"word": "a"}]], aggregate=by_name)
    assert received[1][0].to_pylist() == [{"word": "a", "count": 2}]
    by_name = Aggregate([["word"]], [("count", [])])
    (received,) = send(Forward(), [[{"word": "a"}], words("a", "b")], aggregate=by_name)
    assert received[1][0] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("key", "batch", "message"),
    [
        ("m", words("a", "b"), 'no column "m"'),
        (None, words("a", "b"), "expected the name of a column"),
        (0, pa.record_batch({"l": pa.array([[1], [2]])}), "holds no keys"),
    ],
)
def test_a_batch_without_a_key_is_refused(
    send: Send, key: Any, batch: pa.RecordBatch, message: str
) -> None:
    with pytest.raises(KeyExtractError, match=message) as raised:
        send(Hash(key), [batch], 2)
    assert "\n\nhint: " in str(raised.value)


def test_only_lists_and_columns_are_emitted(send: Send) -> None:
    with pytest.raises(TypeError, match=r"got a dict, expected a list or a pyarrow\.RecordBatch"):
        send(Forward(), [{"word": "a"}])


def test_a_name_that_several_columns_have_names_none(send: Send) -> None:
    batch = pa.record_batch([pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6])], ["a", "b", "a"])
    message = 'there is more than one column "a"; the columns are a, b, a'
    with pytest.raises(KeyExtractError, match=message):
        send(Hash("a"), [batch], 2)
    for aggregate in (Aggregate([["a"]], [("count", [])]), Aggregate([["b"]], [("sum", ["a"])])):
        (((error, _),),) = send(Forward(), [batch], aggregate=aggregate)
        assert isinstance(error, AggregateError)
        assert message in str(error)
        assert "hint: name one of these columns, or say its index" in str(error)
    (((sums, _),),) = send(Forward(), [batch], aggregate=Aggregate([[1]], [("sum", [2])]))
    assert sums.to_pylist() == [{"b": 3, "sum": 5}, {"b": 4, "sum": 6}]
    with pytest.raises(ValueError, match=r"columns are a, b, a; a dict of a row would have a once"):
        rows(batch)


def test_a_schema_that_nests_too_deeply_does_not_leave(send: Send) -> None:
    def nested(levels: int) -> pa.RecordBatch:
        column: pa.Array = pa.array([1])
        for _ in range(levels - 1):
            column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), column)
        return pa.record_batch([column], ["n"])

    (received,) = send(Forward(), [nested(61)])
    assert table(received).equals(pa.Table.from_batches([nested(61)]))
    with pytest.raises(EncodeError, match="nests 70 levels deep, expected at most 61") as raised:
        send(Forward(), [nested(70)])
    assert "same version" not in str(raised.value)


def test_a_table_of_more_than_a_batch_can_hold_is_refused_whole() -> None:
    """Its bytes are never touched: it takes no memory, here or where it is refused."""
    rows, size = 1200, 1 << 20
    ends = pa.array(range(0, (rows + 1) * size, size), pa.int32())
    zeros = pa.py_buffer(mmap.mmap(-1, rows * size))
    texts = pa.StringArray.from_buffers(rows, ends.buffers()[1], zeros)
    whole = pa.table(
        {
            "n": pa.chunked_array([pa.array(range(2 * rows))]),
            "text": pa.chunked_array([texts, texts]),
        }
    )
    with pytest.raises(
        ValueError, match=r"2400 rows cannot be one RecordBatch: .*overflow"
    ) as raised:
        as_columns(whole)
    assert "hint: make smaller tables" in str(raised.value)
    lists = pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), texts)
    with pytest.raises(ValueError, match="cannot be one RecordBatch"):
        as_columns(pa.table({"texts": pa.chunked_array([lists, lists])}))
    assert as_columns(whole.slice(0, rows)).num_rows == rows


def test_tables_of_several_chunks_are_whole() -> None:
    columns = {"n": [[1, 2], [3]], "m": [[1], [2, 3]], "word": [["a"], ["b", "a"]]}
    chunked = {
        name: pa.chunked_array(
            [pa.array(c).dictionary_encode() if name == "word" else pa.array(c) for c in chunks]
        )
        for name, chunks in columns.items()
    }
    batch = as_columns(pa.table(chunked))
    assert batch.to_pydict() == {"n": [1, 2, 3], "m": [1, 2, 3], "word": ["a", "b", "a"]}
    twice = pa.schema([("a", pa.int64()), ("a", pa.string())], metadata={"k": "v"})
    assert as_columns(twice.empty_table()).schema.equals(twice, check_metadata=True)


def test_rows_without_a_column_are_refused() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))
    whole = pa.table({"a": [1, 2, 3]}).select([])
    assert (batch.num_rows, whole.num_rows) == (5, 3)
    for refuse in (
        lambda: as_columns(batch),
        lambda: as_columns(whole),
        lambda: slices(batch, 2),
        lambda: slices(batch, 9),
        lambda: check_columns(batch),
    ):
        with pytest.raises(ValueError, match=r"^[53] rows without a column cannot travel"):
            refuse()
    with pytest.raises(GraphError, match="Collection got rows without a column"):
        Collection([batch])
    check_columns(batch.slice(0, 0))


def test_dicts_become_columns_of_all_their_fields() -> None:
    batch = columns_of([{"a": 1}, {"b": "x", "a": None}, {}, {"c": 2.5}])
    assert batch.schema.names == ["a", "b", "c"]
    assert batch.to_pylist() == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": "x", "c": None},
        {"a": None, "b": None, "c": None},
        {"a": None, "b": None, "c": 2.5},
    ]
    schema = pa.schema([("b", pa.large_string()), ("a", pa.int8())])
    batch = columns_of([{"a": 1, "c": 0}, {"b": "x"}], schema)
    assert batch.schema == schema
    assert batch.to_pylist() == [{"b": None, "a": 1}, {"b": "x", "a": None}]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"a": 1}, 5], "to_columns() got int, expected a dict"),
        ([{}, {}], "to_columns() got 2 dicts without a field, expected one"),
        ([{"a": 1}, {1: 2}], "to_columns() got the field name 1, expected a str"),
        ([{"a": 1}, {"a": "x"}], "field 'a' is 'x', expected a value that goes into a column"),
        ([{"a": 1}, {"a": 2**70}, {"a": 2}], "field 'a' is 1180591620717411303424, expected"),
        ([{"a": timedelta.max}], "field 'a' is datetime.timedelta(days=999999999, seconds=86399"),
        ([{"a": n} for n in [*range(9), [1], 9]], "field 'a' is [1], expected a value that goes"),
    ],
)
def test_dicts_that_are_no_columns_are_refused(records: list[Any], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        columns_of(records)
    assert message in str(raised.value)


def test_slices_and_conversions() -> None:
    batch = words("a", "b", "c")
    assert [len(piece) for piece in slices(batch, 2)] == [2, 1]
    assert slices(batch, 3) == [batch]
    assert as_columns(pa.Table.from_batches([batch, batch])).num_rows == 6
    assert as_columns(batch.schema.empty_table()).num_rows == 0
    assert as_columns([1]) is None
    assert not is_columns(pa.array([1]))


def test_a_slice_is_packed_without_the_others() -> None:
    numbers = range(20_000)
    columns: dict[str, Any] = {
        "number": [None if each % 7 == 0 else each for each in numbers],
        "text": [f"text {each}" for each in numbers],
        "yes": [each % 2 == 0 for each in numbers],
        "list": [[each] * (each % 3) for each in numbers],
        "struct": [{"n": each, "text": str(each)} for each in numbers],
    }
    batch = pa.record_batch(columns)
    for start, count in ((0, 100), (13, 100), (19_990, 10), (500, 0)):
        part = batch.slice(start, count)
        data = packed(part)
        assert unpacked(data).equals(part)
        assert len(data) < 5000 + 100 * count
    coded = pa.record_batch({"word": pa.array(["a", None, "b", "a"]).dictionary_encode()})
    assert unpacked(packed(coded.slice(1, 2))).equals(coded.slice(1, 2))


WITHOUT_PYARROW = """
import sys

import pyarrow

from engine.partitioner import Forward
from engine.network import Network, open_output_gate

sender, receiver = (Network([f"ipc://{sys.argv[1]}/{name}"]) for name in ("sender", "receiver"))
sender.connect([(0, receiver.endpoints[0])], [])
receiver.connect([], [(0, sender.endpoints[0])])
open_output_gate(sender, Forward(), [0]).emit(pyarrow.record_batch({"n": [1]}), [0])
sys.modules["pyarrow"] = None
try:
    receiver.receive().decode()
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_a_receiver_without_pyarrow_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYARROW, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == (
        "GraphError: a stream of columns needs PyArrow, which is not installed\n\n"
        "hint: pip install 'oka-streams[arrow]'\n"
    ), done.stderr
