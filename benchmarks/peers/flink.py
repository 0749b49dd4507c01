"""Jobs of Flink that run several times in one JVM (`peers/flink_java/`, `Repeated`).

The last run counts, when the code is compiled.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import ENVIRONMENTS, SHARED

FLINK = "flink_java"
RUNS = 6


@dataclass(frozen=True)
class Found:
    """The time and CPU of one run, and its number of rows."""

    seconds: float
    cpu_seconds: float
    rows: int
    answer: list[dict[str, Any]] | None = None
    """The rows, if the program was asked for them."""
    total: int = 0
    """The sum of what the rows have as `total`."""


def run_flink(
    program: str,
    parallelism: int,
    configuration: Mapping[str, str],
    settings: Mapping[str, Any],
    runs: int = RUNS,
) -> Found:
    """Run a class of the jar with its settings and Flink's. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory(prefix="oka-flink-") as folder:
        every: dict[str, Any] = {
            "runs": runs,
            "parallelism": parallelism,
            "configuration": {
                name: value.format(folder=folder) for name, value in configuration.items()
            },
            **settings,
        }
        options = [*JVM_OPTIONS, f"-Djava.io.tmpdir={folder}"]
        return run_program(
            f"flink {program}",
            ["java", *options, *classpath(), f"oka.peers.{program}"],
            every,
            folder,
        )


def run_program(
    name: str, command: Sequence[str], settings: Mapping[str, Any], folder: str
) -> Found:
    """Run a command that writes its result to the file `result` of its settings.

    Raises RuntimeError if it fails.
    """
    result = Path(folder) / "result.json"
    done = subprocess.run(
        [*command, json.dumps({"result": str(result), **settings})],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SHARED)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_SECONDS,
    )
    if not result.exists():
        lines = (done.stdout + done.stderr).splitlines()
        told = "\n".join([line for line in lines if not line.startswith("\tat ")][-15:])
        raise RuntimeError(f"{name} ended with status {done.returncode}:\n{told}")
    return Found(**json.loads(result.read_text()))


def classpath() -> list[str]:
    """The jar and all of Flink, as options of java."""
    flink = ENVIRONMENTS / "flink"
    return ["-cp", f"{flink / 'oka-peers.jar'}:{flink / 'lib'}/*"]


JVM_OPTIONS = (
    *("-Xms1g", "-Xmx4g"),
    # The parallel collector costs less CPU per event than G1.
    *("-XX:+UseParallelGC", "-XX:-UsePerfData"),
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # Arrow's memory
)
_LONGEST_SECONDS = 600
