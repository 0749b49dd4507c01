"""A peer: another system that counts the same words, run as a program of its own.

The program may be in any language and start any processes. It writes its results to the folder of
the run (see `program`). All its processes have ended when `measure` returns.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measurement import Case, Measurement, Run
from benchmarks.peers.processes import Processes
from engine.installation.distribution import install_hint
from engine.network import LatencyHistogram


@dataclass(frozen=True)
class Peer:
    """One system and one of its APIs for the word count."""

    system: str
    api: str
    like: str
    """The API of Oka that does the same kind of work, and alternates with it."""
    environment: str | None
    """Its virtual environment below `.peers/`, made by `make peers`; None: that of Oka."""
    program: str
    """Its file in `benchmarks/peers/programs/`, or the name of a jar below `.peers/`."""
    extra: str | None = None
    """The extra of Oka that has its packages, where its environment is Oka's."""
    modules: tuple[str, ...] = ()
    """The packages that it imports."""
    has_batches: bool = True
    """Whether the size of a batch is a setting of the system."""
    has_rate: bool = True
    """Whether words can be offered at a rate."""
    most_tasks: int = 64
    """Largest parallelism of its program."""
    start_seconds: float = 30.0
    """The most seconds from its start to its first word, and from its last word to its end."""

    @property
    def setup(self) -> str:
        """The command that installs it."""
        if self.extra is not None:
            return install_hint(self.extra)
        return f"make peers-{self.environment}" if self.environment else "make peers"

    def missing(self) -> str | None:
        """The reason why it cannot run here; None if it can."""
        if self.environment is None:
            absent = [name for name in self.modules if importlib.util.find_spec(name) is None]
            return f"{self.system} needs {', '.join(absent)}, not installed" if absent else None
        folder = ENVIRONMENTS / self.environment
        # An installation that was broken off has a Python, but not the mark of `make`.
        if not (self._python().exists() and (folder / ".installed").exists()):
            return f"{self.system} is not installed in {folder}"
        return None

    def measure(self, case: Case, run: Run) -> Measurement:
        """Run it once; raises RuntimeError if it fails or its counts differ."""
        missing = self.missing()
        if missing is not None:
            raise RuntimeError(f"{missing}\n\nhint: {self.setup}")
        folder = Path(tempfile.mkdtemp(prefix="oka-peer-"))
        settings = {
            "folder": str(folder),
            "api": self.api,
            "payload_bytes": case.payload_bytes,
            "batch_size": case.batch_size,
            "parallelism": case.parallelism,
            "seconds": run.seconds + run.warmup,
            "warmup": run.warmup,
            "rate": run.rate,
            "seed": run.seed,
        }
        try:
            return _Running(self, [*self.command, json.dumps(settings)], folder, case, run).wait()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _python(self) -> Path:
        if self.environment is None:
            return Path(sys.executable)
        return ENVIRONMENTS / self.environment / "bin" / "python"

    @property
    def command(self) -> list[str]:
        """The command of its program; the settings follow."""
        return [str(self._python()), str(PROGRAMS / self.program)]


class _Running:
    """The processes of one run, and their files in its folder."""

    def __init__(
        self, peer: Peer, command: Sequence[str], folder: Path, case: Case, run: Run
    ) -> None:
        self._peer = peer
        self._folder = folder
        self._tasks = case.parallelism
        self._run = run
        self._log = (folder / "log").open("w+b")
        self._processes = Processes(str(folder))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join([str(SHARED), str((PROGRAMS / peer.program).parent)]),
                # The same in all processes, so that they pick the same sink task for a word;
                # different in each run, since some seeds make dictionaries up to a tenth slower.
                "PYTHONHASHSEED": str(random.randrange(1, 1 << 32)),
                "TMPDIR": str(folder),
            }
            | self._processes.environment,
            start_new_session=True,
        )

    def wait(self) -> Measurement:
        """Wait for the sinks' files, and end every process in any case."""
        try:
            self._wait_for({"started-*": 1}, self._peer.start_seconds)
            length = self._run.seconds + self._run.warmup + self._peer.start_seconds
            self._wait_for({"window-*": 1, "sink-*.json": self._tasks}, length)
            cpu_before = self._processes.usage().cpu_seconds
            self._wait_for({"sink-*.json": self._tasks}, length)
            self._wait_for({"source-*.json": self._tasks}, _LATE_SECONDS)
            cpu_seconds = self._processes.usage().cpu_seconds - cpu_before
            (self._folder / "measured").touch()
            return self._measurement(cpu_seconds)
        finally:
            self._end()

    def _wait_for(self, wanted: dict[str, int], seconds: float) -> None:
        """Wait until so many files of one of the patterns exist."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self._process.poll()
            if any(len(list(self._folder.glob(one))) >= files for one, files in wanted.items()):
                return
            if ended is not None:
                raise self._failure(f"ended with status {ended}")
            if time.monotonic() > deadline:
                raise self._failure(
                    f"was not done after {seconds:.0f} s, expected {next(iter(wanted))}"
                )
            time.sleep(_POLL_SECONDS)

    def _failure(self, what: str) -> RuntimeError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        # Java's stack traces are long: the reason is above them.
        last = "\n".join([line for line in lines if not line.startswith("\tat ")][-_LOG_LINES:])
        return RuntimeError(f"{self._peer.system} {self._peer.api} {what}; its last lines:\n{last}")

    def _end(self) -> None:
        """Let a successful program end by itself for a while, then kill living processes."""
        done = len(list(self._folder.glob("sink-*.json"))) >= self._tasks
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._peer.start_seconds if done else 0)
        self._processes.kill()
        self._process.wait()
        self._log.close()

    def _measurement(self, cpu_seconds: float) -> Measurement:
        sources = [_read(path) for path in sorted(self._folder.glob("source-*.json"))]
        sinks = [_read(path) for path in sorted(self._folder.glob("sink-*.json"))]
        emitted, counted = _sum(sources), _sum(sinks)
        if emitted != counted:
            raise RuntimeError(
                f"{self._peer.system} emitted {emitted.total():,} words and counted "
                f"{counted.total():,}, expected the same of every word"
            )
        windows = [sink["window"] for sink in sinks if sink["window"]["words"]]
        first_ns = min((window["first_ns"] for window in windows), default=0)
        seconds = (max((window["last_ns"] for window in windows), default=0) - first_ns) / 1e9
        words = sum(window["words"] for window in windows)
        if seconds <= 0:
            raise RuntimeError(
                f"{self._peer.system} counted no word after its warm-up of {self._run.warmup} s"
                "\n\nhint: longer --seconds"
            )
        own: list[Any] = [each.get("cpu_seconds") for each in (*sources, *sinks)]
        if all(each is not None for each in own):
            cpu_per_word = sum(own) / counted.total()
        else:
            cpu_per_word = cpu_seconds / words
        latency = LatencyHistogram()
        for sink in sinks:
            values = array("q", base64.b64decode(sink.get("latencies_ns") or ""))
            latest = max(values, default=0)
            latency.record_many([latest - value for value in values], latest)
        return Measurement(
            throughput=words / seconds,
            cpu_seconds_per_million=cpu_per_word * 1e6,
            histogram=latency.to_bytes() if latency.count else b"",
            records=counted.total(),
        )


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def _sum(tasks: Sequence[dict[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for task in tasks:
        total.update(task["counts"])
    return total


PROGRAMS = Path(__file__).parent / "programs"
SHARED = PROGRAMS / "shared"
"""What programs of all folders import."""
ENVIRONMENTS = Path(os.environ.get("OKA_PEERS", PROGRAMS.parents[2] / ".peers"))
_POLL_SECONDS = 0.02
_LATE_SECONDS = 15.0
"""The most seconds that sources may write their files after the sinks."""
_LOG_LINES = 20
