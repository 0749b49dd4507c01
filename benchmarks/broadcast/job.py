"""One broadcast on the hosts of a testbed, measured.

`measure` runs this file as the driver, on the first host, which also has the Download task: `python
-m benchmarks.broadcast.job SETTINGS`. Settings and output are JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import engine
from benchmarks.broadcast.sampler import Sampler
from benchmarks.broadcast.store import URL
from benchmarks.measurement import Traffic
from benchmarks.testbed.broadcast_cases import BroadcastCase
from benchmarks.testbed.cluster import Cluster
from benchmarks.testbed.driver import RUNNING, drive
from engine.errors import StartError
from pipelines.model_broadcast import Via, model_broadcast


@dataclass(frozen=True)
class Broadcast:
    """One run. Times are seconds since the bytes were ready in the Download task."""

    loaders: tuple[Mapping[str, float], ...]
    """For each Load task: `host`, `task`, `usable` and `loaded`."""
    checksum: str
    cpu_seconds: float
    """Of job and raylets, until the last task had loaded; without the S3 server."""
    links: Mapping[int, Traffic]
    memory_bytes: Mapping[int, int] | None
    """The largest growth by host; None if it was not sampled."""

    @property
    def usable(self) -> float:
        """Seconds until the last task had a view of all bytes."""
        return max(loader["usable"] for loader in self.loaders)

    @property
    def loaded(self) -> float:
        """Seconds until the last task had read all bytes."""
        return max(loader["loaded"] for loader in self.loaders)


def measure(
    cluster: Cluster, case: BroadcastCase, memory: bool, fresh: Mapping[int, int]
) -> Broadcast:
    """Run the case once. `fresh` is the shared memory before Ray held any object.

    Raises StartError if the run failed, or its reports contradict each other.
    """
    hosts = cluster.network.hosts
    _wait_quiet(cluster)
    with _claimed((1 + case.layout.remote_hosts) * case.payload_bytes) as claimed:
        before = cluster.network.counters()
        with Sampler(hosts, memory) as sampler:
            reports = _reports(cluster, case, claimed.close)
    after = cluster.network.counters()
    links = {number: after[number] - before[number] for number in before}
    _check(reports, case, links)
    first = min(report["ready_ns"] for report in reports)
    last = max(report["loaded_ns"] for report in reports)
    kept = fresh if case.api == "plasma" else None
    return Broadcast(
        tuple(
            {
                "host": _host(report),
                "task": report["task"],
                "usable": report["seconds"]["usable"],
                "loaded": report["seconds"]["loaded"],
            }
            for report in reports
        ),
        reports[0]["checksum"],
        sampler.cpu_seconds(first, last),
        links,
        sampler.peak_memory(first, last, kept) if memory else None,
    )


def _wait_quiet(cluster: Cluster) -> None:
    """Wait until the links are quiet: Ray still sends objects that no task waits for."""
    deadline = time.monotonic() + _QUIET_SECONDS
    before = cluster.network.counters()
    while time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        now = cluster.network.counters()
        crossed = sum((now[host] - before[host]).sent_bytes for host in before)
        if crossed < _QUIET_BYTES_PER_SECOND * _LOOK_SECONDS:
            return
        before = now
    raise StartError(f"the links are not quiet after {_QUIET_SECONDS:.0f} s")


@contextmanager
def _claimed(size: int) -> Iterator[ExitStack]:
    """Use so much shared memory, until the returned object is closed.

    The host of a virtual machine takes back free memory within seconds, and getting it again costs
    up to two seconds per GB. This memory is freed as the tasks begin, so that no backend pays for
    that.
    """
    with ExitStack() as claimed:
        memory = os.memfd_create("oka-claim")
        claimed.callback(os.close, memory)
        for at in range(0, size, _BLOCK_BYTES):
            os.pwrite(memory, bytes(_BLOCK_BYTES), at)
        yield claimed


def _check(
    reports: list[dict[str, Any]], case: BroadcastCase, links: Mapping[int, Traffic]
) -> None:
    places = Counter(_host(report) - 1 for report in reports)
    if places != Counter(case.layout.nodes):
        raise StartError(f"the Load tasks were on hosts {places}, expected {case.layout.nodes}")
    checksums = {report["checksum"] for report in reports}
    if len(checksums) != 1:
        raise StartError(f"the Load tasks have the checksums {checksums}, expected one")
    for report in reports:
        if report["bytes"] < case.payload_bytes:
            raise StartError(f"a Load task got {report['bytes']:,} bytes, expected all")
    for host, count in enumerate(case.layout.loaders):
        if host and count and links[host + 1].received_bytes < case.payload_bytes:
            raise StartError(
                f"host {host + 1} received only {links[host + 1].received_bytes:,} bytes, "
                f"expected those of the model, {case.payload_bytes:,}: they took another way"
            )


def _host(report: Mapping[str, Any]) -> int:
    return int(report["address"].rpartition(".")[2])


@dataclass(frozen=True)
class Settings:
    """The pipeline of the driver."""

    via: Via
    model: str
    nodes: tuple[int, ...]
    encryption: bool


def main() -> None:
    """Run the broadcast of the settings and print its reports."""
    settings = Settings(**json.loads(sys.argv[1]))
    try:
        job = engine.submit(
            model_broadcast(settings.via, settings.model, len(settings.nodes), settings.nodes),
            name=f"broadcast via {settings.via}",
            runtime="ray",
            strict_placement=True,
            encryption=settings.encryption,
            connect_timeout_seconds=120.0,
            progress="none",
        )
        try:
            while job.statistics().elapsed_seconds == 0.0:
                with suppress(TimeoutError):
                    job.wait_finished(_POLL_SECONDS)
                    break
            print(RUNNING, flush=True)
            answer: dict[str, Any] = {"reports": job.wait_finished().output}
        except BaseException:
            job.cancel()
            job.wait_stopped()
            raise
    except engine.EngineError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


def _reports(
    cluster: Cluster, case: BroadcastCase, on_running: Callable[[], object]
) -> list[dict[str, Any]]:
    kind = "memory" if case.in_memory else "synthetic"
    model = URL if case.api == "s3" else f"{kind}:{case.payload_bytes}"
    settings = Settings(cast(Via, case.api), model, case.layout.nodes, case.encryption)
    seconds = _LONGEST_OVERHEAD_SECONDS + _longest_transfer(case)
    answer = drive(cluster, "benchmarks.broadcast.job", settings, seconds, on_running)
    reports: list[dict[str, Any]] = answer["reports"]
    return reports


def _longest_transfer(case: BroadcastCase) -> float:
    """Seconds that suffice for two copies for each task, one after the other."""
    rate = case.rate_bits_per_second or 1e9
    return 2 * len(case.layout.nodes) * case.payload_bytes * 8 / rate


_QUIET_SECONDS = 120.0
_LOOK_SECONDS = 0.4
_QUIET_BYTES_PER_SECOND = 500_000
"""The daemons of six Ray nodes send a tenth of it."""
_BLOCK_BYTES = 1 << 20
_POLL_SECONDS = 0.05
_LONGEST_OVERHEAD_SECONDS = 180.0
"""Joining Ray, starting and connecting the workers, making the model, and ending."""

if __name__ == "__main__":
    main()
