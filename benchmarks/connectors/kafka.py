"""Works with Kafka: a topic is read, as bytes and as JSON, or written, on this machine's broker."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.peer import Peer
from benchmarks.works import Work, WorkCase
from engine.programs.kafka import Kafka
from operators import Pipeline, TaskContext, source
from operators.formats import Bytes, Format, Json
from operators.kafka import KafkaSink, KafkaSource
from operators.sinks import Discard
from operators.sources import At, Function

LOOP = Peer(
    *("confluent_kafka", "loop", "per_record", None, "topics/kafka_loop.py"),
    extra="kafka",
    modules=("confluent_kafka",),
)
"""Kafka's client alone: it takes messages and looks at each one's error and value."""
PRODUCER = Peer(
    *("confluent_kafka", "producer", "per_record", None, "topics/kafka_producer.py"),
    extra="kafka",
    modules=("confluent_kafka",),
)
"""Kafka's client alone: it produces messages, and waits until all are delivered."""
TOPIC, PARTITIONS = "messages", 4


class KafkaWork(Work):
    """The common part: a broker, and a topic."""

    record_bytes, batch = 105, 1000
    apis = ("records",)
    format: ClassVar[Format] = Bytes()

    @contextmanager
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """A broker, and what is in its topic before."""
        with Kafka(folder / "broker") as broker:
            self._servers = broker.servers
            fill(broker.servers, ({"value": each} for each in self.before(records)))
            yield

    def before(self, records: int) -> Iterator[bytes]:  # noqa: ARG002 - of works that read
        """The messages that the topic has before a run."""
        return iter(())

    def peer_settings(self, case: WorkCase) -> dict[str, Any]:
        """The broker, the topic and the messages."""
        return {
            "servers": self._servers,
            "topic": TOPIC,
            "messages": case.input_records,
            "batch_size": case.batch_size,
            "json": isinstance(self.format, Json),
        }


class KafkaRead(KafkaWork):
    """Messages of a topic, which are read to its end."""

    name = "kafka-bytes"
    peers: ClassVar[tuple[Peer, ...]] = (LOOP,)

    def before(self, records: int) -> Iterator[bytes]:
        """All messages."""
        rest = random.Random(0).randbytes(self.record_bytes - 10)
        return (rest + b"%010d" % number for number in range(records))

    def pipeline(self, case: WorkCase) -> Pipeline:  # noqa: ARG002 - of works that write
        """The topic, to nowhere."""
        read = KafkaSource(TOPIC, self._servers, format=self.format, end="latest")
        return source(read).sink(Discard())


class KafkaJson(KafkaRead):
    """Objects of JSON of about 200 bytes, as dicts."""

    name, record_bytes = "kafka-json", 200
    peers = (
        LOOP,
        Peer(
            "bytewax",
            "per_record",
            "per_record",
            "bytewax",
            "topics/bytewax_kafka.py",
            most_tasks=1,
        ),
        Peer(
            "quixstreams", "per_record", "per_record", "quix", "topics/quix_kafka.py", most_tasks=1
        ),
    )
    format = Json()

    def before(self, records: int) -> Iterator[bytes]:
        """An order each."""
        chance = random.Random(0)
        for number in range(records):
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


class KafkaColumns(KafkaJson):
    """The same objects, as columns."""

    name, apis = "kafka-json-columns", ("columnar",)
    format = Json(
        {
            "id": "int64",
            "customer": "string",
            "city": "string",
            "amount": "double",
            "paid": "bool",
            "note": "string",
            "time": "timestamp[ms]",
        }
    )


class KafkaWrite(KafkaWork):
    """Messages that are written to a topic, each at least once."""

    name = "kafka-write"
    peers: ClassVar[tuple[Peer, ...]] = (PRODUCER,)

    def pipeline(self, case: WorkCase) -> Pipeline:
        """Messages that are made on the way."""
        records, size = case.input_records, case.batch_size
        rest = bytes(self.record_bytes - 10)

        def messages(context: TaskContext, position: int | None) -> Iterator[At]:
            begin = context.index * records // context.parallelism
            end = (context.index + 1) * records // context.parallelism
            for start in range(begin if position is None else position, end, size):
                behind = min(start + size, end)
                yield At(behind, [rest + b"%010d" % number for number in range(start, behind)])

        return source(Function(messages)).sink(KafkaSink(TOPIC, self._servers, format=self.format))


class KafkaWriteOnce(KafkaWrite):
    """The same, each exactly once: in transactions behind checkpoints."""

    name = "kafka-write-once"

    def job_settings(self, folder: str) -> dict[str, Any]:
        """A checkpoint each second."""
        return {"checkpoints": folder, "checkpoint_interval_seconds": 1.0}


def fill(servers: str, messages: Iterator[Mapping[str, Any]], partitions: int = PARTITIONS) -> None:
    """Make the topic, and write these messages to it: `value`, `key` and others as of `produce`.

    Raises RuntimeError if one is lost.
    """
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client = AdminClient({"bootstrap.servers": servers})
    for made in client.create_topics([NewTopic(TOPIC, partitions, 1, config=_KEPT)]).values():
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
    for number, message in enumerate(messages):
        if number % _RUN == 0:
            producer.poll(0)
        while len(producer) > _QUEUED:
            producer.poll(0.1)
        producer.produce(TOPIC, partition=number // _RUN % partitions, **message)
    producer.flush()
    if failed:
        raise RuntimeError(f"the topic could not be filled: {failed[0]}")


KAFKA = (KafkaRead(), KafkaJson(), KafkaColumns(), KafkaWrite(), KafkaWriteOnce())
_RUN = 1000
"""So many messages one behind the other go to one partition."""
_QUEUED = 500_000
_KEPT = {"retention.ms": "-1"}
"""Messages may have times long ago."""
