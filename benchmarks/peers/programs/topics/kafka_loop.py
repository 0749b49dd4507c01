"""Kafka's client for Python alone: a loop that takes messages, and looks at errors and values."""

from __future__ import annotations

import json

from clocks import Clocks
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from kafka_run import Settings


def main() -> None:
    """Read so many messages."""
    settings = Settings.of_arguments()
    clocks = Clocks(settings.result)
    consumer = Consumer(
        {
            "bootstrap.servers": settings.servers,
            "group.id": "loop",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
    )
    partitions = consumer.list_topics(settings.topic).topics[settings.topic].partitions
    consumer.assign([TopicPartition(settings.topic, each, OFFSET_BEGINNING) for each in partitions])
    count = 0
    while count < settings.messages:
        for message in consumer.consume(min(settings.batch_size, settings.messages - count), 1.0):
            if (error := message.error()) is not None:
                raise RuntimeError(error)
            value = message.value()
            if settings.json:
                json.loads(value or b"null")
            count += 1
    consumer.close()
    clocks.write(count)


if __name__ == "__main__":
    main()
