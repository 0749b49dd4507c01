"""A broker for the tests of Kafka, one for all of a session, and clients of it.

The tests that need it are skipped, and say why, where Java or Maven is missing. Under pytest-xdist
one process has all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from engine.errors import ConfigError, StartError
from engine.programs.kafka import Kafka, command
from tests.waiting import wait_until


class Broker(Kafka):
    """The broker, with topics and records in them."""

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        """A new topic; its name is new, too, where none is given."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        self.topics([name], partitions, **config)
        return name

    def topics(self, names: Sequence[str], partitions: int = 1, **config: str) -> None:
        """New topics of these names."""
        from confluent_kafka.admin import NewTopic

        config = {name.replace("_", "."): value for name, value in config.items()}
        new = [NewTopic(name, partitions, 1, config=config) for name in names]
        admin = self.admin()
        _done(admin.create_topics(new))
        wait_until(lambda: admin.list_topics(timeout=10).topics.keys() >= set(names))

    def admin(self) -> Any:
        """A client that changes topics; it holds nothing once nobody refers to it."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 2})

    def grow(self, topic: str, partitions: int) -> None:
        """Give the topic so many partitions."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        _done(admin.create_partitions([NewPartitions(topic, partitions)]))

    def delete(self, *topics: str) -> None:
        """Delete the topics."""
        admin = self.admin()
        _done(admin.delete_topics(list(topics)))

    def produce(self, topic: str, values: Iterable[bytes | None], **message: Any) -> None:
        """Write records; `message` is what else each has: key, partition, headers…"""
        from confluent_kafka import Producer

        failed: list[Any] = []
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for value in values:
            producer.produce(
                topic, value, on_delivery=lambda error, _: error and failed.append(error), **message
            )
            producer.poll(0)
        producer.flush(60)
        assert not failed, failed[0]

    def read(self, topic: str, committed: bool = True) -> list[Any]:
        """All messages that the topic has now, partition by partition.

        Those of transactions only if they are committed, unless `committed` is False. It waits for
        open ones: the end of a transaction arrives behind the answer to its commit.
        """
        return list(self.messages(topic, committed))

    def messages(self, topic: str, committed: bool = True) -> Iterator[Any]:
        """Those of `read`, of a large topic."""
        from confluent_kafka import Consumer, TopicPartition

        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reading",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": level,
                "fetch.wait.max.ms": 10,  # the broker's word that this is the end comes so late
            }
        )
        try:
            partitions = consumer.list_topics(topic).topics[topic].partitions
            for number in sorted(partitions):
                end, reached = self._end(TopicPartition(topic, number)), -1
                consumer.assign([TopicPartition(topic, number, 0)])
                while reached < end:
                    message = consumer.poll(60)
                    assert message is not None, f"nothing comes from {topic}/{number}"
                    if message.error() is None:
                        yield message
                    else:
                        assert message.error().name() == "_PARTITION_EOF", message.error()
                        reached = message.offset()
        finally:
            consumer.close()

    def _end(self, partition: Any) -> int:
        """The offset behind all messages, of open transactions, too."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import OffsetSpec

        admin = self.admin()

        def told() -> list[int]:
            (asked,) = admin.list_offsets({partition: OffsetSpec.latest()}).values()
            try:
                return [int(asked.result(60).offset)]
            except KafkaException as error:  # the broker lists a new topic before it leads it
                if error.args[0].name() != "NOT_LEADER_FOR_PARTITION":
                    raise
                return []

        (end,) = wait_until(told)
        return end

    def delete_records(self, topic: str, before: int) -> None:
        """Delete the records of the topic's first partition in front of an offset."""
        from confluent_kafka import TopicPartition

        admin = self.admin()
        _done(admin.delete_records([TopicPartition(topic, 0, before)]))

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that the group has committed."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        admin = self.admin()
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(60).topic_partitions
        return {(each.topic, each.partition): each.offset for each in found}


@pytest.fixture(scope="session")
def kafka_programs() -> None:
    """Skips tests, and says why, where no broker can run: without Java, Maven, its repository."""
    pytest.importorskip("confluent_kafka", reason="Kafka's client is missing: the extra `kafka`")
    try:
        command(lambda _line: None)
    except (ConfigError, StartError) as error:
        pytest.skip(f"no broker of Kafka can run: {error.message}")


@pytest.fixture(scope="session")
def kafka(kafka_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests of this process."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(60)
