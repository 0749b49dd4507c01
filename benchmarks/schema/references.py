"""Published measurements of others, to draw with ours; `data/README.md` describes them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Reference:
    """A figure of another machine; latencies in µs, CPU in seconds per million words."""

    source: str
    payload_bytes: int
    batch_size: int
    parallelism: int
    throughput: float
    mean_us: float | None
    p99_us: float
    cpu: float | None


@cache
def volga() -> Sequence[Reference]:
    """Volga's word count, as published and as measured on 2 cores; see data/README.md."""
    published = [
        Reference(
            VOLGA_SOURCES[row["environment"]],
            int(row["payload_bytes"]),
            int(row["batch_size"]),
            int(row["parallelism"]),
            float(row["throughput_msg_s"]),
            float(row["latency_avg_ms"]) * 1e3,
            float(row["latency_p99_ms"]) * 1e3,
            None,
        )
        for row in _table("volga_wordcount.csv")
    ]
    measured = [
        Reference(
            VOLGA_SOURCES[row["system"]],
            int(row["payload_bytes"]),
            int(row["batch_size"]),
            int(row["parallelism"]),
            float(row["words_per_second"]),
            None,
            float(row["p99_ms"]) * 1e3,
            float(row["cpu_seconds_per_million"]),
        )
        for row in _table("measured_2core.csv")
        if row["system"] in VOLGA_SOURCES
    ]
    return (*published, *measured)


@dataclass(frozen=True)
class Experiment:
    """Seconds until the last loader had the model, by loaders and other machines."""

    experiment: str
    """`plasma` or `s3`."""
    case: str
    loaders: int
    machines: int
    seconds: float

    SIZE: ClassVar[int] = 564_000_000
    BYTES_PER_SECOND: ClassVar[float] = 100e6
    """Seconds that each further machine added to plasma's time (case 5), as published in words."""
    SOURCE: ClassVar[str] = "published 2022: t2.xlarge, about 100 MB/s, Ray 1.12"


@cache
def plasma_vs_s3() -> Sequence[Experiment]:
    """The published broadcast of a speech model by Ray's object store and S3."""
    return [
        Experiment(
            row["experiment"],
            row["case"],
            int(row["loaders"]),
            int(row["loaders_on_distinct_machines"]),
            float(row["seconds"]),
        )
        for row in _table("plasma_vs_s3.csv")
    ]


def _table(name: str) -> list[dict[str, str]]:
    with (Path(__file__).parents[1] / "data" / name).open(newline="") as file:
        return list(csv.DictReader(file))


VOLGA_SOURCES = {
    "local": "Volga as published, Apple M2 Max, 12 cores",
    "cluster": "Volga as published, EKS cluster of c5.2xlarge, 2 vCPU per worker",
    "volga_local_channels": "Volga measured on a 2-core AMD EPYC VM, 2026-11-20",
}
