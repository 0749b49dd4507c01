"""The pipeline from a topic to features in another, beside those that a plain loop finds."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from engine.testing import run
from pipelines.kafka_features import fill, kafka_features, sample
from tests.kafka import Broker

MINUTE = 60_000


def oracle(payments: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[int, float, float]]:
    """Count, total and highest amount by card and end of window."""
    amounts = defaultdict(list)
    for payment in payments:
        end = payment["at"] // MINUTE * MINUTE + MINUTE
        for later in range(10):
            amounts[payment["card"], end + later * MINUTE].append(payment["amount"])
    return {key: (len(each), sum(each), max(each)) for key, each in amounts.items()}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_made_up_payments(parallelism: int, kafka: Broker, tmp_path: Path) -> None:
    read, written = kafka.topic(1, "payments-" + str(parallelism)), f"features-{parallelism}"
    run(fill(kafka.servers, read, 3000), parallelism=1)
    settings = {"checkpoints": str(tmp_path), "checkpoint_interval_seconds": 0.1}
    run(kafka_features(kafka.servers, read, written, "latest"), parallelism=parallelism, **settings)
    found = {}
    for message in kafka.read(written):
        row = json.loads(message.value())
        key = row["card"], row["end"]
        assert key not in found
        assert (message.key().decode(), message.timestamp()[1]) == key
        found[key] = row["payments"], pytest.approx(row["total"]), row["highest"]
    assert found == oracle(sample(3000))
