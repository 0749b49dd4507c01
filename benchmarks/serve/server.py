"""A server during its measurement: it starts, gets ready, and ends with all its processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from benchmarks.peers.processes import Processes, Usage
from benchmarks.serve.systems import System
from engine.programs.ports import free_port


class Server:
    """A system that answers requests to one handler, at a free port of this machine."""

    def __init__(self, system: System, handler: str) -> None:
        self._system = system
        self._handler = handler
        self._folder = Path(tempfile.mkdtemp(prefix="oka-serve-"))
        self._processes = Processes(str(self._folder))
        self._log = (self._folder / "log").open("w+b")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/"
        self._process = subprocess.Popen(
            system.command(handler, port),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            env=os.environ
            | {"TMPDIR": str(self._folder)}
            | self._processes.environment
            | system.environment(port, self._folder),
            start_new_session=True,
        )

    def __enter__(self) -> Server:
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def usage(self) -> Usage:
        """CPU time and memory of all its processes."""
        return self._processes.usage()

    def _wait_until_ready(self) -> None:
        """Wait until it answers. Raises RuntimeError with its last lines."""
        deadline = time.monotonic() + self._system.start_seconds
        while True:
            ended = self._process.poll()
            with contextlib.suppress(OSError), urllib.request.urlopen(self.url, timeout=5) as reply:  # noqa: S310 - it is a URL of this file
                reply.read()
                return
            if ended is not None:
                raise self._failure(f"ended with status {ended}")
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer for {self._system.start_seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _failure(self, what: str) -> RuntimeError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        last = "\n".join(lines[-_LOG_LINES:])
        name = f"{self._system.system} {self._system.api}"
        return RuntimeError(f"{name} {what}; its last lines:\n{last}")

    def _end(self) -> None:
        """Ask it to end, then kill living processes."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._processes.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


_POLL_SECONDS = 0.05
_END_SECONDS = 10.0
_LOG_LINES = 20
