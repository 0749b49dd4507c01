"""The Ray that Oka starts by itself has room for the job; one that was there keeps its say."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray

BIN = Path(sys.executable).parent
CORES = len(os.sched_getaffinity(0))
PROGRAM = """
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

numbers = source(Collection(range(10))).with_resources(cpus=CPUS, slot=0.4, gpus=GPUS)
pipeline = numbers.rebalance().map(lambda n: n).with_resources(slot=3, nothing=0).sink(Collect())
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for Ray's state, apart from the machine's; sockets in it need a short path."""
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def environment(temporary: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    return {**kept, "RAY_TMPDIR": str(temporary), "RAY_AUTH_MODE": "disabled"}


def run(
    temporary: Path, command: str, cpus: float, gpus: float = 0.0
) -> subprocess.CompletedProcess[str]:
    (temporary / "mine.py").write_text(
        PROGRAM.replace("CPUS", str(cpus)).replace("GPUS", str(gpus))
    )
    arguments = [command, str(temporary / "mine.py"), "--runtime", "ray", "--parallelism", "2"]
    return subprocess.run(
        [str(BIN / "oka"), *arguments],
        env=environment(temporary),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_one_that_oka_starts_has_room_for_the_job(temporary: Path) -> None:
    done = run(temporary, "run", cpus=CORES)  # twice, and two more for what comes behind
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()[-10:]) == [str(n) for n in range(10)]


@pytest.mark.again_on_ray
def test_it_makes_up_no_gpus(temporary: Path) -> None:
    done = run(temporary, "plan", cpus=1, gpus=64)
    assert done.returncode == 1
    assert "found no place for all tasks" in done.stderr


def test_one_that_was_there_keeps_its_say(temporary: Path) -> None:
    start = ["start", "--head", "--block", "--port", "0", "--num-cpus", "4", "--resources"]
    with subprocess.Popen(
        [str(BIN / "ray"), *start, '{"slot": 8}', "--include-dashboard", "false"],
        env=environment(temporary),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as head:
        try:
            assert head.stdout is not None
            said = ""
            while "--block" not in said:  # the last thing that it says
                line = head.stdout.readline()
                assert line, said
                said += line
            done = run(temporary, "plan", cpus=2)
            assert done.returncode == 1
            assert "found no place for all tasks" in done.stderr
            assert "cpus 4" in done.stderr
        finally:
            head.terminate()  # it ends the others; told all at once, it waits half a minute


def test_a_folder_that_ray_cannot_have_is_named(temporary: Path) -> None:
    (temporary / "ray").write_text("no folder")
    done = run(temporary, "run", cpus=1)
    assert done.returncode == 1
    assert "Ray does not start" in done.stderr
    assert str(temporary / "ray") in done.stderr
    assert "RAY_TMPDIR" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
