"""Counters that go on, whatever becomes of their task."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.monitoring.totals import ALONE, Totals
from engine.network import LatencyHistogram
from tests.part import examples
from tests.unit.monitoring.tasks import task


def told(totals: Totals) -> dict[str, float]:
    """The totals of the first operator and of the task."""
    values = dict(totals.values())
    return {
        "records": values[0, "records_out", ALONE],
        "busy": values[None, "busy_seconds", ALONE],
        "sent": values[None, "sent_bytes", ALONE],
    }


@pytest.mark.parametrize(
    ("has_counts", "seen", "expected"),
    [
        # elapsed, records, sent, parallelism; records, busy, sent
        (False, [], None),
        (False, [(1, 10, 5, 1)], (10, 1, 5)),
        (False, [(1, 10, 5, 1), (2, 25, 9, 1)], (25, 2, 9)),
        # It restarts from the checkpoint at 20, and comes to 22: it has had these before.
        (False, [(9, 25, 9, 1), (1, 22, 3, 1)], (25, 10, 12)),
        (False, [(9, 25, 9, 1), (1, 22, 3, 1), (2, 31, 6, 1)], (31, 11, 15)),
        # It restarts from the beginning, and once more.
        (False, [(9, 25, 9, 1), (1, 0, 0, 1), (2, 30, 4, 1), (1, 3, 1, 1)], (30, 12, 14)),
        # The job was resumed: another driver has told of the first 100.
        (True, [(1, 100, 5, 1)], (0, 1, 5)),
        (True, [(1, 100, 5, 1), (2, 130, 7, 1)], (30, 2, 7)),
        (True, [(3, 100, 5, 1), (1, 90, 2, 1), (2, 104, 3, 1)], (4, 5, 8)),
        # It was rescaled, and has the records of another task, too.
        (False, [(9, 25, 9, 2), (1, 60, 1, 1), (2, 64, 2, 1)], (29, 11, 11)),
        (False, [(9, 25, 9, 2), (10, 60, 1, 1)], (25, 19, 10)),
    ],
)
def test_totals(has_counts: bool, seen: list[Any], expected: Any) -> None:
    totals = Totals(has_counts=has_counts)
    for elapsed, records, sent, parallelism in seen:
        totals.take(
            task(elapsed=elapsed, records=records, sent_bytes=sent, parallelism=parallelism)
        )
    if expected is None:
        assert not dict(totals.values())
    else:
        assert tuple(told(totals).values()) == expected


def test_latencies_of_all_attempts_count() -> None:
    totals = Totals(has_counts=False)
    for elapsed, latencies in ((1, (1, 2)), (2, (1, 2, 3)), (1, ()), (2, (4,)), (1, (5, 6))):
        totals.take(task(elapsed=elapsed, latencies_ms=latencies))
    for _ in range(2):
        histogram = LatencyHistogram()
        totals.add_latencies(histogram)
        assert histogram.count == 6
        assert histogram.max == pytest.approx(6000, rel=1e-3)


def test_each_of_several_counts_goes_on_by_itself() -> None:
    totals = Totals(has_counts=False)
    seen = [{"200": 5}, {"200": 9, "404": 1}, {"200": 2}, {"200": 2, "404": 3, "503": 1}]
    expected = [{"200": 5}, {"200": 9, "404": 1}, {"200": 11, "404": 1}]
    expected.append({"200": 11, "404": 4, "503": 1})
    for elapsed, counts, wanted in zip((1, 2, 1, 2), seen, expected, strict=True):
        totals.take(task(elapsed=elapsed, responses=counts))
        values = dict(totals.values())
        assert {key[2]: value for key, value in values.items() if key[1] == "responses"} == wanted


steps = st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9), st.integers(1, 2))


@settings(max_examples=examples(200), deadline=None)
@given(st.booleans(), st.lists(steps, max_size=20), st.lists(st.booleans(), min_size=20))
def test_no_total_goes_backwards(has_counts: bool, seen: list[Any], looked: list[bool]) -> None:
    totals = Totals(has_counts=has_counts)
    before: dict[str, float] = {}
    for (elapsed, records, sent, parallelism), looks in zip(seen, looked, strict=False):
        totals.take(
            task(elapsed=elapsed, records=records, sent_bytes=sent, parallelism=parallelism)
        )
        if looks:
            now = told(totals)
            assert all(now[name] >= value for name, value in before.items())
            before = now
