"""Makes rows of `oka bench broadcast` from runs, and a table from rows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.testbed.broadcast_cases import LAYOUTS, BroadcastCase, way_name
from benchmarks.testbed.rate import show_rate
from engine.report.tables import table

if TYPE_CHECKING:
    from benchmarks.broadcast.job import Broadcast


def row(
    case: BroadcastCase,
    runs: Sequence[Broadcast],
    memory_run: Broadcast | None,
    failures: Sequence[str],
) -> dict[str, Any]:
    """The row of a case: medians over its runs, memory of the run in which it was sampled.

    `usable_seconds` and `loaded_seconds` are those of the last Load task of a run; `loaders` has
    those of each task. `gigabytes_per_second` is the model's size divided by the median of
    `usable`, for any number of tasks; `cpu_seconds_per_gib` counts the GiB of all tasks together.
    """
    usable = _spread([run.usable for run in runs])
    delivered = case.payload_bytes * len(case.layout.nodes) / 2**30
    return {
        **asdict(case),
        "about": case.layout.about,
        "loaders_per_host": list(case.layout.loaders),
        "parallelism": len(case.layout.nodes),
        "nodes": len(case.layout.loaders),
        "runs": len(runs),
        "usable_seconds": usable,
        "loaded_seconds": _spread([run.loaded for run in runs]),
        "gigabytes_per_second": case.payload_bytes / usable["median"] / 1e9 if usable else None,
        "cpu_seconds_per_gib": _spread([run.cpu_seconds / delivered for run in runs]),
        "loaders": _loaders(runs),
        "link_bytes": _links(runs),
        "peak_memory_bytes": _by_host(memory_run.memory_bytes if memory_run else None),
        "checksums": sorted({run.checksum for run in runs}),
        "throughput": None,
        "latency_us": None,
        "failures": list(failures),
    }


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table.

    `memory` is the largest growth of a host's memory, in models; `link` the most bytes that a Load
    task's host received, in models.
    """
    lines = []
    for found in sorted(rows, key=_order):
        place = (
            found["case"],
            way_name(found["api"], found["encryption"]),
            show_rate(found["rate_bits_per_second"]),
            found["about"],
        )
        usable, loaded = found["usable_seconds"], found["loaded_seconds"]
        if usable is None:
            lines.append((*place, "failed", *("",) * 6))
            continue
        size = max(1, found["payload_bytes"])
        memory = found["peak_memory_bytes"]
        received = [found["link_bytes"][host]["received"] for host in _others(found)]
        lines.append(
            (
                *place,
                f"{usable['median']:.2f}",
                f"{usable['min']:.2f}-{usable['max']:.2f}",
                f"{loaded['median']:.2f}",
                f"{found['gigabytes_per_second']:.2f}",
                f"{found['cpu_seconds_per_gib']['median']:.2f}",
                "" if memory is None else f"{max(memory.values()) / size:.2f}",
                f"{max(received) / size:.2f}" if received else "",
            )
        )
    return table(_COLUMNS, lines, keys=3)


def _others(found: Mapping[str, Any]) -> list[str]:
    counts = enumerate(found["loaders_per_host"], 1)
    return [str(host) for host, count in counts if host > 1 and count]


def _order(found: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        found["rate_bits_per_second"] or 1e18,
        list(LAYOUTS).index(found["case"]),
        found["api"],
        found["encryption"],
    )


def _loaders(runs: Sequence[Broadcast]) -> list[dict[str, Any]]:
    """Medians of each Load task, in the order of hosts."""
    found = []
    for task in sorted(loader["task"] for loader in runs[0].loaders) if runs else []:
        mine = [loader for run in runs for loader in run.loaders if loader["task"] == task]
        found.append(
            {
                "task": task,
                "host": mine[0]["host"],
                "usable": statistics.median(loader["usable"] for loader in mine),
                "loaded": statistics.median(loader["loaded"] for loader in mine),
            }
        )
    return sorted(found, key=lambda loader: (loader["host"], loader["usable"]))


def _links(runs: Sequence[Broadcast]) -> dict[str, dict[str, float]]:
    """Bytes that crossed the link of each host, medians over the runs."""
    hosts = sorted(runs[0].links) if runs else []
    return {
        str(host): {
            "sent": statistics.median(run.links[host].sent_bytes for run in runs),
            "received": statistics.median(run.links[host].received_bytes for run in runs),
        }
        for host in hosts
    }


def _by_host(found: Mapping[int, int] | None) -> dict[str, int] | None:
    return None if found is None else {str(host): found[host] for host in sorted(found)}


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


_COLUMNS = (
    "case",
    "way",
    "rate",
    "what",
    "usable s",
    "min-max",
    "loaded s",
    "GB/s",
    "cpu s/GiB",
    "memory",
    "link",
)
