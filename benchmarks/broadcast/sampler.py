"""CPU time and memory of the processes on the hosts of a testbed, sampled during a run.

It counts the processes that move the model: the job's driver and workers, and the raylet, whose
threads are Ray's object manager and store. It does not count Ray's other daemons.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.testbed.network import Host

Role = Literal["raylet", "job", "other"]


@dataclass(frozen=True)
class Process:
    """One process at one moment."""

    host: int
    role: Role
    cpu_seconds: float


@dataclass(frozen=True)
class Sample:
    """All processes of the hosts at a moment of CLOCK_MONOTONIC."""

    at_ns: int
    processes: Mapping[int, Process]
    private: Mapping[int, int]
    """By host, the private and file memory that raylet and job have mapped, as shares (PSS)."""
    shared: Mapping[int, int]
    """By host, bytes of shared memory of raylet and job, mapped or not."""


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

    def __exit__(self, *_: object) -> None:
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
        """By host, the largest growth in bytes of job and raylet since just before `first_ns`.

        `fresh` is the shared memory before Ray had any object: its store never gives memory back.
        """
        before = max(
            (sample for sample in self.samples if sample.at_ns <= first_ns),
            key=lambda sample: sample.at_ns,
            default=self.samples[0],
        )
        shared = before.shared if fresh is None else fresh
        peaks: dict[int, int] = {}
        for sample in self._within(first_ns, last_ns):
            for host in sample.private:
                used = sample.private[host] + sample.shared[host]
                base = before.private.get(host, 0) + shared.get(host, 0)
                peaks[host] = max(peaks.get(host, 0), used - base)
        return peaks

    def _within(self, first_ns: int, last_ns: int) -> list[Sample]:
        """The samples between the moments, with the last one before and the first one after."""
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


def take(hosts: Mapping[int, int], memory: bool) -> Sample:
    """One sample; `hosts` has the number of each host by the inode of its namespace."""
    at_ns = time.monotonic_ns()
    processes = dict(_processes(hosts))
    private, mapped, held = (dict.fromkeys(hosts.values(), 0) for _ in range(3))
    seen: set[tuple[int, int, int]] = set()
    for pid, process in processes.items() if memory else ():
        if process.role == "other":
            continue
        with suppress(OSError):  # it has just ended
            shares = _shares(pid)
            private[process.host] += shares["Pss_Anon"] + shares["Pss_File"]
            mapped[process.host] += shares["Pss_Shmem"]
        for device, inode, size in _shared_files(pid):
            if (process.host, device, inode) not in seen:
                seen.add((process.host, device, inode))
                held[process.host] += size
    # What is held by a descriptor alone is mapped by nobody; what is mapped may have none.
    shared = {host: max(mapped[host], held[host]) for host in held}
    return Sample(at_ns, processes, private, shared)


def _processes(hosts: Mapping[int, int]) -> Iterator[tuple[int, Process]]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            host = hosts.get((process / "ns" / "net").stat().st_ino)
            if host is None:
                continue
            role = _role((process / "cmdline").read_bytes())
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            yield (
                int(process.name),
                Process(host, role, (int(fields[11]) + int(fields[12])) / _TICKS),
            )


def _role(command: bytes) -> Role:
    if command.startswith(b"ray::Worker") or b"benchmarks.broadcast.job" in command:
        return "job"
    return "raylet" if command.partition(b"\0")[0].endswith(b"/raylet") else "other"


def _shares(pid: int) -> dict[str, int]:
    """The proportional shares of a process in bytes, by the kernel's names."""
    shares = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.startswith("Pss"):
            shares[name] = int(value.split()[0]) * 1024
    return shares


def _shared_files(pid: int) -> Iterator[tuple[int, int, int]]:
    """Device, inode and bytes of the shared memory that a process has descriptors of."""
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(descriptor.readlink()).startswith(("/memfd:", "/dev/shm/")):  # noqa: S108
                    status = descriptor.stat()
                    yield status.st_dev, status.st_ino, status.st_blocks * 512


MEMORY_SECONDS = 0.2
CPU_SECONDS = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
