"""Keyed state: encoded, sorted by hash, and shared among tasks as records are."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engine.errors import CheckpointError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.graph.operator import RecordOperator
from engine.network import (
    Aggregate,
    AggregateError,
    Batch,
    DecodeError,
    EncodeError,
    FrozenDict,
    KeyedEntries,
    KeyExtractError,
    partition,
)
from engine.record import dict_key
from engine.record import registry as record_registry
from engine.state import KeyedState
from engine.task.chain import Chain
from operators import CountWindow, Session
from operators.reduce import Reduce
from operators.take import Take
from tests.windowing import us, windowed

CONTEXT = TaskContext("task[0]", 0, 1, 100, "job")
KEYS = [None, True, 2, 0.5, 2**70, "a", b"a", (1, "a"), *range(10, 500)]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5, 7, 1000])
def test_each_task_has_the_keys_that_a_gate_sends_it(parallelism: int) -> None:
    halves = [KeyedState.of((key, str(key)) for key in KEYS[at::2]) for at in range(2)]
    found = []
    for index in range(parallelism):
        share = KeyedState.share(halves, index, parallelism)
        assert list(share.entries) == sorted(share.entries)
        pairs = list(share.items())
        assert all(value == str(key) for key, value in pairs)
        keys = [key for key, _ in pairs]
        assert partition(keys, parallelism) == [index] * len(keys)
        found += keys
    assert sorted(found, key=repr) == sorted(KEYS, key=repr)


def test_the_ends_of_a_share_are_exact() -> None:
    edge = (1 << 64) // 2
    entries = [(number, b"\x01", b"\x02") for number in (0, edge - 1, edge, (1 << 64) - 1)]
    state = KeyedState(KeyedEntries(entries))
    shares = [list(KeyedState.share([state], at, 2).entries) for at in (0, 1)]
    assert shares == [entries[:2], entries[2:]]
    assert KeyedState.share([state], 0, 1) == state
    assert KeyedState.share([], 0, 1) == KeyedState(KeyedEntries())


def test_entries_are_in_order_and_their_bytes_are_checked() -> None:
    rows = [(3, b"\x03", b"\x01"), (1, b"\x02", b"\x01"), (1, b"\x01", b"\x02")]
    entries = KeyedEntries(rows)
    assert (list(entries), entries[-1]) == (sorted(rows), rows[0])
    assert (entries.keys(), entries.values()) == ([1, 2, 3], [2, 1, 1])
    written = b"".join(entries.to_parts())
    assert KeyedEntries.from_bytes(written, 3) == entries != KeyedEntries(rows[1:])
    for data, length in [(written[:-1], 3), (written, 2), (b"", 3), (written[8:], 3)]:
        with pytest.raises(DecodeError):
            KeyedEntries.from_bytes(data, length)
    with pytest.raises(IndexError, match="entry 3 of 3"):
        entries[3]


def test_entries_are_told_by_what_has_changed() -> None:
    before = KeyedEntries([(1, b"a", b"1"), (2, b"b", b"1"), (2, b"c", b"1"), (3, b"d", b"1")])
    rows = [(0, b"e", b"1"), (1, b"a", b"1"), (2, b"b", b"2"), (2, b"c", b"1")]
    now = KeyedEntries(rows)
    told = now.changes(before.digests(), now.digests(), 1000)
    assert told is not None
    assert (list(told[0]), told[1]) == ([rows[0], *rows[2:]], (3).to_bytes(8, "little"))
    assert before.with_changes([told]) == now
    assert before.with_changes([]) == before
    assert now.changes(before.digests(), now.digests(), 80) is None
    with pytest.raises(DecodeError):
        before.with_changes([(now, b"\x03")])


def test_a_snapshot_is_of_its_time_whoever_reads_it_when() -> None:
    aggregate = Aggregate([[]], [("count", [])])
    taken = []
    for part in (KEYS[:100], KEYS[50:], [], ["new"], KEYS):
        pairs = KeyedState.of((key, None) for key in part).entries
        aggregate.add(Batch.from_bytes(b"".join(key for _, key, _ in pairs), len(part)))
        taken.append(aggregate.snapshot()[1])
    late = [
        dict(zip(map(dict_key, each.keys()), each.values(), strict=True)) for each in taken[::-1]
    ]
    assert [len(each) for each in late] == [len(each) for each in taken[::-1]]
    assert [each.get(77) for each in late] == [3, 2, 2, 2, 1]
    assert [each.get("new") for each in late] == [1, 1, None, None, None]
    assert [each.get(400) for each in late] == [2, 1, 1, 1, None]


@pytest.mark.parametrize("assigner", [Session(us(9)), CountWindow(3, 2)])
def test_windows_of_a_time_are_read_when_many_are_gone(assigner: Any) -> None:
    def taken(copies: bool) -> list[list[Any]]:
        windows = windowed(assigner).count().inputs[0].source.operator
        function = windows.open(replace(CONTEXT, checkpoints=copies))  # type: ignore[attr-defined]
        found = []
        for first in range(0, 600, 100):
            times = range(first, first + 100)
            function.process(Batch.from_list([(time * time % 97, time, 1) for time in times]))
            found.append(function.snapshot().entries)
            list(function.on_watermark(first + 80))
            len(found[first // 200])  # of two, one is read late
        return [[*each] for each in found]

    late = taken(copies=True)
    assert all(late)
    assert late == taken(copies=False)


def test_a_native_aggregate_goes_on_as_if_all_had_come_to_it() -> None:
    def encoded(keys: list[Any]) -> Batch:
        entries = KeyedState.of((key, None) for key in keys).entries
        return Batch.from_bytes(b"".join(key for _, key, _ in entries), len(keys))

    whole, then = (Aggregate([[]], [("count", [])]) for _ in range(2))
    whole.update(encoded(KEYS[:300]))
    layout, entries = whole.snapshot()
    then.restore(layout, entries, False)
    assert then.snapshot() == (layout, entries)
    for part in (KEYS[200:], ["new"], []):
        assert sorted(whole.update(encoded(part)), key=repr) == sorted(
            then.update(encoded(part)), key=repr
        )
        assert then.snapshot() == whole.snapshot()


def test_entries_are_read_by_many_threads_at_once() -> None:
    entries = KeyedState.of((key, str(key)) for key in KEYS).entries
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: b"".join(entries.to_parts()), range(32)))
    assert set(found) == {b"".join(entries.to_parts())}


@pytest.fixture
def trusted() -> Iterator[None]:
    """As in a task of a job whose channels are encrypted."""
    record_registry.trust(True)
    yield
    record_registry.trust(False)


@pytest.mark.usefixtures("trusted")
def test_what_cannot_be_encoded_is_told() -> None:
    with pytest.raises(EncodeError, match=r"(?s)'a', .*hint: "):
        KeyedState.of([("a", lambda: 1)])
    with pytest.raises(KeyExtractError, match="list cannot be a key"):
        KeyedState.of([([], 1)])
    pickled = KeyedState.of([("a", print)], pickle=True)
    assert list(pickled.items()) == [("a", print)]


def test_a_state_of_another_kind_is_refused() -> None:
    aggregate = Aggregate([[0]], [("sum", [1])])
    for value, told in [("a", "its value is no number"), ((1, 2), "its value is no number")]:
        with pytest.raises(AggregateError, match=f"cannot go on here: {told}.*\n\nhint: is it"):
            aggregate.restore(b"", KeyedState.of([("a", value)]).entries, False)
    with pytest.raises(AggregateError, match="a list cannot be a key"):
        aggregate.restore(b"", KeyedEntries([(0, b"\xc7\x01\x01\x90", b"\x01")]), False)
    several = Aggregate([[0]], [("sum", [1]), ("count", [])], ["s", "n"])
    with pytest.raises(AggregateError, match="other than 2 parts"):
        several.restore(b"", KeyedState.of([("a", 1)]).entries, False)


class Silent(BatchOperator):
    """An operator that says nothing of state."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Silent()


class _Silent(BatchFunction):
    def process(self, batch: Any) -> Any:
        return batch


def opened(*operators: Any, context: TaskContext = CONTEXT) -> Chain:
    chain = Chain()
    declared = [
        LogicalOperator(at, f"operator-{at}", operator, None, {}, identity=type(operator).__name__)
        for at, operator in enumerate(operators)
    ]
    chain.open(declared, context, encoded=False)
    return chain


def test_a_chain_has_the_state_of_those_that_keep_some() -> None:
    reduce = Reduce(lambda a, b: (a[0], a[1] + b[1]), key=0)
    flow = (RecordOperator("map", lambda record: record), Silent(), reduce, Take(5))
    before = opened(*flow)
    assert len(before.process([("a", 1), ("b", 2), ("a", 3)])) == 3
    snapshot = before.snapshot()
    assert {identity: list(kept.items()) for identity, kept in snapshot.items()} == {
        "Reduce": sorted([("a", ("a", 4)), ("b", ("b", 2))], key=lambda pair: place(pair[0])),
        "Take": [(None, 2)],
    }
    # They go on, and the snapshot stays as it was.
    assert before.process([("a", 1)]) == [("a", 5)]
    after = opened(*flow)
    after.restore([snapshot, {}])
    assert after.process([("a", 7), ("b", 8), ("c", 9)]) == [("a", 11), ("b", 10)]
    assert after.failing.operator is None


def place(key: Any) -> int:
    ((hashed, _, _),) = KeyedState.of([(key, None)]).entries
    return hashed


@dataclass
class Total:
    """What a job's function changes in place."""

    items: list[int]


@dataclass(unsafe_hash=True)
class Key:
    """A key that nobody should change."""

    name: str


def test_what_is_changed_in_place_does_not_show_in_a_snapshot() -> None:
    def add(total: Any, record: Any) -> Any:
        changed = total[1]
        if isinstance(changed, dict):
            changed["n"] += 1
        elif isinstance(changed, Total):
            changed.items.append(record[2])
        elif isinstance(changed, list):
            changed[0].append(record[2])
        else:
            return total[0], changed + 1, 0
        return total

    first = [("plain", 1, 0), ("dict", {"n": 1}, 0), ("list", [[1]], 0), ("class", Total([1]), 0)]
    expected = {record[0]: record for record in deepcopy(first)}
    reduce = opened(Reduce(add, key=0))
    reduce.process(first)
    snapshot = reduce.snapshot()["Reduce"]
    again = [*((key, None, 5) for key, *_ in first), ("new", 1, 0)]
    for _ in range(3):
        reduce.process(again)
    assert dict(snapshot.items()) == expected
    now = dict(reduce.snapshot()["Reduce"].items())
    assert all(now[key] != record for key, record in expected.items())


def test_a_key_that_can_change_has_all_encoded_at_once() -> None:
    reduce = opened(Reduce(lambda _, record: record, key=0))
    key = Key("a")
    reduce.process([(key, 1)])
    snapshot = reduce.snapshot()["Reduce"]
    key.name = "b"
    assert list(snapshot.items()) == [(Key("a"), (Key("a"), 1))]


def test_pairs_that_come_later_are_those_of_pairs_that_come_now() -> None:
    pairs = [(key, (key, str(key))) for key in [*KEYS, ("a", 1.5, None), b"c", True]]
    assert KeyedState.later(lambda: iter(pairs)).entries == KeyedState.of(pairs).entries
    entries = KeyedState.later(lambda: pairs).entries
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: b"".join(entries.to_parts()), range(16)))) == 1


def test_pairs_that_cannot_be_encoded_later_are_refused_each_time() -> None:
    entries = KeyedState.later(lambda: [("a", lambda: 1)]).entries
    with pytest.raises(EncodeError, match=r"(?s)'a', .*hint: "):
        len(entries)
    with pytest.raises(RuntimeError, match="could not be made before"):
        len(entries)


def test_a_dict_is_copied_as_it_is() -> None:
    values: dict[Any, Any] = {
        "a": 1,
        2: (1.5, ("x", b"y", None)),
        (True, 3): 1 << 90,
        "d": [1, {"n": [2]}],
    }
    copy = FrozenDict.of(values)
    assert copy is not None
    values["d"][1]["n"].append(3)
    values["a"] = 7
    for _ in range(2):
        kinds = [type(value).__name__ for _, value in copy.items()]
        assert kinds == ["int", "tuple", "int", "Frozen"]
        found = dict(KeyedState.of(copy.items()).items())
        assert found == {"a": 1, 2: values[2], (True, 3): 1 << 90, "d": [1, {"n": [2]}]}
    assert FrozenDict.of({frozenset({1}): 1}) is None
    with pytest.raises(EncodeError, match=r"(?s)record 1 of the batch, \('b', .*hint: "):
        FrozenDict.of({"a": 1, "b": lambda: 1})


def test_rows_of_every_form_are_copied_as_they_are() -> None:
    rows: list[Any] = [{"n": 1}, {}, Total([1]), (), (2, {"n": [3]}), None, [], [{"n": [4]}] * 70]
    values = {at: (rows[at % 8 :], rows[: at % 9], at) for at in range(200)}
    expected = deepcopy(values)
    copy = FrozenDict.of(values)
    assert copy is not None
    rows[0]["n"] = 5
    rows[-1][0]["n"].append(6)
    for lists in values.values():
        lists[0].append("new")
    assert dict(KeyedState.of(copy.items()).items()) == expected


def test_state_for_an_operator_that_takes_none_is_refused() -> None:
    chain = opened(Silent())
    chain.restore([{"Another": KeyedState.of([("a", 1)])}])
    with pytest.raises(NotImplementedError, match=r"_Silent has no restore\(\), .* of 1 keys"):
        chain.restore([{"Silent": KeyedState.of([("a", 1)])}])
    assert chain.failing.operator == "operator-0"


@pytest.mark.usefixtures("trusted")
def test_objects_are_pickled_where_the_job_pickles() -> None:
    reduce = Reduce(lambda a, b: (a[0], len), key=0)
    for pickles in (False, True):
        chain = opened(reduce, context=replace(CONTEXT, pickle=pickles))
        chain.process([("a", 1), ("a", 2)])
        if not pickles:
            with pytest.raises(CheckpointError, match="with_pickle"):
                chain.snapshot()
            continue
        assert list(chain.snapshot()["Reduce"].items()) == [("a", ("a", len))]


def test_a_nan_that_no_channel_brought_is_found_again() -> None:
    reduce = Reduce(lambda a, b: (a[0], a[1] + b[1]), key=0)
    before, after = opened(reduce), opened(reduce)
    before.process([(float("nan"), 1), ((float("nan"), "a"), 1)])
    after.restore([before.snapshot()])
    found = after.process([(float("nan"), 2), ((float("nan"), "a"), 2)])
    assert [count for _, count in found] == [3, 3]
