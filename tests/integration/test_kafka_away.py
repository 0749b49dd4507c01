"""A broker that is away while jobs read it and write to it: they wait, say so, and lose nothing.

It is away until all of them have said so; in `make kafka-kills`, for KAFKA_AWAY_SECONDS.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from engine.graph.context import TaskContext
from engine.job import JobHandle
from operators import source
from operators.formats import Bytes
from operators.kafka import KafkaSink, KafkaSource
from operators.sinks import Callback
from operators.sources import At, Function
from tests.kafka import Broker
from tests.partitioned import LOGS, Logs, gather, job
from tests.waiting import pauses, wait_until

SECONDS = float(os.environ.get("KAFKA_AWAY_SECONDS", "0"))
HALF, RECORDS = 600, 1200
GO, END = threading.Event(), threading.Event()
PATIENCE = (
    *("availability._FIRST_SECONDS", "producer.PATIENCE_SECONDS"),
    *("commits.PATIENCE_SECONDS", "writers.PATIENCE_SECONDS"),
)


def numbers(context: TaskContext, position: int | None) -> Iterator[At]:
    """Each task's share; the second half while the broker is away."""
    for number in range(position or context.index, RECORDS, context.parallelism):
        if number >= HALF:
            for nothing in pauses(GO.is_set):
                yield At(number, nothing)
        yield At(number + context.parallelism, [b"%d" % number])
    for nothing in pauses(END.is_set):
        yield At(RECORDS, nothing)


@pytest.fixture
def jobs() -> Iterator[list[JobHandle]]:
    """Those that run; they end with the test."""
    LOGS["away"] = Logs()
    GO.clear()
    END.clear()
    started: list[JobHandle] = []
    yield started
    GO.set()
    END.set()
    for handle in started:
        handle.cancel()
        handle.wait_stopped()
    del LOGS["away"]


@pytest.mark.timeout(900 + 2 * SECONDS)
@pytest.mark.usefixtures("nothing_left", "kafka_programs")
def test_jobs_wait_for_a_broker_that_is_away(
    jobs: list[JobHandle],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came = LOGS["away"].came
    wanted = sorted(b"%d" % n for n in range(RECORDS))
    said = ""

    def tells(*what: str) -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return all(each in said or each in caplog.text for each in what)

    with Broker(tmp_path / "broker") as broker:
        port = int(broker.servers.rpartition(":")[2])
        read, exactly, least = topics = [broker.topic(2) for _ in range(3)]
        broker.produce(read, wanted[:HALF])
        reading = source(KafkaSource(read, broker.servers, discover_seconds=0.3))
        jobs.append(job(reading.sink(Callback(partial(gather, "away"))), parallelism=2))
        for topic in (exactly, least):
            sink = KafkaSink(topic, broker.servers, format=Bytes(), exactly_once=topic is exactly)
            jobs.append(
                job(
                    source(Function(numbers)).sink(sink),
                    parallelism=2,
                    checkpoints=str(tmp_path / topic),
                    checkpoint_interval_seconds=0.2,
                )
            )
        wait_until(lambda: len(came) == HALF)
        wait_until(lambda: all(len(broker.read(topic)) == HALF for topic in topics))
    if not SECONDS:
        for name in PATIENCE:
            monkeypatch.setattr(f"operators.kafka.{name}", 0.5)
    GO.set()
    waits = ("waits for a broker at", "cannot write what it keeps", "is given up")
    wait_until(lambda: tells(*waits, "Connection refused"))
    monkeypatch.undo()
    began = time.process_time()
    time.sleep(SECONDS)
    assert time.process_time() - began <= 0.2 * SECONDS or not SECONDS
    with Broker(tmp_path / "broker", port) as broker:
        broker.produce(read, wanted[HALF:])
        wait_until(lambda: len(came) == RECORDS)
        wait_until(lambda: all(len(broker.read(topic)) == RECORDS for topic in topics))
        wait_until(lambda: tells("a broker answers again, after"))
        END.set()
        for handle in jobs[1:]:
            assert handle.wait_finished(300).statistics.restarts == 0
        assert sorted(came) == wanted
        for topic in topics:
            assert sorted(each.value() for each in broker.read(topic)) == wanted
