"""A row of `oka.bench/1` with types, for figures and tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.network import LatencyHistogram


@dataclass(frozen=True)
class Spread:
    """Median, least and most of the runs of one row."""

    median: float
    min: float
    max: float


@dataclass(frozen=True)
class Variant:
    """The settings of a row, except payload, batch size, parallelism and load."""

    system: str
    api: str | None
    runtime: str | None
    transport: str | None
    placement: str | None
    encryption: bool

    @property
    def name(self) -> str:
        """The system and its API: `oka native`."""
        return f"{self.system} {self.api}" if self.api else self.system

    @property
    def way(self) -> str:
        """The runtime and the transport, as far as known: `local, shm`."""
        told = [part for part in (self.runtime, self.transport) if part not in (None, OWN)]
        if self.encryption:
            told.append("encrypted")
        if self.system == "oka" and self.placement not in (None, _USUAL_PLACEMENT):
            told.append(str(self.placement))
        return ", ".join(map(str, told))


@dataclass(frozen=True)
class Row:
    """One row; missing values are None. Latencies in µs, CPU in seconds per million words."""

    variant: Variant
    payload_bytes: int
    batch_size: int | None
    parallelism: int | None
    load: str
    offered: float | None
    runs: int | None
    throughput: Spread | None
    latency_us: Mapping[str, float | None] | None
    cpu: Spread | None
    records: int | None
    failures: tuple[str, ...]
    histogram: bytes | None
    nodes: int | None
    rate_bits_per_second: float | None
    beside: str | None
    """The peer of its cell."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Row:
        """The row of a file that `results_file.check` has accepted."""
        histogram = row.get("histogram")
        return cls(
            variant=Variant(
                row["system"],
                row["api"],
                row.get("runtime"),
                row.get("transport"),
                row.get("placement"),
                bool(row.get("encryption")),
            ),
            payload_bytes=row["payload_bytes"],
            batch_size=row["batch_size"],
            parallelism=row["parallelism"],
            load=row.get("load") or CLOSED,
            offered=row.get("offered"),
            runs=row.get("runs"),
            throughput=_spread(row["throughput"]),
            latency_us=row["latency_us"],
            cpu=_spread(row.get("cpu_seconds_per_million")),
            records=row.get("records"),
            failures=tuple(str(failure) for failure in row.get("failures", ())),
            histogram=base64.b64decode(histogram) if histogram else None,
            nodes=row.get("nodes"),
            rate_bits_per_second=row.get("rate_bits_per_second"),
            beside=row.get("beside"),
        )

    @property
    def is_open(self) -> bool:
        """Whether words were offered at a rate, rather than as fast as possible."""
        return self.load != CLOSED

    @property
    def load_name(self) -> str:
        """The load in words: `closed load`, or `50 % of the closed load`."""
        if not self.is_open:
            return "closed load"
        try:
            return f"{100 * float(self.load):g} % of the closed load"
        except ValueError:
            return f"load {self.load}"

    @property
    def p50(self) -> float | None:
        """Median latency in µs."""
        return self._latency("p50")

    @property
    def p99(self) -> float | None:
        """The latency in µs that 99 % do not exceed."""
        return self._latency("p99")

    @property
    def mean(self) -> float | None:
        """Average latency in µs."""
        return self._latency("mean")

    def percentile(self, percentile: float) -> float | None:
        """A latency in µs out of the histogram, or None if the row has none."""
        if self.histogram is None:
            return None
        return LatencyHistogram.from_bytes(self.histogram).percentile(percentile)

    def _latency(self, field: str) -> float | None:
        return self.latency_us.get(field) if self.latency_us else None


def _spread(found: Mapping[str, float] | None) -> Spread | None:
    return Spread(found["median"], found["min"], found["max"]) if found else None


CLOSED = "closed"
OWN = "own"
"""The runtime and the transport of a peer that has none of ours."""
_USUAL_PLACEMENT = "operator_first"
