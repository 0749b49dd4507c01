"""Words of a topic, numbered per word, to a topic, while workers and drivers are killed.

Whatever is killed at whatever step of a checkpoint: a consumer of committed messages sees each
word with each of its numbers once, and each dead letter once. `make kafka-kills` kills at 60
moments, in jobs of 3 M records; the test suite at a few, in small jobs. A failed job names its
seed: `KAFKA_SEEDS=7 make kafka-kills` runs it again.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from tests.drivers import Driver
from tests.faults.kafka_job import MOMENTS
from tests.faults.test_chaos import seeds
from tests.kafka import Broker
from tests.waiting import wait_until

IS_LARGE = "KAFKA_SEEDS" in os.environ
RECORDS = int(os.environ.get("KAFKA_RECORDS", "20000"))
WORDS, KILLS = (20_000, 5) if IS_LARGE else (500, 2)
LATEST = 2 + RECORDS // 500_000 if IS_LARGE else 1
"""The highest number of a call at which somebody is killed: small jobs have few."""
SECONDS = 0.5 if IS_LARGE else 0.05
"""Between two checkpoints."""
PARTITIONS = 4


@pytest.mark.timeout(3600)
@pytest.mark.table(2)
@pytest.mark.parametrize("seed", seeds("0-1", "KAFKA_SEEDS"))
def test_each_number_of_each_word_is_committed_once(
    seed: int, kafka: Broker, tmp_path: Path
) -> None:
    chance = random.Random(f"kafka {seed}")
    moments = [
        (chance.choice(MOMENTS), chance.randint(1, LATEST), chance.choice(_WHOM))
        for _ in range(KILLS)
    ]
    print(f"seed {seed}: {moments}")
    read, written, dead = (kafka.topic(PARTITIONS) for _ in range(3))
    words = [b"word-%d" % int(chance.paretovariate(0.3) % WORDS) for _ in range(RECORDS)]
    poison = {n: b"\xff%d" % n for n in range(0, RECORDS, 100)}
    messages = [(poison[n], word) if n in poison else (word,) for n, word in enumerate(words)]
    fill(kafka, read, [*chain.from_iterable(messages)])
    command = [sys.executable, "-m", "tests.faults.kafka_job", str(tmp_path), kafka.servers]
    command += [read, written, dead, json.dumps(moments), str(SECONDS)]
    with (tmp_path / "errors").open("a") as errors:
        while run(command, tmp_path, errors) != 0:
            continue
    for place, (_, number, _) in enumerate(moments):
        assert (tmp_path / f"moment-{place}-{number}").exists(), f"{moments[place]} never came"
    check(kafka, written, Counter(words))
    assert Counter(each.value() for each in kafka.messages(dead)) == Counter(poison.values())


def run(command: list[str], folder: Path, errors: object) -> int:
    """Drive the job until it ends, or its driver is killed; nothing of it is left."""
    driver = Driver(command, folder, stderr=errors)
    try:
        status = driver.process.wait(1200)
        assert status in (0, -9), (folder / "errors").read_text()[-5000:]
        wait_until(lambda: not driver.processes())
        return status
    finally:
        driver.end()


def fill(kafka: Broker, topic: str, words: list[bytes]) -> None:
    """Write the words, spread over the partitions."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.servers})
    for start in range(0, len(words), _AT_ONCE):
        part = [{"value": word} for word in words[start : start + _AT_ONCE]]
        assert producer.produce_batch(topic, part, start // _AT_ONCE % PARTITIONS) == len(part)
        producer.flush()


def check(kafka: Broker, topic: str, wanted: Counter[bytes]) -> None:
    """Each word has each of its numbers once; those of a word are in order."""
    last: Counter[bytes] = Counter()
    for message in kafka.messages(topic):
        word, number = message.key(), int(message.value())
        assert number == last[word] + 1, f"{word!r} has {number} behind {last[word]}"
        last[word] = number
    assert last == wanted


_WHOM = ("worker", "driver")
_AT_ONCE = 10_000
