"""Quix Streams: messages of a topic of Kafka, by its own consumer; values as JSON."""

from __future__ import annotations

import uuid

from clocks import Clocks
from kafka_run import Settings
from quixstreams import Application


def main() -> None:
    """Read so many messages."""
    settings = Settings.of_arguments()
    clocks = Clocks(settings.result)
    application = Application(
        broker_address=settings.servers,
        consumer_group=f"quix-{uuid.uuid4().hex}",
        auto_offset_reset="earliest",
        auto_create_topics=False,
        loglevel="WARNING",
    )
    form = "json" if settings.json else "bytes"
    topic = application.topic(settings.topic, value_deserializer=form)
    count = 0

    def came(_value: object) -> None:
        nonlocal count
        count += 1

    application.dataframe(topic).update(came)
    application.run(count=settings.messages, collect=False)
    clocks.write(count)


if __name__ == "__main__":
    main()
