"""The jobs of the S3 benchmark: a Ray task per object, and the statistics of their times."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from engine.errors import EngineError, StartError
from engine.installation.distribution import install_hint
from engine.s3 import S3
from engine.units import counted


@dataclass(frozen=True)
class Work:
    """The settings of all jobs."""

    operation: Literal["write", "read"]
    url: str
    keys: Sequence[str]
    size: int
    """Bytes of every object."""
    seed: int


@dataclass(frozen=True)
class Job:
    """One moved object: seconds since 1970, and the error, if any."""

    key: str
    start: float
    stop: float
    bytes: int
    error: str | None = None

    @property
    def rate(self) -> float:
        """Bytes per second; 0 of a job that failed."""
        return 0.0 if self.error is not None else self.bytes / max(self.stop - self.start, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """As an entry of a result."""
        return {**asdict(self), "bytes_per_second": self.rate}


def run(
    work: Work,
    endpoint: str | None,
    workers: int,
    parallel: int,
    ray_address: str | None,
    only: Sequence[str] | None = None,
    tell: Callable[[str], None] = lambda _what: None,
) -> Sequence[Job]:
    """A job per key, `workers` of them at a time; a failure of one does not end the others."""
    try:
        import ray

        from engine.driver.ray.address import check_ray_address
    except ImportError as error:
        raise StartError(f"Ray is not installed: {error}", install_hint("ray")) from error
    connected = ray.is_initialized()
    if not connected:
        # Not whichever cluster happens to run here: its workers would not have our environment.
        local = {"address": "local", "num_cpus": workers, "include_dashboard": False}
        settings = local if ray_address is None else {"address": ray_address}
        check_ray_address(ray_address or "local")
        try:
            ray.init(**settings, logging_level=logging.WARNING)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise StartError(
                f"no Ray cluster at {ray_address!r}: {error}",
                "start one with `ray start --head`, or leave --ray-address out for a local one",
            ) from error
    try:
        task = ray.remote(num_cpus=1, max_retries=0)(move)
        wanted = set(work.keys if only is None else only)
        keys = [(at, key) for at, key in enumerate(work.keys) if key in wanted]
        # Tasks wait in Ray for a CPU; if the cluster has more CPUs, only so many are submitted.
        waiting = keys[::-1]
        running: dict[Any, str] = {}
        done: dict[str, Job] = {}
        while waiting or running:
            tell(f"{work.operation}: {len(done)} of {counted(len(keys), 'object')}")
            while waiting and len(running) < workers:
                at, key = waiting.pop()
                running[task.remote(work, at, endpoint, parallel)] = key
            ended, _ = ray.wait(list(running))
            for reference in ended:
                key = running.pop(reference)
                try:
                    done[key] = ray.get(reference)
                except ray.exceptions.RayError as error:  # the worker died, for one
                    now = time.time()
                    text = str(error).strip().splitlines()[-1]
                    done[key] = Job(key, now, now, 0, f"{type(error).__name__}: {text}")
        return [done[key] for _, key in keys]
    finally:
        if not connected:
            ray.shutdown()


def move(work: Work, at: int, endpoint: str | None, parallel: int) -> Job:
    """Write or read one object; in `read`, every byte is compared with what was written."""
    key = work.keys[at]
    start = time.time()
    try:
        s3 = S3.open(work.url, endpoint=endpoint, parallel=parallel)
        data = content(work, at)
        if work.operation == "write":
            start = time.time()
            s3.put(key, data)
            return Job(key, start, time.time(), work.size)
        buffer = np.zeros(work.size, dtype=np.uint8)  # allocate the pages before the transfer
        start = time.time()
        s3.get_into(key, buffer)
        stop = time.time()
        if not np.array_equal(buffer, data):
            return Job(key, start, stop, work.size, f"{key} is not what was written")
        return Job(key, start, stop, work.size)
    except (EngineError, MemoryError) as error:
        message = error.message if isinstance(error, EngineError) else "out of memory"
        return Job(key, start, time.time(), 0, message)


def content(work: Work, at: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of the object with the index `at`: the same for the same seed."""
    generator = np.random.Generator(np.random.PCG64([work.seed, at]))
    return np.frombuffer(generator.bytes(work.size), dtype=np.uint8)


def summary(jobs: Sequence[Job]) -> dict[str, Any]:
    """The summary of all jobs in a result; rates are those of successful jobs."""
    done = [job for job in jobs if job.error is None]
    rates = sorted(job.rate for job in done) or [0.0]
    seconds = max(j.stop for j in done) - min(j.start for j in done) if done else 0.0
    total = sum(job.bytes for job in done)
    return {
        "done": len(done),
        "failed": len(jobs) - len(done),
        "seconds": seconds,
        "bytes_per_second": total / seconds if seconds else 0.0,
        "object_bytes_per_second": {
            "min": rates[0],
            "p50": float(np.median(rates)),
            "mean": sum(rates) / len(rates),
            "max": rates[-1],
        },
    }
