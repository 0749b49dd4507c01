"""The rows of `oka bench testbed` as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.testbed.rate import show_rate
from engine.report.tables import table
from engine.units import duration, rate


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table; `B/word` and `link` are of all bytes that crossed the switch."""
    lines = []
    for found in rows:
        place = (
            found["api"],
            "yes" if found["encryption"] else "no",
            f"{found['nodes']}",
            show_rate(found["rate_bits_per_second"]),
            f"{found['payload_bytes']}",
            f"{found['batch_size']}",
        )
        throughput, latency = found["throughput"], found["latency_us"]
        if throughput is None:
            lines.append((*place, "failed", *("",) * 7))
            continue
        lines.append(
            (
                *place,
                rate(throughput["median"]),
                f"{rate(throughput['min'])}-{rate(throughput['max'])}",
                f"{throughput['median'] * found['payload_bytes'] / 1e6:.1f}",
                f"{found['cpu_seconds_per_million']['median']:.3f}",
                duration(latency["p50"]) if latency else "",
                duration(latency["p99"]) if latency else "",
                f"{bytes_per_word(found):.1f}",
                "" if (share := link_share(found)) is None else f"{share:.0%}",
            )
        )
    return table(_COLUMNS, lines, keys=6)


def bytes_per_word(found: dict[str, Any]) -> float:
    """Bytes that the hosts sent per word: words, headers, acknowledgements, Ray's messages."""
    sent = sum(link["sent"] for link in found["bridge_bytes"].values())
    return float(sent / found["records"])


def link_share(found: dict[str, Any]) -> float | None:
    """The share of its rate that the busiest link used, in one direction; None if unlimited."""
    if found["rate_bits_per_second"] is None:
        return None
    busiest = max(max(link.values()) for link in found["bridge_bytes"].values())
    bits_per_second = found["throughput"]["median"] * busiest / found["records"] * 8
    return float(bits_per_second / found["rate_bits_per_second"])


_COLUMNS = (
    "api",
    "enc.",
    "hosts",
    "rate",
    "bytes",
    "batch",
    "words/s",
    "min-max",
    "MB/s",
    "cpu s/M",
    "p50",
    "p99",
    "B/word",
    "link",
)
