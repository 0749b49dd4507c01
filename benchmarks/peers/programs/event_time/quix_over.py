"""Quix Streams: for each message the sum within a span, by sliding windows over a topic of Kafka.

State is in RocksDB, without the topics of its changes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from datetime import timedelta

from clocks import Clocks
from quixstreams import Application
from quixstreams.dataframe.windows.aggregations import Sum


def main() -> None:
    """Read so many messages, in this process; the results come as the messages do."""
    settings = json.loads(sys.argv[1])
    rows = total = 0

    def came(result: dict[str, int]) -> None:
        nonlocal rows, total
        rows += 1
        total += result["total"]

    with tempfile.TemporaryDirectory() as folder:
        clocks = Clocks(settings["result"])
        application = Application(
            broker_address=settings["servers"],
            consumer_group=f"quix-{uuid.uuid4().hex}",
            auto_offset_reset="earliest",
            auto_create_topics=False,
            use_changelog_topics=False,
            state_dir=folder,
            loglevel="WARNING",
        )
        topic = application.topic(
            settings["topic"], key_deserializer="bytes", value_deserializer="json"
        )
        windows = application.dataframe(topic).sliding_window(timedelta(hours=settings["hours"]))
        windows.agg(total=Sum("amount")).current().update(came)
        application.run(count=settings["messages"], collect=False)
        clocks.write(rows, total=total)


if __name__ == "__main__":
    main()
