"""The systems that count words: Oka in each of its APIs, and its peers, behind one call."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from typing import Any, cast, get_args

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.peers.registry import PEERS
from engine.config import Runtime, Strategy, Transport
from engine.errors import ConfigError
from pipelines.word_count import Api, random_word_count
from pipelines.word_windows import WindowApi, word_windows

Watch = Callable[[engine.JobHandle], None]

OKA = "oka"
APIS = ("per_record", "map_batches", "native", "columnar")
PAIR = ("pyzmq_msgpack_pair", "lists")
"""The peer of every sweep."""


def oka(
    api: str,
    runtime_name: str,
    transport: str | None,
    cell: tuple[int, int, int],
    *,
    insecure: bool = False,
    **settings: Any,
) -> Case:
    """A case of Oka: bytes of a word, most words of a batch, and tasks.

    Without a transport it has the runtime's own: "auto" on Ray, else "shm". Channels that may be
    of tcp are encrypted unless it is `insecure`.
    """
    transport = transport or ("auto" if runtime_name == "ray" else "shm")
    encryption = transport in ("tcp", "auto") and not insecure
    return Case(OKA, api, runtime_name, transport, *cell, encryption=encryption, **settings)


def measure(case: Case, run: Run) -> Measurement:
    """Run the case once. Raises EngineError or RuntimeError if it failed or its counts differ."""
    if case.system == OKA:
        return measure_oka(case, run)
    for peer in PEERS:
        if (peer.system, peer.api) == (case.system, case.api):
            return peer.measure(case, run)
    raise RuntimeError(f"there is no system {case.system!r} with the api {case.api!r}")


def measure_oka(case: Case, run: Run, watch: Watch | None = None) -> Measurement:
    """Run Oka's word count once, as `measure` does.

    `watch` is called with the running job ten times a second, from before its workers run.
    """
    words: dict[str, Any] = {"rate": run.rate, "seed": run.seed}
    seconds, length = run.seconds + run.warmup, case.payload_bytes
    if case.api in get_args(WindowApi):
        pipeline = word_windows(seconds, length, api=cast(WindowApi, case.api), **words)
    else:
        pipeline = random_word_count(seconds, length, api=cast(Api, case.api), **words)
    handle = engine.submit(
        pipeline,
        name=f"word count {case.api}",
        runtime=cast(Runtime, case.runtime),
        parallelism=case.parallelism,
        batch_size=case.batch_size,
        transport=cast(Transport, case.transport),
        placement=cast(Strategy, case.placement),
        encryption=case.encryption,
        warmup_seconds=run.warmup,
        progress="none",
    )
    try:
        result = _wait_finished(handle, run.seconds + run.warmup + _LONGEST_EXTRA_SECONDS, watch)
    except BaseException:
        handle.cancel()
        handle.wait_stopped()
        raise
    statistics = result.statistics
    counted = sum(result.output.values())
    if counted != statistics.source_records:
        raise RuntimeError(
            f"the source emitted {statistics.source_records:,} words, the sink counted {counted:,}"
        )
    if counted == 0:
        raise RuntimeError("no word was counted\n\nhint: longer --seconds")
    return Measurement(
        throughput=statistics.input_throughput,
        source_throughput=statistics.source_throughput,
        cpu_seconds_per_million=statistics.cpu_seconds / counted * 1e6,
        histogram=statistics.histogram if result.latency.count else b"",
        records=counted,
    )


def check_installed(cases: Iterable[Case]) -> None:
    """Raise ConfigError if a system of these cases cannot run here, before minutes are spent."""
    wanted = {(case.system, case.api) for case in cases}
    absent = {
        why: peer.setup
        for peer in PEERS
        if (peer.system, peer.api) in wanted and (why := peer.missing())
    }
    if absent:
        raise ConfigError("; ".join(absent), "; ".join(dict.fromkeys(absent.values())))


@contextmanager
def runtime(name: str, parallelism: int) -> Iterator[None]:
    """Ray, if needed, connected once for many runs instead of once for each."""
    if name != "ray":
        yield
        return
    import ray

    connected_here = not ray.is_initialized()
    if connected_here:
        _connect(2 * parallelism)
    try:
        yield
    finally:
        if connected_here:
            ray.shutdown()


def _connect(tasks: int) -> None:
    """The cluster of RAY_ADDRESS, or a local one with a slot for each task."""
    import ray

    from engine.driver.ray.address import check_ray_address

    if os.environ.get("RAY_ADDRESS"):
        check_ray_address(None)
        ray.init(logging_level=logging.WARNING)
    else:
        ray.init(
            address="local",
            num_cpus=tasks,
            include_dashboard=False,
            logging_level=logging.WARNING,
        )


def _wait_finished(
    handle: engine.JobHandle, seconds: float, watch: Watch | None
) -> engine.JobResult:
    deadline = time.monotonic() + seconds
    while watch is not None and time.monotonic() < deadline:
        try:
            return handle.wait_finished(_WATCH_SECONDS)
        except NotYet:
            watch(handle)
    return handle.wait_finished(max(0.0, deadline - time.monotonic()))


_WATCH_SECONDS = 0.1
_LONGEST_EXTRA_SECONDS = 120.0
"""The most seconds that a run may take beyond its length; more is a failure."""
