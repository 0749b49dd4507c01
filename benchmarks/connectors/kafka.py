"""Works with Kafka: a topic is read, as bytes and as JSON, from a broker on this machine."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import engine
from benchmarks.connectors.work import OKA, Work, WorkCase
from benchmarks.peers.flink import Found, run_program
from benchmarks.peers.peer import Peer
from engine.programs.kafka import Kafka
from operators import source
from operators.formats import Bytes, Format, Json
from operators.kafka import KafkaSource
from operators.sinks import Discard

LOOP = Peer(
    *("confluent_kafka", "loop", "per_record", None, "kafka_loop.py"),
    extra="kafka",
    modules=("confluent_kafka",),
)
"""Kafka's client alone: it takes messages and looks at each one's error and value."""
TOPIC, PARTITIONS = "messages", 4


class KafkaRead(Work):
    """Messages of a topic, which are read to its end."""

    name, record_bytes, batch = "kafka-bytes", 105, 1000
    api = "records"
    peers: ClassVar[tuple[Peer, ...]] = (LOOP,)
    format: ClassVar[Format] = Bytes()

    @contextmanager
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """A broker, and a topic with so many messages."""
        with Kafka(folder / "broker") as broker:
            self._servers = broker.servers
            fill(broker.servers, self.messages(records))
            yield

    def messages(self, count: int) -> Iterator[bytes]:
        """So many messages."""
        rest = random.Random(0).randbytes(self.record_bytes - 10)
        return (rest + b"%010d" % number for number in range(count))

    def run(self, case: WorkCase) -> Found:
        """Oka's job, or the program of a peer in a process of its own."""
        if case.system != OKA:
            return self._run_peer(case)
        read = KafkaSource(TOPIC, self._servers, format=self.format, end="latest")
        result = engine.execute(
            source(read).sink(Discard()),
            name=case.work,
            runtime="local",
            parallelism=case.parallelism,
            batch_size=case.batch_size,
            progress="none",
        )
        statistics = result.statistics
        return Found(statistics.elapsed_seconds, statistics.cpu_seconds, statistics.records)

    def _run_peer(self, case: WorkCase) -> Found:
        peer = next(each for each in self.peers if each.system == case.system)
        settings = {
            "servers": self._servers,
            "topic": TOPIC,
            "messages": case.input_records,
            "batch_size": case.batch_size,
            "json": isinstance(self.format, Json),
        }
        with tempfile.TemporaryDirectory(prefix="oka-peer-") as folder:
            return run_program(case.label, peer.command, settings, folder)


class KafkaJson(KafkaRead):
    """Objects of JSON of about 200 bytes, as dicts."""

    name, record_bytes = "kafka-json", 200
    peers = (
        LOOP,
        Peer("bytewax", "per_record", "per_record", "bytewax", "bytewax_kafka.py", most_tasks=1),
        Peer("quixstreams", "per_record", "per_record", "quix", "quix_kafka.py", most_tasks=1),
    )
    format = Json()

    def messages(self, count: int) -> Iterator[bytes]:
        """An order each."""
        chance = random.Random(0)
        for number in range(count):
            order = {
                "id": number,
                "customer": f"customer-{chance.randrange(100_000):06}",
                "city": chance.choice(("Rome", "Oslo", "Lima", "Kyoto")),
                "amount": round(chance.random() * 1000, 2),
                "paid": chance.random() < 0.5,
                "note": "n" * 70,
                "time": 1_700_000_000_000 + number,
            }
            yield json.dumps(order).encode()


def fill(servers: str, messages: Iterator[bytes]) -> None:
    """Make the topic, and write these messages to it. Raises RuntimeError if one is lost."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client = AdminClient({"bootstrap.servers": servers})
    for made in client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result(60)
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * _QUEUED,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failed.append(error),
        }
    )
    for number, value in enumerate(messages):
        if number % _RUN == 0:
            producer.poll(0)
        while len(producer) > _QUEUED:
            producer.poll(0.1)
        producer.produce(TOPIC, value, partition=number // _RUN % PARTITIONS)
    producer.flush()
    if failed:
        raise RuntimeError(f"the topic could not be filled: {failed[0]}")


READS = (KafkaRead(), KafkaJson())
_RUN = 1000
"""So many messages one behind the other go to one partition."""
_QUEUED = 500_000
