"""Latencies in a few buckets, from histograms with 3 significant digits."""

from __future__ import annotations

from dataclasses import dataclass

from engine.network import LatencyHistogram

BOUNDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""The upper bounds of the buckets, in seconds; one without a bound follows."""


@dataclass(frozen=True)
class Buckets:
    """How many values lie in each bucket, and their sum in seconds."""

    counts: tuple[int, ...]
    sum: float


def buckets(histogram: LatencyHistogram) -> Buckets:
    """The latencies of a histogram; one within 0.1 % of a bound may count on either side.

    >>> from engine.network import LatencyHistogram
    >>> latencies = LatencyHistogram()
    >>> for milliseconds in (0.05, 3, 4, 90_000):
    ...     latencies.record(int(milliseconds * 1e6))
    >>> buckets(latencies).counts
    (1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
    """
    counts = histogram.counts_between(_BOUNDS_NS)
    return Buckets(tuple(counts), histogram.mean * histogram.count / 1e6)


_BOUNDS_NS = [round(bound * 1e9) for bound in BOUNDS]
