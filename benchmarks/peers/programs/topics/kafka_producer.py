"""Kafka's client for Python alone: a loop that produces messages, until all are delivered."""

from __future__ import annotations

from typing import Any

from clocks import Clocks
from confluent_kafka import Producer
from kafka_run import Settings

PAYLOAD_BYTES = 105


def main() -> None:
    """Write so many messages."""
    settings = Settings.of_arguments()
    clocks = Clocks(settings.result)
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": settings.servers,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failed.append(error),
        }
    )
    rest = bytes(PAYLOAD_BYTES - 10)
    for number in range(settings.messages):
        message = rest + b"%010d" % number
        while True:
            try:
                producer.produce(settings.topic, message)
                break
            except BufferError:
                producer.poll(0.1)
        if number % settings.batch_size == 0:
            producer.poll(0)
    producer.flush()
    if failed:
        raise RuntimeError(failed[0])
    clocks.write(settings.messages)


if __name__ == "__main__":
    main()
