"""`KafkaSink` with a broker: what it crosses, what messages have, and what its errors say."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.config import JobConfig
from engine.errors import CheckpointError, GraphError, JobStopped, OperatorError, StorageError
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing import CheckFailed, check_sink, run
from engine.testing.threads import ThreadLauncher
from operators import SinkWriter, Stream, TaskContext, source
from operators.formats import Bytes, Text
from operators.kafka import KafkaSink
from operators.kafka import commits as commits_module
from operators.kafka import producer as producer_module
from operators.kafka import writers as writers_module
from operators.kafka.commit_table import TABLE
from operators.sources import At, Collection, Function
from tests.kafka import Broker
from tests.waiting import pauses, wait_until

KEYS, HALF, RECORDS = 7, 600, 1200
GO, END = threading.Event(), threading.Event()
"""Whether sources go on behind the first half, and end."""
FAIL = threading.Event()
"""Whether a function is to fail, once, behind the first half."""


def numbers(context: TaskContext, position: int | None) -> Iterator[At]:
    """Each task's share: (key, number)."""
    first = context.index if position is None else position
    for number in range(first, RECORDS, context.parallelism):
        if number >= HALF:
            for nothing in pauses(GO.is_set):
                yield At(number, nothing)
        yield At(number + context.parallelism, [(f"k{number % KEYS}", number)])
    for nothing in pauses(END.is_set):
        yield At(RECORDS, nothing)


def unbounded_by_checkpoints(context: TaskContext) -> Iterator[list[Any]]:
    yield [(f"k{n % KEYS}", n) for n in range(context.index, RECORDS, context.parallelism)]


def failing_once(record: Any) -> Any:
    if record[1] >= HALF and FAIL.is_set():
        FAIL.clear()
        raise RuntimeError("this comes once")
    return record


def to_columns(batch: list[Any]) -> pa.RecordBatch:
    keys, values = zip(*batch, strict=True)
    return pa.record_batch({"key": list(keys), "n": list(values)})


def records_of(stream: Stream[Any], sink: Callable[..., KafkaSink]) -> Any:
    return stream.sink(sink(key=0, value=1))


def columns_of(stream: Stream[Any], sink: Callable[..., KafkaSink]) -> Any:
    return stream.map_batches(to_columns).sink(sink(key="key", value="n"))


def updates_of(stream: Stream[Any], sink: Callable[..., KafkaSink]) -> Any:
    return stream.key_by(0).count().sink(sink(key=0, value=1))


CONTENTS = {"records": records_of, "columns": columns_of, "updates": updates_of}


def check(content: str, messages: list[Any], exactly: bool, sinks: int = 1) -> None:
    """All that the topic has is what it has to have; messages of a key are in order."""
    by_key = defaultdict(list)
    for message in messages:
        by_key[message.key().decode()].append(json.loads(message.value()))
    assert by_key.keys() == {f"k{key}" for key in range(KEYS)}
    for key, values in by_key.items():
        wanted = list(range(int(key[1:]), RECORDS, KEYS))
        if content == "updates":
            assert max(values) == len(wanted)
            assert sinks > 1 or not exactly or all(a < b for a, b in pairwise(values))
        elif exactly:
            assert sorted(values) == sorted(wanted * sinks)
        else:
            assert set(values) == set(wanted)


def start(pipeline: Any, **settings: Any) -> JobHandle:
    config = JobConfig.of({"name": "test", "progress": "none", **settings})
    return JobHandle(Plan.of(pipeline, config), ThreadLauncher(None, None))


def wait_until_half_is_read(handle: JobHandle) -> None:
    wait_until(lambda: [each.records_in for each in handle.statistics().operators[1:]] == [HALF])


def stop_with(handle: JobHandle, name: str) -> None:
    handle.savepoint(name, stop="now")
    with pytest.raises(JobStopped):
        handle.wait_finished()
    handle.wait_stopped()


@pytest.fixture
def gates() -> Iterator[None]:
    GO.clear()
    FAIL.clear()
    END.set()
    yield
    GO.set()
    END.set()


@pytest.mark.table(3)
@pytest.mark.parametrize("content", ["records", "columns", "updates"])
@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize(
    "change", ["failure", "savepoint", "up", "down", "second sink", "no checkpoints", "turned on"]
)
def test_what_it_crosses(
    content: str, exactly_once: bool, change: str, kafka: Broker, tmp_path: Path, gates: None
) -> None:
    topic = kafka.topic(3)

    def pipeline(function: Any = numbers, exactly: bool | None = exactly_once) -> Any:
        def sink(**how: Any) -> KafkaSink:
            return KafkaSink(topic, kafka.servers, exactly_once=exactly, **how)

        stream = source(Function(function)).map(failing_once)
        first = CONTENTS[content](stream, sink)
        return [first, CONTENTS[content](stream, sink)] if change == "second sink" else first

    settings: dict[str, Any] = {
        "checkpoints": str(tmp_path / "checkpoints"),
        "checkpoint_interval_seconds": 0.1,
        "resume": "latest",
        "parallelism": {"up": 1, "down": 3}.get(change, 2),
    }
    exactly = exactly_once
    if change == "no checkpoints":
        if exactly_once:
            with pytest.raises(OperatorError, match="the job has no checkpoints"):
                run(pipeline(unbounded_by_checkpoints), parallelism=2)
        run(pipeline(unbounded_by_checkpoints, None), parallelism=2)
        exactly = True  # nothing has failed
    elif change in ("failure", "second sink"):
        if change == "failure":
            FAIL.set()
        handle = start(pipeline(), **settings)
        wait_until(lambda: kafka.read(topic))
        GO.set()
        handle.wait_finished()
        handle.wait_stopped()
        assert not FAIL.is_set()
    else:
        stop_with(start(pipeline(), **settings), "half")
        GO.set()
        settings["parallelism"] = {"up": 3, "down": 1}.get(change, 2)
        exactly = True  # at a savepoint all that was read is there
        run(
            pipeline(exactly=not exactly_once if change == "turned on" else exactly_once),
            **settings,
        )
    check(content, kafka.read(topic), exactly, 2 if change == "second sink" else 1)


def test_output_is_visible_when_its_checkpoint_is_stored(
    kafka: Broker, tmp_path: Path, gates: None
) -> None:
    topic = kafka.topic()
    handle = start(
        source(Function(numbers)).sink(KafkaSink(topic, kafka.servers, key=0, value=1)),
        checkpoints=str(tmp_path),
        checkpoint_interval_seconds=3600.0,
    )
    wait_until_half_is_read(handle)
    assert kafka.read(topic, committed=False) == []
    handle.savepoint("half")
    assert len(wait_until(lambda: kafka.read(topic))) == HALF
    GO.set()
    handle.wait_finished()
    handle.wait_stopped()
    assert len(kafka.read(topic)) == RECORDS


def test_a_message_has_what_it_is_told(kafka: Broker) -> None:
    topic = kafka.topic(4)
    records = [
        {"id": 1, "at": 1_700_000_000_123, "kind": "a"},
        {"id": 2, "at": 1_700_000_000_456, "kind": "b"},
    ]
    run(
        source(Collection(records)).sink(
            KafkaSink(
                topic,
                kafka.servers,
                key="id",
                value=lambda record: record["kind"],
                format=Text(),
                timestamp="at",
                unit="ms",
                headers=lambda record: {"kind": record["kind"], "none": None},
                partitioner=lambda key, partitions: int(key) % partitions,
            )
        )
    )
    found = sorted(kafka.read(topic), key=lambda each: each.key())
    assert [(m.key(), m.value(), m.timestamp()[1], m.partition(), m.headers()) for m in found] == [
        (b"1", b"a", 1_700_000_000_123, 1, [("kind", b"a"), ("none", None)]),
        (b"2", b"b", 1_700_000_000_456, 2, [("kind", b"b"), ("none", None)]),
    ]


def test_columns_have_what_it_is_told(kafka: Broker) -> None:
    topic = kafka.topic()
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone.utc)

    def columns(batch: list[Any]) -> pa.RecordBatch:
        times = pa.array([at] * len(batch), pa.timestamp("us", "UTC"))
        return pa.record_batch({"id": batch, "at": times, "none": pa.nulls(len(batch))})

    run(
        source(Collection([1, 2]))
        .map_batches(columns)
        .sink(KafkaSink(topic, kafka.servers, key="id", timestamp="at"))
    )
    found = sorted(kafka.read(topic), key=lambda each: each.key())
    assert [(m.key(), json.loads(m.value())["id"]) for m in found] == [(b"1", 1), (b"2", 2)]
    assert {m.timestamp()[1] for m in found} == {int(at.timestamp() * 1000)}


def test_a_record_without_a_value_is_a_tombstone(kafka: Broker) -> None:
    topic = kafka.topic()
    sink = KafkaSink(topic, kafka.servers, key=0, value=1, format=Bytes())
    run(source(Collection([("a", b"1"), ("a", None), (None, b"2"), (b"b", b"")])).sink(sink))
    found = [(each.key(), each.value()) for each in kafka.read(topic)]
    assert found == [(b"a", b"1"), (b"a", None), (None, b"2"), (b"b", b"")]


def test_the_topic_may_be_a_function_of_the_record(kafka: Broker, tmp_path: Path) -> None:
    topics = [kafka.topic(), kafka.topic()]
    sink = KafkaSink(_Topic(topics), kafka.servers)
    run(source(Collection(range(100))).sink(sink), checkpoints=str(tmp_path))
    for place, topic in enumerate(topics):
        found = sorted(int(each.value()) for each in kafka.read(topic))
        assert found == list(range(place, 100, 2))


class _Topic:
    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def __call__(self, record: int) -> str:
        return self._topics[record % 2]


def test_a_missing_topic_is_made_where_that_is_wanted(kafka: Broker) -> None:
    topic = kafka.topic() + "-more"
    for number in range(2):
        sink = KafkaSink(topic, kafka.servers, partitions=3)
        run(source(Collection([number])).sink(sink), parallelism=2)
    assert sorted(each.value() for each in kafka.read(topic)) == [b"0", b"1"]
    admin = kafka.admin()
    assert len(admin.list_topics(topic).topics[topic].partitions) == 3


def test_keys_are_in_the_partitions_of_javas_producer(kafka: Broker) -> None:
    topic = kafka.topic(5)
    keys = [b"k" * (n % 9) + str(n).encode() for n in range(200)]
    sink = KafkaSink(topic, kafka.servers, key=0, value=0, format=Bytes())
    run(source(Collection([(key,) for key in keys])).sink(sink))
    found = {each.key(): each.partition() for each in kafka.read(topic)}
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in keys}


def murmur2(data: bytes) -> int:
    """As org.apache.kafka.common.utils.Utils computes it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_the_table_of_commits_is_compacted_and_has_one_mark_for_each_writer(
    kafka: Broker, tmp_path: Path, gates: None
) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType

    topic = kafka.topic()
    handle = start(
        source(Function(numbers)).sink(KafkaSink(topic, kafka.servers)).named("bounded"),
        parallelism=2,
        checkpoints=str(tmp_path),
        checkpoint_interval_seconds=3600.0,
    )
    for name in ("a", "b"):
        handle.savepoint(name)
    GO.set()
    handle.wait_finished()
    handle.wait_stopped()
    resource = ConfigResource(ResourceType.TOPIC, TABLE)
    admin = kafka.admin()
    (asked,) = admin.describe_configs([resource]).values()
    assert asked.result()["cleanup.policy"].value == "compact"
    keys = [each.key() for each in kafka.read(TABLE) if b"bounded" in each.key()]
    assert len(set(keys)) == 2


def test_a_savepoint_is_not_resumed_where_its_output_was_followed_by_more(
    kafka: Broker, tmp_path: Path, gates: None
) -> None:
    topic = kafka.topic()
    settings = {"checkpoints": str(tmp_path), "checkpoint_interval_seconds": 3600.0}

    def pipeline(name: str = "out") -> Any:
        sink = KafkaSink(topic, kafka.servers, key=0, value=1)
        return source(Function(numbers)).named("numbers").sink(sink).named(name)

    handle = start(pipeline(), **settings)
    wait_until_half_is_read(handle)
    stop_with(handle, "half")
    GO.set()
    run(pipeline(), resume="half", **settings)
    check("records", kafka.read(topic), exactly=True)
    with pytest.raises(CheckpointError, match="it would be there twice"):
        run(pipeline(), resume="half", **settings)
    check("records", kafka.read(topic), exactly=True)
    run(pipeline("again"), resume="half", drop_state=["out"], **settings)
    assert len(kafka.read(topic)) == 2 * RECORDS - HALF


def test_jobs_of_one_name_do_not_disturb_each_other(
    kafka: Broker, tmp_path: Path, gates: None
) -> None:
    topic = kafka.topic()
    handles = []
    for number in range(2):
        sink = KafkaSink(topic, kafka.servers, key=0, value=1)
        handles.append(
            start(
                source(Function(numbers)).sink(sink),
                checkpoints=str(tmp_path / str(number)),
                checkpoint_interval_seconds=0.1,
                restarts=0,
            )
        )
    GO.set()
    for handle in handles:
        handle.wait_finished()
        handle.wait_stopped()
    check("records", kafka.read(topic), exactly=True, sinks=2)


def test_a_big_epoch_is_several_transactions(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_module, "_TRANSACTION_BYTES", 100_000)
    topic = kafka.topic(2)
    records = [b"%06d" % n + b"x" * 1000 for n in range(20_000)]
    sink = KafkaSink(topic, kafka.servers, format=Bytes())
    run(source(Collection(records)).sink(sink), checkpoints=str(tmp_path))
    assert sorted(each.value() for each in kafka.read(topic)) == records


def test_more_than_the_producers_queue_takes_waits_for_room(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic()
    records = [b"%06d" % n + b"x" * 2000 for n in range(5000)]
    sink = KafkaSink(
        topic,
        kafka.servers,
        format=Bytes(),
        queue_buffering_max_messages=100,
        queue_buffering_max_kbytes=128,
    )
    run(source(Collection(records)).sink(sink))
    assert [each.value() for each in kafka.read(topic)] == records


@pytest.mark.parametrize("checkpoints", [True, False])
@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            "no broker",
            r"(?s)127\.0\.0\.1:1 has not answered: .*refused.*hint: is the broker running",
        ),
        ("no topic", r"(?s)could not find topic 'not-there'.*hint: make it"),
        ("bad name", r"(?s)topic 'a b'"),
        (
            "too large",
            r"(?s)on record b'xxx.*has 2000000 bytes, expected at most 1000000.*hint: mes",
        ),
        ("too large for the topic", r"(?s)has 5000 bytes, expected at most 4000"),
        ("no setting", r'No such configuration property: "nonsense"'),
        ("partition", r"the partitioner gave 7, expected a number from 0 to 0"),
    ],
)
def test_mistakes_are_told_with_what_to_do(
    mistake: str,
    words: str,
    checkpoints: bool,
    kafka: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("operators.kafka.topics.PATIENCE_SECONDS", 1.0)
    topic = kafka.topic(max_message_bytes="4000") if "for the" in mistake else kafka.topic()
    how: dict[str, Any] = {"topic": topic, "servers": kafka.servers, "format": Bytes()}
    records = [b"x"]
    if mistake == "no broker":
        how["servers"] = "127.0.0.1:1"
    elif mistake == "no topic":
        how["topic"] = "not-there"
    elif mistake == "bad name":
        how["topic"] = "a b"
    elif mistake == "too large":
        records.append(b"x" * 2_000_000)
    elif mistake == "too large for the topic":
        records.append(b"x" * 5_000)
    elif mistake == "no setting":
        how["nonsense"] = 1
    else:
        how["partitioner"] = lambda key, partitions: 7
    settings = {"checkpoints": str(tmp_path), "restarts": 0} if checkpoints else {}
    with pytest.raises((OperatorError, StorageError), match=words):
        run(source(Collection(records)).sink(KafkaSink(**how)), **settings)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"topic": ""}, "topic=''"),
        ({"topic": 1}, "topic=1"),
        ({"servers": []}, r"servers=\[\]"),
        ({"transactional_id": "x"}, "which it sets itself"),
        ({"bootstrap_servers": "x"}, "give servers="),
        ({"format": "json"}, r"format='json', expected Json\(\)"),
        ({"key": -1}, "expected an index >= 0"),
        ({"timestamp": 0, "unit": "h"}, "unit='h'"),
        ({"partitioner": len}, "argument"),
        ({"partitions": 0}, "partitions"),
    ],
)
def test_impossible_arguments_are_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        KafkaSink(**{"topic": "t", "servers": "localhost:9092", **how})


@pytest.mark.timeout(900)
def test_it_keeps_the_promises_of_an_exactly_once_sink(kafka: Broker) -> None:
    """But the last: without checkpoints it sends at once."""
    name = f"{kafka.topic()}-"

    def make(place: int) -> KafkaSink:
        return KafkaSink(f"{name}{place}", kafka.servers, partitions=1, format=Text())

    with pytest.raises(CheckFailed, match="abort of a job without checkpoints"):
        check_sink(
            make, read=lambda n: [each.value().decode() for each in kafka.read(f"{name}{n}")]
        )


def test_one_task_goes_on_for_tasks_that_were_killed_in_transactions(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits until the broker ends a transaction by its timeout, which is 60 s."""
    topic = kafka.topic()
    sink = KafkaSink(topic, kafka.servers, format=Text())

    def opened(index: int, parallelism: int) -> SinkWriter:
        name = f"{topic}[{index}]"
        context = TaskContext(
            name, index, parallelism, 10, topic, identity="sink", checkpoints=True
        )
        return sink.open(context)

    def killed(producer: producer_module.Producer) -> None:
        producer.flush()
        raise KeyboardInterrupt

    monkeypatch.setattr(producer_module.Producer, "commit", killed)
    prepared = []
    for index in range(2):
        writer = opened(index, 2)
        writer.write([f"of {index}"])
        prepared.append((1, writer.prepare(1)))
        with pytest.raises(KeyboardInterrupt):
            writer.commit(*prepared[-1])
    monkeypatch.undo()
    writer = opened(0, 1)
    writer.restore(1, prepared)
    writer.close()
    assert sorted(each.value() for each in kafka.read(topic)) == [b"of 0", b"of 1"]


def test_a_task_that_is_ahead_of_its_broker_waits_for_it(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on behind the commit of the epoch before, and where none is on its way."""
    topic = kafka.topic()
    sink = KafkaSink(topic, kafka.servers, format=Text())
    context = TaskContext(topic, 0, 1, 10, topic, identity="sink", checkpoints=True)
    writer = sink.open(context)
    monkeypatch.setattr(writers_module, "_MOST_AHEAD_BYTES", 1000)
    monkeypatch.setattr(writers_module, "_BATCH_BYTES", 1)
    begun, go = threading.Event(), threading.Event()
    commit = producer_module.Producer.commit

    def slow(producer: producer_module.Producer) -> None:
        begun.set()
        assert go.wait(60)
        commit(producer)

    monkeypatch.setattr(producer_module.Producer, "commit", slow)
    large = ["x" * 2000]
    writer.write(large)
    writer.write(large)  # nobody makes these final yet: their barrier comes behind them
    with ThreadPoolExecutor() as threads:
        first = threads.submit(writer.commit, 1, writer.prepare(1))
        assert begun.wait(60)
        writer.write(["small"])
        second = threads.submit(writer.write, large)
        assert not wait([second], 0.2).done
        go.set()
        first.result(60)
        second.result(60)
    writer.commit(2, writer.prepare(2))
    writer.close()
    assert [len(each.value()) for each in kafka.read(topic)] == [2000, 2000, 5, 2000]


def test_a_writer_that_is_fenced_says_who_may_have_done_it(kafka: Broker) -> None:
    topic, settings = kafka.topic(), {"bootstrap.servers": kafka.servers}
    first = producer_module.Producer(settings, "oka-fenced")
    first.begin()
    second = producer_module.Producer(settings, "oka-fenced")
    first.send(topic, [{"key": None, "value": b"lost"}], 4)
    with pytest.raises(StorageError, match=r"(?s)FENCED.*hint: another process") as raised:
        first.commit()
    assert not raised.value.is_away
    second.close()
    assert kafka.read(topic) == []
