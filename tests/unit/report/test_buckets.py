"""Latencies in buckets."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.network import LatencyHistogram
from engine.report.buckets import BOUNDS, buckets
from tests.part import examples

EDGES = [round(bound * 1e9) + off for bound in BOUNDS for off in (-1, 0, 1)]
MOST_NS = 3_600_000_000_000


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, 2 * MOST_NS) | st.integers(0, 10**7) | st.sampled_from(EDGES)))
@example([])
@example([0, 1, 63, 64, 127, 128, MOST_NS])
@example([5] * 100_000)
@example([MOST_NS + 7_772_528_640])
def test_each_latency_is_in_its_bucket_or_next_to_its_bound(latencies: list[int]) -> None:
    histogram = LatencyHistogram()
    for each in latencies:
        histogram.record(each)
    found = buckets(histogram)
    assert sum(found.counts) == len(latencies)
    seconds = [min(each, MOST_NS) / 1e9 for each in latencies]
    assert found.sum == pytest.approx(sum(seconds), rel=2e-3, abs=1e-7 * (1 + len(latencies)))
    below = 0
    for bound, count in zip(BOUNDS, found.counts, strict=False):
        below += count
        surely = sum(each < bound * 0.999 - 1e-7 for each in seconds)
        perhaps = sum(each <= bound * 1.001 + 1e-7 for each in seconds)
        assert surely <= below <= perhaps


def test_the_middle_of_each_bucket_is_in_it() -> None:
    for at, bound in enumerate(BOUNDS):
        histogram = LatencyHistogram()
        histogram.record(int(bound * 0.9 * 1e9))
        assert buckets(histogram).counts[at] == 1
        assert bisect_left(BOUNDS, bound * 0.9) == at
