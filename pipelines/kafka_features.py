"""Features of payments: a topic of Kafka, windows of event time, and another topic.

For each card, how much was paid how often within the last ten minutes, every minute: what a model
that looks for fraud wants to know. Payments may come up to five seconds late.

    oka dev up kafka --port 9092
    oka run pipelines/kafka_features.py:fill
    oka run pipelines/kafka_features.py end=latest --set checkpoints=checkpoints
    oka run pipelines/kafka_features.py:show

Without `end=latest` it goes on with the payments that come. With checkpoints each feature is there
once, whatever fails, for consumers of committed messages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, TypeAlias

import engine
from operators import Count, Max, Pipeline, Stream, Sum, TaskContext, source
from operators.formats import Json
from operators.kafka import KafkaSink, KafkaSource
from operators.sinks import Print
from operators.sources import Function
from operators.windows import Sliding

End: TypeAlias = Literal["latest"]


def kafka_features(
    servers: str = "127.0.0.1:9092",
    read: str = "payments",
    written: str = "features",
    end: End | None = None,
) -> Pipeline:
    """Features of the payments in a topic, to another; with `end` of those that are there now."""
    payments = source(KafkaSource(read, servers, format=Json(), on_error="skip", end=end))
    sink = KafkaSink(written, servers, key="card", timestamp="end", unit="ms", partitions=4)
    return by_card(payments).sink(sink)


def by_card(payments: Stream[dict[str, Any]]) -> Stream[dict[str, Any]]:
    """A row for each card and window, when the event time has passed its end."""
    timed = payments.with_event_time(
        "at", unit="ms", out_of_orderness=timedelta(seconds=5), idle_after=timedelta(seconds=10)
    )
    windows = timed.key_by("card").window(Sliding(timedelta(minutes=10), timedelta(minutes=1)))
    found = windows.aggregate(payments=Count(), total=Sum("amount"), highest=Max("amount"))

    def row(window: tuple[str, dict[str, Any], int, int]) -> dict[str, Any]:
        card, values, _, end = window
        return {"card": card, "end": end, **values}

    return found.map(row)


def fill(
    servers: str = "127.0.0.1:9092", topic: str = "payments", payments: int = 20_000, seed: int = 0
) -> Pipeline:
    """Payments of an hour, to a topic that is made if it is missing."""

    def made(context: TaskContext) -> Iterator[dict[str, Any]]:
        return iter(sample(payments, seed)[context.index :: context.parallelism])

    sink = KafkaSink(topic, servers, key="card", timestamp="at", unit="ms", partitions=4)
    return source(Function(made)).sink(sink)


def show(servers: str = "127.0.0.1:9092", topic: str = "features") -> Pipeline:
    """Print the committed messages of a topic."""
    return source(KafkaSource(topic, servers, format=Json(), end="latest")).sink(Print())


def sample(payments: int, seed: int = 0) -> list[dict[str, Any]]:
    """Made-up payments: a few cards pay far more often than others."""
    chance = random.Random(seed)
    begin = int(datetime(2026, 11, 26, 12, tzinfo=timezone.utc).timestamp() * 1000)
    step = 3_600_000 / payments
    return [
        {
            "card": f"card-{int(chance.paretovariate(0.5)) % 500:03}",
            "at": begin + int(number * step) - chance.randrange(3000),
            "amount": round(chance.lognormvariate(3.0, 1.0), 2),
        }
        for number in range(payments)
    ]


if __name__ == "__main__":
    print(engine.execute(kafka_features(end="latest"), checkpoints="checkpoints", resume="latest"))
