"""Flink as processes: a JobManager, a TaskManager that works, and an idle one.

They are started from the classpath of the jar (`peers/flink_java/`), without Flink's scripts.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.flink import JVM_OPTIONS, classpath
from benchmarks.peers.processes import Processes
from engine.programs.ports import free_port


@contextmanager
def running_cluster(configuration: Mapping[str, str]) -> Iterator[FlinkCluster]:
    """A cluster without a job, with these additional settings; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="oka-flink-") as folder:
        cluster = FlinkCluster(Path(folder), configuration)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()


class FlinkCluster:
    """The processes, and the JobManager's view of them."""

    def __init__(self, folder: Path, configuration: Mapping[str, str]) -> None:
        self.folder = folder
        self._processes = Processes(str(folder))
        self._started: list[subprocess.Popen[bytes]] = []
        self._task_managers: dict[str, int] = {}
        self._log = (folder / "log").open("w+b")
        self._port = free_port()
        self._configuration = {
            **_CONFIGURATION,
            "rest.port": str(self._port),
            "jobmanager.rpc.port": str(free_port()),
            **configuration,
        }
        (folder / "config.yaml").touch()  # it has to be there

    def start(self) -> None:
        """Start them all, and wait until both TaskManagers are known."""
        self._start("entrypoint.StandaloneSessionClusterEntrypoint", {})
        for name in ("one", "other"):
            started = self._start(
                "taskexecutor.TaskManagerRunner", {"taskmanager.resource-id": name}
            )
            self._task_managers[name] = started.pid
        self.wait_for("its TaskManagers", lambda: len(self._free_slots()) == 2)

    def submit(self, program: str, settings: Mapping[str, Any]) -> None:
        """Run a class of the jar that submits its job, which must be the only one."""
        told = json.dumps({"port": self._port, **settings})
        submitter = self._java(f"oka.peers.{program}", told)
        try:
            refused = submitter.wait(_LONGEST_SECONDS) != 0
        except subprocess.TimeoutExpired:
            refused = True
        if refused:
            raise self._failure(f"did not take {program}")
        self._started.remove(submitter)

    def records_in(self) -> int:
        """The records read by the operator that has read the most, a second ago."""
        (job,) = self._ask("jobs")["jobs"]
        vertices = self._ask(f"jobs/{job['id']}")["vertices"]
        return max(int(each["metrics"]["read-records"]) for each in vertices)

    def working(self) -> int:
        """The process of the TaskManager that has the job."""
        (name,) = (name for name, free in self._free_slots().items() if not free)
        return self._task_managers[name]

    def wait_for(self, what: str, there: Callable[[], bool]) -> None:
        """Wait until it has a value. Raises RuntimeError with the last lines of all processes."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not there():
            for each in self._started:
                if each.poll() is not None:
                    raise self._failure(f"ended with status {each.returncode}")
            if time.monotonic() > deadline:
                raise self._failure(f"did not have {what} after {_LONGEST_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def end(self) -> None:
        """Kill the living processes."""
        self._processes.kill()
        for each in self._started:
            each.wait()
        self._log.close()

    def _start(self, main: str, own: Mapping[str, str]) -> subprocess.Popen[bytes]:
        settings = {**self._configuration, **own}
        options = [f"-D{name}={value}" for name, value in settings.items()]
        runtime = "org.apache.flink.runtime"
        return self._java(f"{runtime}.{main}", "--configDir", str(self.folder), *options)

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        options = [*JVM_OPTIONS, f"-Djava.io.tmpdir={self.folder}", *classpath()]
        started = subprocess.Popen(
            ["java", *options, main, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=os.environ | self._processes.environment,
            start_new_session=True,
        )
        self._started.append(started)
        return started

    def _free_slots(self) -> dict[str, int]:
        """One for each TaskManager that the JobManager knows; none before it answers."""
        with contextlib.suppress(OSError):
            found = self._ask("taskmanagers")["taskmanagers"]
            return {each["id"]: each["freeSlots"] for each in found}
        return {}

    def _ask(self, path: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}/{path}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            told: dict[str, Any] = json.load(reply)
            return told

    def _failure(self, what: str) -> RuntimeError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        # Java's stack traces are long: the reason is above them.
        last = "\n".join([line for line in lines if not line.startswith("\tat ")][-_LOG_LINES:])
        return RuntimeError(f"Flink {what}; its last lines:\n{last}")


_CONFIGURATION = {
    "jobmanager.rpc.address": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
    "taskmanager.numberOfTaskSlots": "1",
    "metrics.fetcher.update-interval": "1000 ms",  # for `records_in`
    # Flink's scripts would compute these; the JVM's options set the heap.
    "taskmanager.cpu.cores": "1",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.task.heap.size": "3g",
    "taskmanager.memory.task.off-heap.size": "0",
    "taskmanager.memory.managed.size": "0",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "256m",
    "taskmanager.memory.jvm-overhead.max": "256m",
}
_POLL_SECONDS = 0.1
_LONGEST_SECONDS = 120.0
_LOG_LINES = 15
