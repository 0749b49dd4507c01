"""The driver of one job on a testbed: a process on the first host that runs a module as a program.

The module gets its settings as JSON in its only argument, and its last line of output is JSON: its
measurement, or `{"error": …}`. Before, it may report by `RUNNING` that its tasks run.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.testbed.cluster import Cluster
from engine.errors import StartError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def drive(
    cluster: Cluster,
    module: str,
    settings: DataclassInstance,
    seconds: float,
    on_running: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Run the module for at most so many seconds; its answer.

    `on_running` is called when its first line says RUNNING. Raises StartError if it failed. Ctrl-C
    is passed on, and the job gets time to end.
    """
    # A file, not a pipe: it is not read while the first line is awaited, and a pipe would fill up.
    with tempfile.TemporaryFile(mode="w+", errors="replace") as errors:
        driver = cluster.head.start(
            *(sys.executable, "-m", module, json.dumps(asdict(settings))),
            env=cluster.environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            bufsize=0,  # reading the first line takes nothing of the others
            start_new_session=True,  # Ctrl-C is ours, to be passed on below
        )
        with driver:
            try:
                output = _read(driver, seconds, on_running)
            except BaseException as error:
                _stop(driver)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise StartError(f"the run was not over after {seconds:.0f} s") from None
                raise
        errors.seek(0)
        last = "".join(deque(errors, maxlen=10)).rstrip()
    try:
        answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise StartError(f"the driver ended with {driver.returncode}: {last}") from None
    if "error" in answer:
        raise StartError(answer["error"])
    return answer


def _read(
    driver: subprocess.Popen[bytes], seconds: float, on_running: Callable[[], object]
) -> bytes:
    """Its whole output up to its end. Raises TimeoutExpired after so many seconds."""
    deadline = time.monotonic() + seconds
    assert driver.stdout is not None
    ready, _, _ = select.select([driver.stdout], [], [], seconds)
    first = driver.stdout.readline() if ready else b""
    if first.strip() == RUNNING.encode():
        on_running()
    rest, _ = driver.communicate(timeout=max(0.0, deadline - time.monotonic()))
    return first + bytes(rest)


def _stop(driver: subprocess.Popen[bytes]) -> None:
    """End the driver, with time to end its job."""
    driver.send_signal(signal.SIGINT)
    try:
        driver.wait(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        driver.kill()


RUNNING = "running"
"""The optional first line of a driver, when its tasks have begun."""
_STOP_SECONDS = 10.0
