"""Topics of a real broker as streams: each message once, and in the order of its partition."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError, GraphError, StorageError
from engine.graph.context import TaskContext
from engine.testing import check_source, run
from operators import source
from operators.formats import Bytes, Format, Json, Text
from operators.kafka import KafkaRecord, KafkaSource
from operators.sinks import Collect
from operators.windows import Tumbling
from tests.kafka import Broker
from tests.partitioned import came as came
from tests.partitioned import job, sink, stop
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("kafka", "nothing_left")


def collected(read: KafkaSource, **settings: Any) -> list[Any]:
    """All records of a source that ends."""
    found: list[Any] = run(source(read).sink(Collect()), **settings)["collect"]
    return found


def fill(kafka: Broker, topic: str, partitions: int, count: int, start: int = 0) -> None:
    """Messages `partition:n` for each n, and in `count` of them, into each partition."""
    for partition in range(partitions):
        values = [f"{partition}:{n}".encode() for n in range(start, start + count)]
        kafka.produce(topic, values, partition=partition)


def check(came: list[bytes], partitions: int, count: int) -> None:
    """All came once, those of a partition in their order."""
    by_partition: dict[str, list[int]] = defaultdict(list)
    for value in came:
        partition, _, n = value.decode().partition(":")
        by_partition[partition].append(int(n))
    expected = {str(partition): list(range(count)) for partition in range(partitions)}
    assert by_partition == expected


@pytest.mark.parametrize("end", ["latest", None])
def test_it_keeps_the_promises_of_a_source_of_partitions(kafka: Broker, end: Any) -> None:
    topics = [kafka.topic(2), kafka.topic()]
    for topic, partitions in zip(topics, (2, 1), strict=True):
        for partition in range(partitions):
            values = [f"{topic}/{partition} {n}".encode() for n in range(15)]
            kafka.produce(topic, values, partition=partition)
    check_source(KafkaSource(topics, kafka.servers, end=end))


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("batch_size", [7, 1000])
def test_each_message_comes_once(
    kafka: Broker, partitions: int, parallelism: int, batch_size: int
) -> None:
    topic = kafka.topic(partitions)
    fill(kafka, topic, partitions, 50)
    read = KafkaSource(topic, kafka.servers, end="latest")
    check(collected(read, parallelism=parallelism, batch_size=batch_size), partitions, 50)


def test_a_hundred_topics_by_a_pattern(kafka: Broker) -> None:
    names = [f"hundred-{n:02}" for n in range(100)]
    kafka.topics([*names, "another-hundred-00"])
    kafka.produce("another-hundred-00", [b"no"])
    for name in names:
        kafka.produce(name, [name.encode(), b"last"])
    read = KafkaSource(re.compile(r"hundred-\d+"), kafka.servers, end="latest")
    found = collected(read, parallelism=3)
    assert sorted(found) == sorted([*(name.encode() for name in names), *[b"last"] * 100])
    kafka.delete(*names)


@pytest.mark.parametrize(
    ("form", "value", "decoded"),
    [
        (Bytes(), b"\xff", b"\xff"),
        (Text(), "größe".encode(), "größe"),
        (Json(), b'{"word": "moon"}', {"word": "moon"}),
        (Bytes(), None, None),
        (Json(), None, None),
    ],
)
@pytest.mark.parametrize("metadata", [False, True])
def test_values_and_metadata(
    kafka: Broker, form: Format, value: bytes | None, decoded: Any, metadata: bool
) -> None:
    topic = kafka.topic()
    headers = [("trace", b"1"), ("trace", None)]
    at = 1_700_000_000_123
    kafka.produce(topic, [b"0"])
    kafka.produce(topic, [value], key=b"k", headers=headers, timestamp=at)
    read = KafkaSource(
        topic, kafka.servers, format=form, metadata=metadata, start={f"{topic}/0": 1}, end="latest"
    )
    record = KafkaRecord(topic, 0, 1, at * 1000, b"k", decoded, headers)
    assert collected(read) == [record if metadata else decoded]


@pytest.mark.parametrize("on_error", ["fail", "skip", "dead_letter"])
def test_messages_that_cannot_be_decoded(kafka: Broker, on_error: Any) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b"1", b"{", b"2"])
    read = KafkaSource(topic, kafka.servers, format=Json(), on_error=on_error, end="latest")
    stream = source(read)
    if on_error == "fail":
        with pytest.raises(
            EngineError, match=rf"(?s)topic='{topic}', partition=0, offset=1.*not JSON"
        ):
            run(stream.sink(Collect()))
        return
    if on_error == "skip":
        assert run(stream.sink(Collect())) == {"collect": [1, 2]}
        return
    found = run([stream.sink(Collect()), stream.side("dead_letter").sink(Collect())])
    assert [1, 2] in found.values()
    ((record, error),) = next(each for each in found.values() if each != [1, 2])
    assert (record.value, record.offset) == (b"{", 1)
    assert "not JSON" in error


def test_columns_with_metadata(kafka: Broker) -> None:
    pa = pytest.importorskip("pyarrow")
    from operators.kafka.record import KafkaMessages

    topic = kafka.topic()
    kafka.produce(topic, [b"a", b"b"], key=b"k", timestamp=1_700_000_000_000)
    messages = kafka.read(topic)
    batch = KafkaMessages(True).joined(messages, pa.record_batch({"word": ["a", "b"]}))
    assert batch.to_pylist()[1] == {
        "word": "b",
        "_key": b"k",
        "_timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc),
        "_headers": [],
        "_topic": topic,
        "_partition": 0,
        "_offset": 1,
    }


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", [0, 1, 2, 3]),
        ("latest", []),
        (datetime(2023, 1, 1, 0, 0, 2, tzinfo=timezone.utc), [2, 3]),
        (datetime(2023, 1, 1, 0, 0, 1, 500_000), [2, 3]),
        (datetime(2023, 1, 1, 0, 1), []),
        ({"/0": 3}, [3]),
        ({"/1": 3}, [0, 1, 2, 3]),
    ],
)
def test_where_it_starts(kafka: Broker, start: Any, expected: list[int]) -> None:
    topic = kafka.topic()
    for n in range(4):
        kafka.produce(topic, [b"%d" % n], timestamp=1_672_531_200_000 + n * 1000)
    if isinstance(start, dict):
        start = {topic + name: offset for name, offset in start.items()}
    read = KafkaSource(topic, kafka.servers, start=start, end="latest")
    assert [int(value) for value in collected(read)] == expected


def test_timestamps_are_event_times(kafka: Broker) -> None:
    topic = kafka.topic(2)
    for partition in (0, 1):
        for second in (1, 2, 11):
            at = 1_700_000_000_000 + second * 1000
            kafka.produce(topic, [b"x"], partition=partition, timestamp=at)
    read = KafkaSource(topic, kafka.servers, metadata=True, end="latest")
    timed = source(read).with_event_time("timestamp").key_by("value")
    counts = timed.window(Tumbling(timedelta(seconds=10))).count().sink(Collect())
    assert [count for _, count, *_ in run(counts)["collect"]] == [4, 2]


def test_transactions_that_are_aborted_are_left_out(kafka: Broker) -> None:
    from confluent_kafka import Producer

    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for value, ends in [(b"1", "commit"), (b"no", "abort"), (b"2", "commit")]:
        producer.begin_transaction()
        producer.produce(topic, value)
        (producer.commit_transaction if ends == "commit" else producer.abort_transaction)(30)
    del producer
    assert collected(KafkaSource(topic, kafka.servers, end="latest")) == [b"1", b"2"]


def test_partitions_that_are_added_while_it_runs(kafka: Broker, came: list[bytes]) -> None:
    topic = kafka.topic(4)
    fill(kafka, topic, 4, 10)
    read = KafkaSource(topic, kafka.servers, discover_seconds=0.3)
    handle = job(source(read).sink(sink()), parallelism=2)
    try:
        wait_until(lambda: len(came) == 40)
        kafka.grow(topic, 8)
        fill(kafka, topic, 4, 10, start=10)
        for partition in range(4, 8):
            kafka.produce(
                topic, [f"{partition}:{n}".encode() for n in range(20)], partition=partition
            )
        wait_until(lambda: len(came) == 160)
    finally:
        handle.cancel()
        handle.wait_stopped()
    check(came, 8, 20)


@pytest.mark.parametrize("parallelism", [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_checkpoints_with_other_tasks_and_new_partitions(
    kafka: Broker, came: list[bytes], tmp_path: Path, parallelism: tuple[int, int], start: Any
) -> None:
    """Partition 1 has nothing before the savepoint, and partition 2 comes behind it."""
    topic = kafka.topic(2)
    if start == "earliest":
        kafka.produce(topic, [f"0:{n}".encode() for n in range(10)], partition=0)
    read = KafkaSource(topic, kafka.servers, start=start, discover_seconds=0.3, group_id=topic)
    pipeline = source(read).named("words").sink(sink())
    handle = job(pipeline, checkpoints=str(tmp_path), parallelism=parallelism[0])
    if start == "earliest":
        wait_until(lambda: len(came) == 10)
    stop(handle, "one")
    assert kafka.group_offsets(topic) == {
        (topic, 0): 10 if start == "earliest" else 0,
        (topic, 1): 0,
    }
    kafka.grow(topic, 3)
    for partition in range(3):
        first = 10 if partition == 0 and start == "earliest" else 0
        kafka.produce(
            topic, [f"{partition}:{n}".encode() for n in range(first, 20)], partition=partition
        )
    handle = job(pipeline, checkpoints=str(tmp_path), resume="one", parallelism=parallelism[1])
    try:
        wait_until(lambda: len(came) == 60)
    finally:
        handle.cancel()
        handle.wait_stopped()
    check(came, 3, 20)


def test_an_idle_partition_does_not_hold_up_windows(kafka: Broker, came: list[Any]) -> None:
    topic = kafka.topic(2)
    for second in (1, 2, 11, 25):
        kafka.produce(topic, [b"x"], partition=0, timestamp=1_700_000_000_000 + second * 1000)
    read = KafkaSource(topic, kafka.servers, metadata=True)
    timed = source(read).with_event_time("timestamp", idle_after=timedelta(seconds=0.2))
    windows = timed.key_by("value").window(Tumbling(timedelta(seconds=10)))
    handle = job(windows.count().sink(sink()))
    try:

        def more_comes() -> bool:
            kafka.produce(topic, [b"x"], partition=0, timestamp=1_700_000_026_000)
            return len(came) == 2

        wait_until(more_comes)
    finally:
        handle.cancel()
        handle.wait_stopped()
    assert [count for _, count, *_ in came] == [2, 1]


@pytest.mark.parametrize("reset", [None, "earliest", "latest"])
def test_offsets_that_are_gone(kafka: Broker, reset: str | None) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b"0", b"1", b"2"])
    kafka.delete_records(topic, 2)
    settings = {} if reset is None else {"auto_offset_reset": reset}
    read = KafkaSource(topic, kafka.servers, start={f"{topic}/0": 1}, end="latest", **settings)
    if reset is None:
        with pytest.raises(EngineError, match=r"(?s)at offset 1: its log has offsets from 2 to 3"):
            collected(read)
    else:
        assert collected(read) == ([b"2"] if reset == "earliest" else [])


@pytest.mark.parametrize("on_deleted", ["fail", "end"])
@pytest.mark.parametrize("when", ["before", "while"])
def test_a_topic_that_is_deleted(
    kafka: Broker, came: list[bytes], tmp_path: Path, on_deleted: Any, when: str
) -> None:
    prefix = kafka.topic()
    names = [f"{prefix}-{n}" for n in range(2)]
    kafka.topics(names)
    for name in names:
        kafka.produce(name, [b"1"])
    read = KafkaSource(
        re.compile(rf"{prefix}-\d"),
        kafka.servers,
        on_deleted=on_deleted,
        discover_seconds=0.3,
        topic_metadata_refresh_interval_ms=300,
        topic_metadata_propagation_max_ms=100,
    )
    pipeline = source(read).named("words").sink(sink())
    handle = job(pipeline, checkpoints=str(tmp_path))
    try:
        wait_until(lambda: len(came) == 2)
        if when == "before":
            stop(handle, "one")
        kafka.delete(names[0])
        if when == "before":
            handle = job(pipeline, checkpoints=str(tmp_path), resume="one")
        if on_deleted == "fail":
            with pytest.raises(EngineError, match=f"topic '{names[0]}': it is not there any more"):
                handle.wait_finished(300)
        else:
            kafka.produce(names[1], [b"2"])
            wait_until(lambda: len(came) == 3)
    finally:
        handle.cancel()
        handle.wait_stopped()


def test_lag_and_offsets_of_the_group(kafka: Broker) -> None:
    topic = kafka.topic(2)
    fill(kafka, topic, 2, 10)
    read = KafkaSource(topic, kafka.servers, group_id=topic)
    reader = read.open(TaskContext("words[0]", 0, 1, 4, "job"))
    partitions = [reader.open_partition(name, None) for name in reader.partitions()]
    given = dict.fromkeys(partitions, 0)

    def poll() -> bool:
        for partition in partitions:
            given[partition] += len(partition.poll(4) or ())
        return all(given.values())

    wait_until(poll)
    for partition in partitions:
        assert partition.position[0] == given[partition]
        assert partition.lag == 10 - given[partition]
        partition.committed(partition.position)
    expected = {(topic, n): partition.position[0] for n, partition in enumerate(partitions)}
    for partition in partitions:
        partition.close()
    reader.close()
    assert kafka.group_offsets(topic) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topics": []}, "expected names of topics or a pattern"),
        ({"topics": "or*"}, "expected names of topics or a pattern"),
        ({"start": "first"}, "expected 'earliest', 'latest', a datetime or offsets"),
        ({"start": {"words": 1}}, "expected offsets by partition"),
        ({"end": "never"}, "expected 'latest' or None"),
        ({"format": "json"}, "expected a format"),
        ({"on_error": "ignore"}, "expected one of 'fail', 'skip', 'dead_letter'"),
        ({"discover_seconds": 0}, "expected more than 0"),
        ({"on_deleted": "ignore"}, "expected fail or end"),
        ({"enable_auto_commit": True}, "which it sets itself"),
        ({"servers": ""}, "expected addresses such as"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        KafkaSource(**{"topics": "words", "servers": "localhost:9092", **settings})


@pytest.mark.parametrize(
    ("servers", "settings", "message"),
    [
        (None, {}, "could not find topic 'no-such-topic'"),
        (None, {"fetch_wait": 1}, 'No such configuration property: "fetch.wait"'),
        ("127.0.0.1:1", {}, "127.0.0.1:1 has not answered: 127.0.0.1:1/bootstrap: Connect to"),
    ],
)
def test_errors_before_a_job_starts(
    kafka: Broker,
    monkeypatch: pytest.MonkeyPatch,
    servers: str | None,
    settings: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setattr("operators.kafka.reader._PATIENCE_SECONDS", 2.0)
    read = KafkaSource("no-such-topic", servers or kafka.servers, **settings)
    with pytest.raises(StorageError, match=re.escape(message)):
        read.validate_here()


def test_a_client_that_finds_no_broker_any_more_is_replaced(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(2)
    fill(kafka, topic, 2, 10)
    reader = KafkaSource(topic, kafka.servers).open(TaskContext("kafka[0]", 0, 1, 4, "test"))
    opened = [reader.open_partition(name, None) for name in reader.partitions()]
    came: list[bytes] = []

    def read(count: int) -> bool:
        for partition in opened:
            came.extend(partition.poll(4) or ())
        reader.wait(0.1)
        return len(came) == count

    try:
        wait_until(lambda: read(20))
        # As one that was told of no brokers: it asks nobody, whatever is there.
        with monkeypatch.context() as patched:
            patched.setitem(reader._settings, "bootstrap.servers", "127.0.0.1:1")
            reader._connect_anew()
        monkeypatch.setattr("operators.kafka.availability._RENEWAL_SECONDS", 1.0)
        fill(kafka, topic, 2, 10, start=10)
        wait_until(lambda: read(40))
        reader.wait(0.1)
        check(came, 2, 20)
        assert not reader.availability.is_away
    finally:
        for partition in opened:
            partition.close()
        reader.close()


def test_the_program_of_the_guide(kafka: Broker) -> None:
    guide = (Path(__file__).parents[2] / "docs/reference/connectors.md").read_text()
    _, section = guide.split("\n## Kafka source\n")
    (program,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    topic = kafka.topic()
    kafka.produce(
        topic, [b'{"city": "Rome"}', b'{"city": "Oslo"}', b'{"city": "Rome"}'], timestamp=1
    )
    found: dict[str, Any] = {}
    exec(program.replace("localhost:9092", kafka.servers).replace('"orders"', repr(topic)), found)
    counts = run(found["pipeline"])["collect"]
    assert sorted(each[:2] for each in counts) == [("Oslo", 1), ("Rome", 2)]
