"""Bytewax: messages of a topic of Kafka, by its own source, in one worker; values as JSON."""

from __future__ import annotations

import json
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main
from clocks import Clocks
from kafka_run import Settings


class Count(StatelessSinkPartition[Any]):
    """Counts what comes."""

    def __init__(self, counts: list[int]) -> None:
        self._counts = counts

    def write_batch(self, items: list[Any]) -> None:
        """Count these."""
        self._counts.append(len(items))


class Counts(DynamicSink[Any]):
    """A sink of each worker."""

    def __init__(self, counts: list[int]) -> None:
        self._counts = counts

    def build(self, _step_id: str, _worker_index: int, _worker_count: int) -> Count:
        """The worker's."""
        return Count(self._counts)


def main() -> None:
    """Read the topic to its end."""
    settings = Settings.of_arguments()
    clocks = Clocks(settings.result)
    counts: list[int] = []
    flow = Dataflow("kafka")
    read = KafkaSource(
        [settings.servers], [settings.topic], tail=False, batch_size=settings.batch_size
    )
    messages = op.input("messages", flow, read)
    if settings.json:
        messages = op.map("json", messages, lambda message: json.loads(message.value))
    op.output("counts", messages, Counts(counts))
    run_main(flow)
    clocks.write(sum(counts))


if __name__ == "__main__":
    main()
