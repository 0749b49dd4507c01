"""The table of commits: the last epoch of each writer, in a compacted topic.

A mark is written in the transaction of the messages that it counts, so both are there or neither.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from engine.errors import CheckpointError, StorageError
from operators.kafka.errors import is_away
from operators.kafka.messages import Message
from operators.kafka.producer import PATIENCE_SECONDS
from operators.kafka.topics import Topics

TABLE = "__oka_commits"


@dataclass(frozen=True)
class Mark:
    """How far the epochs of a writer are committed."""

    epoch: int
    batches: int
    """The batches of the epoch that are committed; all of those before it are."""
    content: str
    """Identifies what the epoch has: another job that goes on from a copy has other content."""

    def message(self, writer: str) -> Message:
        """The message of the table that says so."""
        return {"key": writer.encode(), "value": json.dumps(asdict(self)).encode()}


class Marks(Protocol):
    """Reads the table."""

    def read(self, writer: str) -> Mark | None:
        """The writer's mark, of all transactions that have begun before this call."""


class CommitTable:
    """The topic of the table, in one cluster."""

    def __init__(self, settings: Mapping[str, Any], topics: Topics) -> None:
        self._settings = settings
        self._topics = topics

    def make(self) -> None:
        """Make the topic if it is missing. CheckpointError if it would not keep its marks."""
        self._topics.make(TABLE, 1, _COMPACTED)
        policy = self._topics.settings(TABLE).get("cleanup.policy", "compact")
        count = self._topics.partitions(TABLE)
        if policy != "compact" or count != 1:
            raise CheckpointError(
                f"topic {TABLE!r} has {count} partitions and cleanup.policy={policy}, expected "
                "one and compact: it would lose which epochs are committed",
                "delete it before the first job with exactly-once output runs, which makes it as "
                "it has to be",
            )

    def read(self, writer: str) -> Mark | None:
        """The writer's mark, of all transactions that have begun before this call.

        Waits until they have ended: transactions of others in front of the mark hide it.
        """
        import confluent_kafka as kafka

        end = self._topics.end(TABLE)
        own = {
            "group.id": TABLE,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,  # the broker's word that this is the end comes so late
        }
        consumer = kafka.Consumer({"log_level": 2, **self._settings, **own})
        try:
            consumer.assign([kafka.TopicPartition(TABLE, 0, 0)])
            found, reached = None, 0
            until = time.monotonic() + PATIENCE_SECONDS
            while reached < end:
                message = consumer.poll(0.1)
                error: Any = None if message is None else message.error()
                if message is None:
                    if time.monotonic() >= until:
                        raise _open_transactions(reached, end)
                elif error is None:
                    if message.key() == writer.encode():
                        found = message.value()
                elif error.name() == "_PARTITION_EOF":
                    reached = message.offset() or 0
                elif not is_away(error):
                    raise self._topics.error(f"read {TABLE}", error)
        finally:
            consumer.close()
        return None if found is None else Mark(**json.loads(found))


def _open_transactions(reached: int, end: int) -> StorageError:
    return StorageError(
        f"transactions in topic {TABLE!r} are open: {reached} of {end} can be read",
        "whoever wrote them was killed; they end after their transaction.timeout.ms, and then the "
        "job goes on",
        code="Unreachable",
    )


_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 << 20),  # the last segment is never compacted
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(600_000),  # the ends of transactions, too, stay that long
}
