"""A sink that writes to topics of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.errors import GraphError
from engine.graph.checks import check_integer
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from operators.elementwise import check_function
from operators.event_time.selector import Time, TimeSelector, Unit
from operators.formats import Format, Json
from operators.kafka.messages import MessageForm, Select
from operators.kafka.settings import client_settings, import_kafka
from operators.keys import check_item


class KafkaSink(SinkOperator[Any]):
    """Writes a message for each record to a topic of Kafka.

    In a job with checkpoints each message is there exactly once, for consumers with
    `isolation.level=read_committed`: an epoch becomes visible, in transactions, when its checkpoint
    is stored. Memory and checkpoint have the messages of one interval. Otherwise, or with
    `exactly_once=False`, messages are sent at once, and at least once: after a failure some come
    again. A message that cannot be delivered fails the job.

    >>> KafkaSink("totals", "localhost:9092", key=0, value=1, linger_ms=20).settings["linger.ms"]
    20
    """

    def __init__(
        self,
        topic: str | Callable[[Any], str],
        servers: str | Sequence[str],
        *,
        format: Format | None = None,  # noqa: A002 - as the source's
        key: Select = None,
        value: Select = None,
        timestamp: Time = None,
        unit: Unit = "us",
        headers: Select = None,
        partitioner: str | Callable[[bytes | None, int], int] = "murmur2_random",
        partitions: int | None = None,
        exactly_once: bool | None = None,
        **settings: Any,
    ) -> None:
        """`topic` is a name, or a function of the record.

        `key`, `value`, `timestamp` and `headers` are an item of the record (an index, or a field's
        or column's name), or a function of it. Without `value` all of the record is encoded, by
        `format`: `Json()` if none is given. A key, and a header's value, is bytes, a text (UTF-8)
        or None; anything else becomes compact JSON. Headers are a dict or pairs. `timestamp` is as
        that of `with_event_time`; without it, it is the time of sending.

        `partitioner` is librdkafka's name of one, by default Java's; or a function of the key's
        bytes and the number of partitions. A missing topic is made if `partitions` says
        with how many. `exactly_once` says True, so that a job without checkpoints is refused, or
        False.

        `settings` are librdkafka's, with underscores for dots: `compression_type="lz4"`,
        `security_protocol="SASL_SSL"`, `sasl_username=…`. Raises GraphError for those that the sink
        sets itself.
        """
        if callable(topic):
            check_function("KafkaSink", topic, 1, expected="a topic's name or a function")
        elif not isinstance(topic, str) or not topic:
            raise GraphError(f"KafkaSink got topic={topic!r:.80}, expected a name or a function")
        for item in (key, value, headers):
            if callable(item):
                check_function("KafkaSink", item, 1)
            elif item is not None:
                check_item("KafkaSink", item)
        if format is not None and not isinstance(format, Format):
            raise GraphError(f"KafkaSink got format={format!r:.80}, expected Json() or another")
        if callable(partitioner):
            check_function("KafkaSink", partitioner, 2)
        else:
            settings["partitioner"] = partitioner
        self.form = MessageForm(
            topic,
            format or Json(),
            value,
            key,
            None if timestamp is None else TimeSelector.of("KafkaSink", timestamp, unit),
            headers,
            partitioner if callable(partitioner) else None,
        )
        if partitions is not None:
            check_integer("partitions", partitions, 1)
        self.partitions = partitions
        self.exactly_once = exactly_once
        self.settings = client_settings("KafkaSink", servers, settings, _OWN)

    properties = Properties(accepts_columns=True, meaning={"kind": "kafka"})

    def validate(self) -> None:
        """GraphError where confluent-kafka is not installed."""
        import_kafka("KafkaSink")

    def open(self, context: TaskContext) -> SinkWriter:
        """A producer. Raises StorageError where the broker or the topic is not to be had."""
        from operators.kafka.writers import Output, SendingWriter, StagingWriter

        if self.exactly_once and not context.checkpoints:
            raise GraphError(
                "KafkaSink got exactly_once=True, and the job has no checkpoints",
                "give the job checkpoints=…; without, output is there at least once",
            )
        is_staged = context.checkpoints and self.exactly_once is not False
        kind = StagingWriter if is_staged else SendingWriter
        return kind(Output(self.form, self.settings, self.partitions), context)


_OWN = {
    "transactional.id": "each writer has an id of its own: exactly_once says whether",
    "enable.idempotence": "it always is",
    "delivery.report.only.error": "errors fail the job",
}
