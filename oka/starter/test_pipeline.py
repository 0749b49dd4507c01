"""Tests of the pipeline: `pytest`. They run in this process, and time is that of the records."""

import oka
from oka.starter.pipeline import per_second


def test_clicks_are_counted_by_user_and_second() -> None:
    clicks = [
        {"user": "ann", "ms": 10, "at": 1.0},
        {"user": "bob", "ms": 50, "at": 1.2},
        {"user": "ann", "ms": 20, "at": 1.9},
        {"user": "ann", "ms": 40, "at": 2.1},
    ]
    results = per_second(oka.source(oka.sources.Collection(clicks)))
    found = oka.testing.run(results.sink(oka.sinks.Collect()))["collect"]
    assert sorted(found, key=lambda result: (result[2], result[0])) == [
        ("ann", {"clicks": 2, "mean_ms": 15.0}, 1, 2),
        ("bob", {"clicks": 1, "mean_ms": 50.0}, 1, 2),
        ("ann", {"clicks": 1, "mean_ms": 40.0}, 2, 3),
    ]
