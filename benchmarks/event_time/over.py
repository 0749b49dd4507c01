"""Spans that end at each record: what a user has paid within the last hour, or the last day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.connectors.kafka import TOPIC, fill
from benchmarks.event_time.work import COLUMNS, FLINK_SQL, EventTimeWork
from benchmarks.peers.peer import Peer
from benchmarks.works import WorkCase
from engine.programs.kafka import Kafka
from operators import Stream

QUIX = Peer(
    "quixstreams", "sliding_window", "records", "quix", "event_time/quix_over.py", most_tasks=1
)


class Over(EventTimeWork):
    """For each payment the sum of the user's payments within a span, of 100,000 users."""

    apis = ("records", "columnar")
    peers: ClassVar[tuple[Peer, ...]] = (FLINK_SQL, QUIX)
    users, step_ms = 100_000, 50
    hours: ClassVar[int]
    program = "Query"

    @contextmanager
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """The file, and the same in a topic if Quix Streams is here."""
        with super().prepared(records, folder):
            if QUIX.missing():
                yield
                return
            with Kafka(folder / "broker") as broker:
                self._servers = broker.servers
                fill(broker.servers, messages(self.file), partitions=1)
                yield

    def flink_settings(self, case: WorkCase) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        """The table and the query."""
        numbers = ", ".join(f"`{name}` BIGINT NOT NULL" for name in COLUMNS if name != "time")
        time = "`time` TIMESTAMP_LTZ(3) NOT NULL, WATERMARK FOR `time` AS `time`"
        return {
            "statements": [
                f"CREATE TEMPORARY TABLE payments ({numbers}, {time}) "
                f"WITH ('connector' = 'events', 'path' = '{self.file}')"
            ],
            "query": "SELECT `user`, `time`, SUM(amount) OVER (PARTITION BY `user` ORDER BY `time` "
            f"RANGE BETWEEN INTERVAL '{self.hours}' HOUR PRECEDING AND CURRENT ROW) AS total "
            "FROM payments",
        }

    def peer_settings(self, case: WorkCase) -> dict[str, Any]:
        """The topic and the span."""
        return {
            "servers": self._servers,
            "topic": TOPIC,
            "messages": case.input_records,
            "hours": self.hours,
        }

    def results(self, timed: Stream[Any], api: str) -> Stream[Any]:
        """Pairs of a payment and a sum, or payments with a column of sums."""
        key, value = ("user", "amount") if api == "columnar" else (0, COLUMNS.index("amount"))
        return timed.key_by(key).over(timedelta(hours=self.hours)).sum(value)

    @staticmethod
    def number(batch: Any) -> int:
        """The sum of the sums."""
        if isinstance(batch, list):
            return sum([total for _, total in batch])
        import pyarrow.compute as pc

        total: int = pc.sum(batch.column(batch.num_columns - 1)).as_py() or 0
        return total


class OverHour(Over):
    """Of one hour."""

    name, hours = "over-1h", 1


class OverDay(Over):
    """Of one day."""

    name, hours = "over-24h", 24


def messages(file: Path) -> Iterator[dict[str, Any]]:
    """The records as messages: the key is the user, the value an object of JSON."""
    import pyarrow as pa

    with pa.memory_map(str(file)) as memory:
        reader = pa.ipc.open_file(memory)
        for number in range(reader.num_record_batches):
            for record in reader.get_batch(number).to_pylist():
                yield {
                    "key": str(record["user"]),
                    "value": json.dumps(record),
                    "timestamp": record["time"],
                }


OVER = (OverHour(), OverDay())
