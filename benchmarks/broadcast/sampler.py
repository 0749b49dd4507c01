"""CPU time and memory of the processes on the hosts of a testbed, sampled while something runs.

What counts is what moves the model: the job's driver and workers, and Ray's object manager and
store, which are threads of the raylet. Ray's other daemons do not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from benchmarks.testbed.network import Host

Role = Literal["raylet", "job", "other"]


@dataclass(frozen=True)
class Process:
    """One process at one moment. `memory_bytes` is its proportional share (PSS), if sampled."""

    host: int
    role: Role
    cpu_seconds: float
    memory_bytes: int | None


@dataclass(frozen=True)
class Sample:
    """All processes of the hosts at a moment of CLOCK_MONOTONIC."""

    at_ns: int
    processes: Mapping[int, Process]
    shared_bytes: int
    """Shared memory of the whole machine: tmpfs and memfd, mapped or not."""


class Sampler:
    """Samples from `__enter__` to `__exit__`, in a thread; memory only if asked: it costs CPU."""

    def __init__(self, hosts: Sequence[Host], memory: bool) -> None:
        self.samples: list[Sample] = []
        self._hosts = {
            Path("/run/netns", host.namespace).stat().st_ino: host.number for host in hosts
        }
        self._memory = memory
        self._seconds = MEMORY_SECONDS if memory else CPU_SECONDS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="oka-sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def cpu_seconds(self, first_ns: int, last_ns: int) -> float:
        """CPU time of the raylets and the job between two moments, between samples by line."""
        counted = {
            pid
            for sample in self._within(first_ns, last_ns)
            for pid, process in sample.processes.items()
            if process.role != "other"
        }
        return sum(
            max(0.0, self._cpu_at(pid, last_ns) - self._cpu_at(pid, first_ns)) for pid in counted
        )

    def peak_memory(
        self, first_ns: int, last_ns: int, fresh: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        """By host, the most bytes that job and raylet had more than just before `first_ns`.

        `fresh` is what the raylets had before they held any object: they keep memory once used.
        """
        before = max(
            (sample for sample in self.samples if sample.at_ns <= first_ns),
            key=lambda sample: sample.at_ns,
            default=self.samples[0],
        )
        base = memory_by_host(before)
        if fresh is not None:
            raylets = memory_by_host(before, ("raylet",))
            base = {host: base[host] - raylets[host] + fresh.get(host, 0) for host in base}
        peaks: dict[int, int] = {}
        for sample in self._within(first_ns, last_ns):
            for host, used in memory_by_host(sample).items():
                peaks[host] = max(peaks.get(host, 0), used - base.get(host, 0))
        return peaks

    def shared_peak(self, first_ns: int, last_ns: int) -> int:
        """The most shared memory of the machine between the moments, beyond that of the first."""
        within = self._within(first_ns, last_ns)
        return max(sample.shared_bytes for sample in within) - within[0].shared_bytes

    def _within(self, first_ns: int, last_ns: int) -> list[Sample]:
        """The samples between the moments, with the last before and the first after."""
        before = [sample for sample in self.samples if sample.at_ns < first_ns][-1:]
        within = [sample for sample in self.samples if first_ns <= sample.at_ns <= last_ns]
        after = [sample for sample in self.samples if sample.at_ns > last_ns][:1]
        return before + within + after

    def _cpu_at(self, pid: int, at_ns: int) -> float:
        known = [
            (sample.at_ns, sample.processes[pid].cpu_seconds)
            for sample in self.samples
            if pid in sample.processes
        ]
        earlier = [each for each in known if each[0] <= at_ns]
        later = [each for each in known if each[0] > at_ns]
        if not earlier:
            return later[0][1]
        if not later:
            return earlier[-1][1]
        (start, low), (end, high) = earlier[-1], later[0]
        return low + (high - low) * (at_ns - start) / (end - start)

    def _sample(self) -> None:
        while True:
            self.samples.append(take(self._hosts, self._memory))
            if self._stop.wait(self._seconds):
                self.samples.append(take(self._hosts, self._memory))
                return


def memory_by_host(sample: Sample, roles: Sequence[Role] = ("raylet", "job")) -> dict[int, int]:
    """Sums over the processes of these roles."""
    used: dict[int, int] = {process.host: 0 for process in sample.processes.values()}
    for process in sample.processes.values():
        if process.role in roles:
            used[process.host] += process.memory_bytes or 0
    return used


def take(hosts: Mapping[int, int], memory: bool) -> Sample:
    """One sample; `hosts` are their numbers by the inode of their namespaces."""
    return Sample(time.monotonic_ns(), dict(_processes(hosts, memory)), _shared_bytes())


def _processes(hosts: Mapping[int, int], memory: bool) -> Iterator[tuple[int, Process]]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            host = hosts.get((process / "ns" / "net").stat().st_ino)
            if host is None:
                continue
            role = _role((process / "cmdline").read_bytes())
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            cpu = (int(fields[11]) + int(fields[12])) / _TICKS
            share = _share(process) if memory and role != "other" else None
            yield int(process.name), Process(host, role, cpu, share)


def _role(command: bytes) -> Role:
    if command.startswith(b"ray::Worker") or b"benchmarks.broadcast.job" in command:
        return "job"
    return "raylet" if command.partition(b"\0")[0].endswith(b"/raylet") else "other"


def _share(process: Path) -> int:
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _shared_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1]) * 1024
    return 0


MEMORY_SECONDS = 0.2
CPU_SECONDS = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
