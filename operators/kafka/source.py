"""A source that reads topics of Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Literal
from zlib import crc32

from engine.errors import GraphError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.partitions import PartitionedSource, PartitionReader
from operators.formats import Bytes, Decode, Format, OnMessageError
from operators.kafka.reader import KafkaReader
from operators.kafka.record import KafkaMessages
from operators.kafka.settings import client_settings, import_kafka
from operators.kafka.subscription import Start, Subscription


class KafkaSource(PartitionedSource[Any]):
    """Reads topics of Kafka: each partition in its order, by one task.

    Positions are in the job's checkpoints, so each message has its effect once. The offsets that
    are final are committed to Kafka, too, for tools that show how far behind a group is; the job
    never reads them. Tasks are no members of a group, so they never wait for each other.

    >>> KafkaSource("words", "localhost:9092", start="latest", group_id="counts").discover_seconds
    30.0
    """

    def __init__(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        servers: str | Sequence[str],
        *,
        format: Format | None = None,  # noqa: A002 - as the sink's
        on_error: OnMessageError = "fail",
        metadata: bool = False,
        start: Start = "earliest",
        end: Literal["latest"] | None = None,
        discover_seconds: float = 30.0,
        on_deleted: Literal["fail", "end"] = "fail",
        **settings: Any,
    ) -> None:
        r"""`topics` is a name, several, or a pattern of whole names: `re.compile(r"orders-.*")`.

        Records are the values, as `format` decodes them: `Bytes()` if none is given. With
        `metadata` they are `KafkaRecord`s; where a format makes columns, the metadata are further
        columns: `_key`, `_timestamp`, `_headers`, `_topic`, `_partition`, `_offset`. `on_error` is
        for messages that cannot be decoded.

        `start` is where a job begins that does not go on from a checkpoint: "earliest", "latest",
        the first message from a time on, or offsets by partition, `{"words/0": 17}`; partitions
        that are not named begin at the earliest. With `end="latest"` the source ends behind the
        messages that are there when it begins. Topics and partitions that are added while the job
        runs are found every `discover_seconds`, and read from their first message on.

        If a topic is deleted, `on_deleted` says whether the job fails, or its partitions end.

        `settings` are librdkafka's, with underscores for dots: `group_id="counts"`,
        `security_protocol="SASL_SSL"`, `sasl_username=…`. With `auto_offset_reset="earliest"` or
        "latest", a partition goes on there if its log no longer has the messages at its position;
        otherwise that fails the job. Raises GraphError for settings that the source sets itself.
        """
        if isinstance(topics, str):
            topics = [topics]
        names = topics if isinstance(topics, re.Pattern) else tuple(dict.fromkeys(topics))
        if names == () or (
            isinstance(names, tuple)
            and not all(isinstance(each, str) and _NAME.fullmatch(each) for each in names)
        ):
            raise GraphError(
                f"KafkaSource got topics={topics!r:.80}, expected names of topics or a pattern",
                "a pattern is re.compile(r'orders-.*')",
            )
        start = _checked(start)
        if end not in (None, "latest"):
            raise GraphError(f"KafkaSource got end={end!r:.80}, expected 'latest' or None")
        if on_deleted not in ("fail", "end"):
            raise GraphError(f"KafkaSource got on_deleted={on_deleted!r:.80}, expected fail or end")
        if not isinstance(discover_seconds, int | float) or not discover_seconds > 0:
            raise GraphError(
                f"KafkaSource got discover_seconds={discover_seconds!r:.80}, expected more than 0"
            )
        self.discover_seconds = None if end else float(discover_seconds)
        self.decode = Decode(
            Bytes() if format is None else format, on_error, KafkaMessages(metadata)
        )
        settings = client_settings("KafkaSource", servers, settings, _OWN)
        values = isinstance(self.decode.format, Bytes) and not metadata
        self.subscription = Subscription(names, settings, start, end, on_deleted, values)

    @property
    def followed_by(self) -> Decode | None:
        """The decoder, if there is something to decode."""
        return None if self.subscription.values else self.decode

    @property
    def properties(self) -> Properties:
        """Those of the decoder."""
        return replace(self.decode.properties, meaning={"kind": "kafka"})

    def validate(self) -> None:
        """GraphError where confluent-kafka is not installed."""
        import_kafka("KafkaSource")

    def validate_here(self) -> None:
        """StorageError where no broker answers, or a topic is missing."""
        reader = KafkaReader(self.subscription, "oka", "oka")
        try:
            reader.check()
        finally:
            reader.close()

    def number(self, name: str) -> int:
        """Partitions of a topic have successive numbers."""
        topic, _, partition = name.rpartition("/")
        return crc32(topic.encode()) + int(partition)

    def open(self, context: TaskContext) -> PartitionReader:  # type: ignore[override]
        """The reader of one task: one client for all of its partitions."""
        return KafkaReader(self.subscription, context.job_name, context.task_name)


def _checked(start: Any) -> Start:
    if start == "earliest" or start == "latest":
        return start  # type: ignore[no-any-return]
    if isinstance(start, datetime):
        return start if start.tzinfo else start.replace(tzinfo=_UTC)
    if isinstance(start, Mapping):
        for name, offset in start.items():
            topic, _, number = str(name).rpartition("/")
            if not (topic and number.isdecimal() and isinstance(offset, int) and offset >= 0):
                raise GraphError(
                    f"KafkaSource got start={start!r:.80}, expected offsets by partition",
                    "such as start={'words/0': 17}",
                )
        return dict(start)
    raise GraphError(
        f"KafkaSource got start={start!r:.80}, expected 'earliest', 'latest', a datetime or offsets"
    )


_UTC = timezone.utc
_NAME = re.compile(r"[\w.-]+", re.ASCII)
_OWN = {
    "enable.auto.commit": "offsets are committed when a checkpoint has them",
    "enable.auto.offset.store": "offsets are committed when a checkpoint has them",
    "enable.partition.eof": "it always is",
}
