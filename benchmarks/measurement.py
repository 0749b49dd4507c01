"""The measurement of one run of any system, and rows of `oka.bench/1` from several runs."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from engine.network import LatencyHistogram
from engine.report.statistics import Latency


@dataclass(frozen=True)
class Run:
    """The settings of one run of a case."""

    seconds: float
    """Its length after the warm-up."""
    warmup: float
    """Seconds at its start that are not measured."""
    rate: float | None
    """Words per second offered over all sources; None: as fast as possible."""
    seed: int
    """Of the words."""


@dataclass(frozen=True)
class Traffic:
    """The traffic on the link of one host, counted at the switch, headers included.

    A packet has up to 64 KiB, as the kernel passes it on; a real wire would have many frames.
    """

    sent_bytes: int
    sent_packets: int
    received_bytes: int
    received_packets: int

    def __sub__(self, before: Traffic) -> Traffic:
        """The traffic since then."""
        return Traffic(
            self.sent_bytes - before.sent_bytes,
            self.sent_packets - before.sent_packets,
            self.received_bytes - before.received_bytes,
            self.received_packets - before.received_packets,
        )


@dataclass(frozen=True)
class Measurement:
    """One run. Counted at the sink, and checked against what the source emitted."""

    throughput: float
    """Words per second at the sink, over the window after the warm-up."""
    cpu_seconds_per_million: float
    """User + system time of all processes that move words, per million words."""
    histogram: bytes
    """Latency of the markers, HDR V2; empty if none arrived."""
    records: int
    """Words in the whole run."""
    source_throughput: float | None = None
    """Words per second that the sources emitted, over their window; None if unknown."""
    links: Mapping[str, Traffic] | None = None
    """Bytes that crossed the link of each host of a testbed, by its number."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Further fields of the row, of a single benchmark."""


@dataclass(frozen=True)
class Case:
    """One cell of the sweep for one system. Each row of a file has another case."""

    system: str
    api: str
    runtime: str
    transport: str
    payload_bytes: int
    batch_size: int
    parallelism: int
    load: str = "closed"
    """`closed`, or the share of the closed load's median at which words are offered."""
    encryption: bool = False
    placement: str = "operator_first"
    beside: str | None = None
    """The peer that it alternated with, if there are several."""
    nodes: int | None = None
    """Hosts of the testbed; None on this machine itself."""
    rate_bits_per_second: int | None = None
    """Of each host's link, in each direction; None: no limit."""

    unit: ClassVar[str] = "words/s"

    @property
    def label(self) -> str:
        """The case in words."""
        load = "" if self.load == "closed" else f", load {self.load}"
        if self.nodes is not None:
            load += ", encrypted" if self.encryption else ", plain"
        return (
            f"{self.system} {self.api} {self.payload_bytes} B, batch {self.batch_size}, "
            f"parallelism {self.parallelism}{load}"
        )


def row(
    case: Case, runs: Sequence[Measurement], failures: Sequence[str], offered: float | None = None
) -> dict[str, Any]:
    """The row of a case: medians over its runs, and the failures."""
    merged = LatencyHistogram()
    latencies = []
    for run in runs:
        if run.histogram:
            merged.merge(run.histogram)
            latencies.append(Latency.of(LatencyHistogram.from_bytes(run.histogram)))
    sources = [run.source_throughput for run in runs if run.source_throughput is not None]
    found = {
        **asdict(case),
        "runs": len(runs),
        "offered": offered,
        "throughput": _spread([run.throughput for run in runs]),
        "source_throughput": _spread(sources),
        "latency_us": {
            field: statistics.median(getattr(latency, field) for latency in latencies)
            for field in ("mean", "p50", "p95", "p99", "p999", "max")
        }
        if latencies
        else None,
        "cpu_seconds_per_million": _spread([run.cpu_seconds_per_million for run in runs]),
        "records": sum(run.records for run in runs),
        "failures": list(failures),
        "histogram": base64.b64encode(merged.to_bytes()).decode() if latencies else None,
    }
    for name in dict.fromkeys(name for run in runs for name in run.figures):
        found[name] = _spread([run.figures[name] for run in runs if name in run.figures])
    if case.nodes is not None:
        hosts = [str(number) for number in range(1, case.nodes + 1)]
        found["bridge_bytes"] = {host: _crossed(runs, host, "bytes") for host in hosts}
        found["bridge_packets"] = {host: _crossed(runs, host, "packets") for host in hosts}
    return found


def _crossed(runs: Sequence[Measurement], host: str, what: str) -> dict[str, int]:
    links = [run.links[host] for run in runs if run.links is not None]
    return {way: sum(getattr(link, f"{way}_{what}") for link in links) for way in _WAYS}


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


_WAYS = ("sent", "received")
