"""What happens to topics while jobs read and write them: each message has its effect once."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError
from engine.graph.context import TaskContext
from engine.job import JobHandle
from engine.testing import run
from operators import source
from operators.formats import Avro, Bytes, Format, Json
from operators.kafka import KafkaSink, KafkaSource
from operators.sinks import Collect
from operators.sources import At, Function
from tests.kafka import Broker
from tests.partitioned import came as came
from tests.partitioned import job, sink, stop
from tests.waiting import pauses, wait_until

pytestmark = pytest.mark.usefixtures("kafka", "nothing_left")
FAILURES: set[int] = set()
"""The numbers at which a function fails, once each."""
GO = threading.Event()
"""Whether sources go on behind the first half."""


def end(handle: JobHandle) -> None:
    handle.cancel()
    handle.wait_stopped()


def failing(n: int) -> None:
    if n in FAILURES:
        FAILURES.discard(n)
        raise RuntimeError("this comes once")


def failing_record(record: Any) -> Any:
    failing(record["n"])
    return record


def failing_columns(batch: Any) -> Any:
    for n in batch["n"].to_pylist():
        failing(n)
    return batch


@pytest.mark.table(2)
@pytest.mark.parametrize("form", [Json(), Json({"n": "int64"})])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_dead_letters_and_records_are_there_once_after_failures(
    form: Format, parallelism: int, kafka: Broker, tmp_path: Path
) -> None:
    read, good, bad = (kafka.topic(2) for _ in range(3))
    for partition in range(2):
        numbers = range(partition, 600, 2)
        values = [(b'{"n": %d}' if n % 7 else b"{bad %d") % n for n in numbers]
        kafka.produce(read, values, partition=partition)
    FAILURES.update({100, 250, 401})
    stream = source(
        KafkaSource(read, kafka.servers, format=form, on_error="dead_letter", end="latest")
    )
    decoded = (
        stream.map_batches(failing_columns) if form.emits_columns else stream.map(failing_record)
    )
    letters = KafkaSink(bad, kafka.servers, value=lambda letter: letter[0].value, format=Bytes())
    run(
        [
            decoded.sink(KafkaSink(good, kafka.servers, value="n")),
            stream.side("dead_letter").sink(letters),
        ],
        parallelism=parallelism,
        batch_size=20,
        checkpoints=str(tmp_path),
        checkpoint_interval_seconds=0.05,
    )
    assert not FAILURES
    assert sorted(int(m.value()) for m in kafka.read(good)) == [n for n in range(600) if n % 7]
    assert sorted(int(m.value()[5:]) for m in kafka.read(bad)) == list(range(0, 600, 7))


@pytest.mark.parametrize("parallelism", [(1, 3), (3, 1)])
def test_topics_of_a_pattern_that_come_before_and_behind_a_rescale(
    parallelism: tuple[int, int], kafka: Broker, came: list[bytes], tmp_path: Path
) -> None:
    prefix = kafka.topic()

    def add(number: int) -> None:
        kafka.topic(2, f"{prefix}-{number}")
        fill(number, 0)

    def fill(number: int, start: int) -> None:
        for n in range(start, start + 10):
            kafka.produce(f"{prefix}-{number}", [b"%d %d" % (number, n)], partition=n % 2)

    add(0)
    read = KafkaSource(re.compile(rf"{prefix}-\d"), kafka.servers, discover_seconds=0.3)
    pipeline = source(read).named("words").sink(sink())
    handle = job(pipeline, checkpoints=str(tmp_path), parallelism=parallelism[0])
    add(1)
    wait_until(lambda: len(came) == 20)
    stop(handle, "one")
    add(2)
    fill(1, 10)
    handle = job(pipeline, checkpoints=str(tmp_path), resume="one", parallelism=parallelism[1])
    try:
        wait_until(lambda: len(came) == 40)
        add(3)
        wait_until(lambda: len(came) == 50)
    finally:
        end(handle)
    wanted = [b"%d %d" % (number, n) for number in range(4) for n in range(10)]
    assert sorted(came) == sorted([*wanted, *(b"1 %d" % n for n in range(10, 20))])


SCHEMA = json.dumps(
    {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "long"]}]}
)


@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("form", [Json({"n": "int64"}), Avro(SCHEMA), Avro(SCHEMA, columns=True)])
def test_messages_without_a_value(kafka: Broker, form: Format, metadata: bool) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [None], key=b"k")
    read = KafkaSource(topic, kafka.servers, format=form, metadata=metadata, end="latest")
    if isinstance(form, Avro) and form.columns:
        with pytest.raises(EngineError, match="DecodeError: no value"):
            run(source(read).sink(Collect()))
        return
    (found,) = run(source(read).sink(Collect()))["collect"]
    if form.emits_columns:
        (row,) = found.to_pylist()
        assert (row["n"], row.get("_key")) == (None, b"k" if metadata else None)
    elif metadata:
        assert (found.value, found.key) == (None, b"k")
    else:
        assert found is None


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("when", ["stopped", "running"])
def test_a_topic_that_is_made_anew_is_another(
    kafka: Broker,
    came: list[bytes],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    more: bool,
    when: str,
) -> None:
    """Whether or not it has messages at the offset where the job was."""
    topic = kafka.topic()
    old, new = ([b"%s %d" % (age, n) for n in range(20)] for age in (b"old", b"new"))
    kafka.produce(topic, old[:10])
    read = KafkaSource(
        topic,
        kafka.servers,
        discover_seconds=0.3,
        topic_metadata_refresh_interval_ms=300,
        topic_metadata_propagation_max_ms=100,
    )
    pipeline = source(read).named("words").sink(sink()).named("out")
    settings = {"checkpoints": str(tmp_path)}
    handle = job(pipeline, **settings)
    try:
        wait_until(lambda: len(came) == 10)
        handle.savepoint("one")
        if when == "stopped":
            end(handle)
        kafka.delete(topic)
        wait_until(lambda: topic not in kafka.admin().list_topics(timeout=10).topics)
        kafka.topic(name=topic)
        kafka.produce(topic, new if more else new[:5])
        if when == "stopped":
            handle = job(pipeline, resume="one", **settings)
        sees = r"deleted, and another one .*\n\nhint: .*\.named"
        if when == "running":  # whatever it sees first
            sees += "|not there any more|or the topic is another"
        with pytest.raises(EngineError, match=sees):
            handle.wait_finished(300)
    finally:
        end(handle)
    if when == "stopped":
        assert came == old[:10]
        anew = source(read).named("anew").sink(sink()).named("out")
        handle = job(anew, resume="one", drop_state=["words"], **settings)
        try:
            wait_until(lambda: len(came) == (30 if more else 15))
        finally:
            end(handle)
    assert "could not be closed" not in capfd.readouterr().err


def numbers(context: TaskContext, position: int | None) -> Iterator[At]:
    """Each task's share."""
    for number in range(position or context.index, 1000, context.parallelism):
        if number >= 500:
            for nothing in pauses(GO.is_set):
                yield At(number, nothing)
        yield At(number + context.parallelism, [number])


def by_number(key: bytes | None, partitions: int) -> int:
    assert key is not None
    return int(key) % partitions


@pytest.mark.table(2)
@pytest.mark.parametrize("partitioner", ["murmur2_random", by_number])
@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_topic_that_grows_while_it_is_written(
    kafka: Broker,
    partitioner: Any,
    exactly_once: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    GO.clear()
    monkeypatch.setattr("operators.kafka.topics._FRESH_SECONDS", 0.0)
    topic = kafka.topic(2)
    written = KafkaSink(
        topic,
        kafka.servers,
        key=lambda n: b"%d" % n,
        partitioner=partitioner,
        exactly_once=exactly_once,
    )
    handle = job(
        source(Function(numbers)).sink(written),
        parallelism=2,
        checkpoints=str(tmp_path),
        checkpoint_interval_seconds=0.1,
    )
    try:
        wait_until(lambda: len(kafka.read(topic)) == 500)
        kafka.grow(topic, 4)
        GO.set()
        assert handle.wait_finished(300).statistics.restarts == 0
    finally:
        GO.set()
        end(handle)
    found = {int(each.value()): each.partition() for each in kafka.read(topic)}
    assert len(kafka.read(topic)) == 1000 == len(found)
    if callable(partitioner):
        assert all(partition == n % 4 for n, partition in found.items() if n >= 500)
