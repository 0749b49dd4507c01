"""Programs that run a job in a process of their own, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
_MARK = "OKA_TEST_DRIVER"


class Driver:
    """A driver and everything below it, which inherits a variable that only it has."""

    def __init__(self, command: list[str], folder: Path, **settings: Any) -> None:
        self._mark = uuid.uuid4().hex
        self.folder = folder
        folder.mkdir(exist_ok=True)
        environment: Mapping[str, str] = settings.pop("env", {})
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                **environment,
                _MARK: self._mark,
                "TMPDIR": str(folder),
                "PYTHONPATH": str(ROOT),
            },
            start_new_session=True,
            **settings,
        )

    def processes(self) -> list[psutil.Process]:
        """All that live, the driver itself first."""
        found = []
        for process in psutil.process_iter():
            try:
                is_ours = process.environ().get(_MARK) == self._mark
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return sorted(found, key=lambda process: (process.pid != self.process.pid, process.pid))

    def workers(self) -> list[psutil.Process]:
        """Its worker processes, in the order in which they were started."""
        servers = {p.pid for p in self.processes() if _parent(p) == self.process.pid}
        return [p for p in self.processes() if _parent(p) in servers]

    def wait_nothing_left(self) -> None:
        """Wait until no process lives and no folder of a job is there."""
        wait_until(lambda: not self.processes())
        assert not list(self.folder.glob("oka-job-*"))

    def end(self) -> None:
        """Kill what is left, so that one test does not disturb the next."""
        for process in self.processes():
            process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def driver(program: str, folder: Path, *arguments: str, **settings: Any) -> Iterator[Driver]:
    """A Python program as the driver of a job; settings as for `subprocess.Popen`."""
    started = Driver([sys.executable, "-c", program, *arguments], folder, **settings)
    try:
        yield started
    finally:
        started.end()


def titled(processes: Iterable[psutil.Process]) -> Iterator[tuple[psutil.Process, str]]:
    """Those that live, and what each calls itself; one that ends meanwhile is left out."""
    for process in processes:
        with suppress(psutil.Error):
            yield process, " ".join(process.cmdline())


def ray_address() -> str:
    """The address of the cluster that this process is connected to."""
    import ray

    return str(ray.get_runtime_context().gcs_address)


def ray_workers() -> list[psutil.Process]:
    """The processes of the tests' Ray cluster that have a task of a job."""
    below = titled(psutil.Process().children(recursive=True))
    return [process for process, title in below if title.startswith("ray::Worker")]


def interrupt(started: Driver) -> None:
    """Ctrl-C."""
    os.kill(started.process.pid, signal.SIGINT)


def _parent(process: psutil.Process) -> int | None:
    """None of a process that has ended meanwhile."""
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None
