"""Latencies in the buckets of Prometheus, from histograms with 3 significant digits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
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
    counts = [0] * (len(BOUNDS) + 1)
    for value_ns, count in _recorded(histogram.to_bytes()):
        counts[bisect_left(_BOUNDS_NS, value_ns)] += count
    return Buckets(tuple(counts), histogram.mean * histogram.count / 1e6)


def _recorded(data: bytes) -> Iterator[tuple[int, int]]:
    """The values and their counts of a histogram in HDR's V2 format (hdrhistogram.org).

    Behind a head of 40 bytes there are the counts of all places, or how many places have none, as a
    negative number. A place is of values that are equal in 3 significant digits; it gives the least
    of them.
    """
    unit = int.from_bytes(data[_LOWEST], "big").bit_length() - 1
    place = 0
    for number in _numbers(data[_HEAD_BYTES:]):
        if number < 0:
            place -= number
            continue
        scale = max(0, place // _HALF - 1)
        yield (place - scale * _HALF) << scale + unit, number
        place += 1


def _numbers(data: Sequence[int]) -> Iterator[int]:
    """Signed integers in ZigZag LEB128, of 9 bytes at most."""
    number = shift = 0
    for byte in data:
        if shift == _LAST_SHIFT:  # all of its bits count
            number, byte = number | byte << shift, 0
        else:
            number |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            yield number >> 1 ^ -(number & 1)
            number = shift = 0


_BOUNDS_NS = [round(bound * 1e9) for bound in BOUNDS]
_HEAD_BYTES = 40
_LOWEST = slice(16, 24)
"""Of the head: the least value that is told from 0."""
_LAST_SHIFT = 56
_HALF = 1024
"""The values of half of a range, each of which is twice as long as the one before: 3 digits."""
