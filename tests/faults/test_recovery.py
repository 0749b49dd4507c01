"""Jobs with checkpoints whose workers and drivers are killed at seeded moments.

Whatever is killed, when and how often: when the job has ended, all that its sinks have committed is
what it would be without, to the last record, and nothing is left behind. `make chaos` runs many;
the test suite runs a few. A failed one names its seed: `CHAOS_SEEDS=17 make chaos` runs it again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from engine.programs.s3_server import S3Server
from tests.conftest import S3_CREDENTIALS
from tests.drivers import Driver, ray_address
from tests.faults.recovery_job import FOLDERS, SECONDS, expected
from tests.faults.test_chaos import RayDriver, job_folders, seeds
from tests.jobfolders import let_next_job_remove
from tests.waiting import wait_until

MOST_KILLS = 5
S3_KEYS = {
    "access_key": S3_CREDENTIALS["AWS_ACCESS_KEY_ID"],
    "secret_key": S3_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
}
KILLS: list[str] = []


class Runs:
    """A job, and whoever drives it now: the same command after each driver that was killed."""

    def __init__(
        self,
        folder: Path,
        runtime: str,
        transport: str,
        chance: random.Random,
        s3: S3Server | None = None,
        program: str = "tests.faults.recovery_job",
    ) -> None:
        self.folder = folder
        self._checkpoints = folder / "checkpoints"
        """Where their files are; an S3 server keeps them below the bucket, and those of sinks."""
        self._environment = {"RAY_ADDRESS": ray_address()} if runtime == "ray" else {}
        out, checkpoints = str(folder / "out"), str(self._checkpoints)
        if s3 is not None:
            out, checkpoints = "s3://out", "s3://checkpoints"
            self._environment |= {**S3_CREDENTIALS, "AWS_ENDPOINT_URL": s3.endpoint}
        self._command = [
            *(sys.executable, "-m", program),
            *(str(folder), out, checkpoints, runtime, transport),
        ]
        self._runtime = runtime
        self._chance = chance
        self._errors = (folder / "errors").open("a")
        self.driver = self._launch()

    def _launch(self) -> Driver:
        kind = RayDriver if self._runtime == "ray" else Driver
        return kind(
            self._command,
            self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def kill(self, what: str) -> None:
        """Kill a worker, and the job has to go on; or the driver, and the next goes on."""
        if what == "worker":
            if workers := self.driver.workers():
                kill(self._chance.choice(workers))
            return
        self.driver.process.kill()
        self.driver.process.wait()
        wait_until(lambda: not self.driver.processes())
        if self._runtime == "ray":
            let_next_job_remove(job_folders(self.driver))
        self.driver.end()
        self.driver = self._launch()

    def wait_for(self, when: str) -> None:
        """A drawn time, or a file of checkpoints that was not there: the moment between two."""
        if when == "any time":
            time.sleep(self._chance.uniform(0.0, SECONDS))
            return
        before = self._files()
        number = self._chance.randint(1, 12)
        wait_until(lambda: self._has_ended() or len(self._files() - before) >= number, seconds=200)

    def _files(self) -> set[str]:
        walked = os.walk(self._checkpoints)  # folders go meanwhile
        return {f"{path}/{name}" for path, _, names in walked for name in names}

    def _has_ended(self) -> bool:
        return self.driver.process.poll() is not None

    def close(self) -> None:
        """Leave nothing to the next test."""
        self.driver.end()
        self._errors.close()

    def end(self) -> dict[str, Any]:
        """What the driver tells when the job has ended."""
        told, _ = self.driver.process.communicate(timeout=200)
        assert self.driver.process.returncode == 0, (self.folder / "errors").read_text()
        return dict(json.loads(told.splitlines()[-1]))  # Ray tells of the dead in front of it


def kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


@pytest.mark.timeout(900)
@pytest.mark.table(2)
@pytest.mark.parametrize("seed", seeds("0-1"))
@pytest.mark.parametrize(
    ("runtime", "storage"),
    [
        ("local", "folder"),
        ("local", "s3"),
        pytest.param("ray", "folder", marks=pytest.mark.ray),
    ],
)
def test_what_was_killed_has_lost_and_doubled_nothing(
    runtime: str, storage: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if runtime == "ray":
        if "CHAOS_SEEDS" not in os.environ:  # each driver starts 30 workers, of a CPU second each
            pytest.skip("`make chaos` kills its workers and drivers on Ray")
        request.getfixturevalue("ray_cluster")
    chance = random.Random(f"recovery {runtime} {storage} {seed}")
    transport = chance.choice(["shm", "tcp"]) if runtime == "local" else "auto"
    moments = [
        (chance.choice(["worker", "driver"]), chance.choice(["any time", "a new file"]))
        for _ in range(chance.randint(1, MOST_KILLS))
    ]
    print(f"seed {seed}: {runtime}, {transport}, {storage}, {moments}")
    with ExitStack() as stack:
        s3 = None
        if storage == "s3":
            for bucket in ("checkpoints", "out"):
                (tmp_path / bucket).mkdir()
            s3 = stack.enter_context(S3Server(tmp_path, **S3_KEYS))
        runs = Runs(tmp_path, runtime, transport, chance, s3)
        stack.callback(runs.close)
        for what, when in moments:
            runs.wait_for(when)
            runs.kill(what)
            KILLS.append(what)
        told = runs.end()
        runs.driver.wait_nothing_left()
        wait_until(lambda: not job_folders(runs.driver))
        if s3 is not None:  # who is killed as an upload begins leaves one without parts
            uploads = tmp_path / ".oka-s3" / "uploads"
            assert {each.name for each in uploads.glob("*/*")} <= {"target"}
    assert told.pop("late") == 0
    check(tmp_path / "out", told)


def check(out: Path, told: dict[str, Any]) -> None:
    """All that was committed is what it has to be, and nothing else is there."""
    lines = {name: read(out / name) for name in FOLDERS}
    for name, wanted in expected().items():
        got = lines.get(name, told.get(name))
        assert got == wanted, difference(name, got or [], wanted)


def read(folder: Path) -> list[Any]:
    """The lines or rows of a folder that holds nothing but what is final."""
    found: list[Any] = []
    for path in filter(Path.is_file, folder.rglob("*")):
        assert path.name.startswith("part-"), f"{path} was left behind"
        if path.suffix == ".jsonl":
            found += map(json.loads, path.read_text().splitlines())
        elif path.suffix == ".parquet":
            third = int(path.parent.name.removeprefix("third="))
            found += [[third, n] for n in pq.ParquetFile(path).read()["n"].to_pylist()]
        else:
            found += map(list, zip(*pa.csv.read_csv(path).to_pydict().values(), strict=True))
    return sorted(found)


def difference(name: str, got: list[Any], wanted: list[Any]) -> str:
    """The first lines that are missing or too many."""
    found, sought = (Counter(map(json.dumps, lines)) for lines in (got, wanted))
    missing, doubled = sorted(sought - found)[:5], sorted(found - sought)[:5]
    return f"{name}: {len(got)} of {len(wanted)}, missing {missing}, too many {doubled}"
