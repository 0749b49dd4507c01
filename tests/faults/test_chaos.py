"""A driver and its workers killed, stopped, interrupted and cut off at seeded moments.

After each there is a result, whole and right, or an error, and nothing is left behind. `make chaos`
runs 100 on each runtime and tells the longest time from a cause to the end; the test suite runs a
few.
A failed one names its seed: `CHAOS_SEEDS=17 make chaos` runs it again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil
import pytest

from tests import jobfolders
from tests.drivers import Driver, ray_address, ray_workers
from tests.faults.chaos_job import KEYS, RECORDS
from tests.waiting import wait_until

EXPECTED = [[key, sum(range(key, RECORDS, KEYS))] for key in range(KEYS)]


def seeds(few: str = "0-5", variable: str = "CHAOS_SEEDS") -> list[int]:
    """`CHAOS_SEEDS`, or a few: one number is one seed, `0-199` is a range."""
    first, _, last = os.environ.get(variable, few).partition("-")
    return list(range(int(first), int(last or first) + 1))


@dataclass
class Attack:
    """What happens at the moment, and whether the job must still succeed."""

    name: str
    strike: Callable[[Driver, random.Random], None]
    survives: bool = False


def victim(driver: Driver, chance: random.Random) -> psutil.Process | None:
    """A process of the job other than the driver; waits for one, unless the driver ends before."""
    wait_for(driver, lambda: driver.processes()[1:])
    below = driver.processes()[1:]
    return chance.choice(below) if below else None


def wait_for(driver: Driver, condition: Callable[[], object]) -> None:
    """Until it is true, or the driver has ended."""
    wait_until(lambda: condition() or driver.process.poll() is not None)


def kill_driver(driver: Driver, _chance: random.Random) -> None:
    driver.process.kill()


def interrupt_driver(driver: Driver, _chance: random.Random) -> None:
    driver.process.send_signal(signal.SIGINT)


def kill_worker(driver: Driver, chance: random.Random) -> None:
    if process := victim(driver, chance):
        process.kill()


def pause(driver: Driver, chance: random.Random) -> None:
    """Stop the driver or a process of the job for a second, or until the driver ends it."""
    process = chance.choice([psutil.Process(driver.process.pid), victim(driver, chance)])
    if process is not None:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
            time.sleep(1.0)
            process.resume()


def stop_worker_and(end: Callable[[Driver, random.Random], None]) -> Callable[..., None]:
    def strike(driver: Driver, chance: random.Random) -> None:
        # A fork server that is stopped before it has run its first line stays stopped.
        wait_for(driver, driver.workers)
        if process := victim(driver, chance):
            process.suspend()
        end(driver, chance)

    return strike


def cut_off(driver: Driver, chance: random.Random) -> None:
    """Take the link of the tcp channels away, for shorter than `reconnect_timeout_seconds`."""
    enter = ["nsenter", "--net", "--target", str(driver.process.pid)]
    for state, seconds in (("down", chance.uniform(0.05, 1.5)), ("up", 0.0)):
        subprocess.run([*enter, "ip", "link", "set", "lo", state], check=False)  # it may have ended
        time.sleep(seconds)


ATTACKS = [
    Attack("kill the driver", kill_driver),
    Attack("interrupt the driver", interrupt_driver),
    Attack("kill a worker", kill_worker),
    Attack("pause", pause, survives=True),
    Attack("stop a worker, kill the driver", stop_worker_and(kill_driver)),
    Attack("stop a worker, interrupt the driver", stop_worker_and(interrupt_driver)),
]
CUT_OFF = Attack("cut off", cut_off, survives=True)


@dataclass
class Setting:
    """Where a job runs, and how long it takes when nothing happens, in seconds."""

    runtime: str
    transport: str
    folder: Path

    def launch(self, name: str) -> Driver:
        """Start the job, in a network of its own where its link is to be taken away."""
        folder = self.folder / name
        folder.mkdir()
        command = [sys.executable, "-m", "tests.faults.chaos_job", str(folder / "out")]
        if self.can_be_cut_off:
            up = 'ip link set lo up && exec "$@"'
            command = ["unshare", "--net", "sh", "-c", up, "sh", *command]
        return (RayDriver if self.runtime == "ray" else Driver)(
            [*command, self.runtime, self.transport],
            folder,
            env={"RAY_ADDRESS": ray_address()} if self.runtime == "ray" else {},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def can_be_cut_off(self) -> bool:
        """Only root can make a network."""
        return self.runtime == "local" and self.transport == "tcp" and os.geteuid() == 0

    @cached_property
    def seconds(self) -> float:
        """Measured once."""
        started = time.monotonic()
        driver = self.launch("undisturbed")
        try:
            check_end(driver, survives=True)
            return time.monotonic() - started
        finally:
            driver.end()


class RayDriver(Driver):
    """Its workers are the actors of the tests' cluster, where no other job runs."""

    def processes(self) -> list[psutil.Process]:
        """The driver first, if it lives."""
        return super().processes() + self.workers()

    def workers(self) -> list[psutil.Process]:
        return ray_workers()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Setting]]:
    """Those of the local runtime, then that of Ray; tells at the end how long the ends took."""
    kinds = [("local", "shm"), ("local", "tcp"), ("ray", "auto")]
    yield [Setting(*kind, tmp_path_factory.mktemp("-".join(kind))) for kind in kinds]
    if ENDS:
        print(f"\nlongest from the cause to the end: {max(ENDS):.1f} s, {len(ENDS)} moments")


RAY_SEEDS = seeds() if "CHAOS_SEEDS" in os.environ else [0, 5]
"""Or two attacks, each another: a job on Ray takes ten times as much work as a local one. Of these
`make test` runs the first."""


@pytest.mark.parametrize(
    ("runtime", "seed"),
    [
        *(("local", seed) for seed in seeds()),
        *(
            pytest.param(
                "ray", seed, marks=[pytest.mark.ray, *([pytest.mark.again_on_ray] if place else [])]
            )
            for place, seed in enumerate(RAY_SEEDS)
        ),
    ],
)
def test_a_seeded_moment(
    runtime: str, seed: int, settings: list[Setting], request: pytest.FixtureRequest
) -> None:
    if runtime == "ray":
        request.getfixturevalue("ray_cluster")
    chance = random.Random(f"{runtime} {seed}")
    setting = chance.choice([setting for setting in settings if setting.runtime == runtime])
    attack = chance.choice([*ATTACKS, CUT_OFF] if setting.can_be_cut_off else ATTACKS)
    moment = chance.uniform(0.0, setting.seconds)
    print(f"seed {seed}: {runtime}, {setting.transport}, {attack.name} at {moment:.2f} s", end="")
    driver = setting.launch(str(seed))
    try:
        time.sleep(moment)
        attack.strike(driver, chance)
        started = time.monotonic()
        check_end(driver, survives=attack.survives)
        driver.wait_nothing_left()
        if runtime == "ray" and driver.process.returncode == -signal.SIGKILL:
            jobfolders.let_next_job_remove(job_folders(driver))
        wait_until(lambda: not job_folders(driver))
        assert not [path for path in Path("/dev/shm").iterdir() if "oka" in path.name]
        seconds = time.monotonic() - started
        print(f": status {driver.process.returncode}, {seconds:.1f} s")
        if not attack.survives:
            ENDS.append(seconds)
    finally:
        driver.end()


def job_folders(driver: Driver) -> list[str]:
    """The folder of the driver's job, if it is there."""
    told = driver.folder / "job"
    made = told.read_text().splitlines() if told.exists() else []  # it ended before
    return [folder for folder in made if Path(folder).exists()]


def check_end(driver: Driver, *, survives: bool) -> None:
    """The driver ends; what it says is right, and each file that has its name is whole."""
    told, errors = driver.process.communicate(timeout=300)
    status = driver.process.returncode
    if survives:
        assert status == 0, errors
    assert status in (0, 1, 130, -signal.SIGINT, -signal.SIGKILL), errors
    if status == 1:
        assert "was lost" in errors or "killed" in errors, errors
    parts = list((driver.folder / "out").glob("part-*"))
    for part in parts:
        lines = part.read_text().splitlines()
        keys = {json.loads(line)[0] for line in lines}
        assert len(lines) == len(keys) * RECORDS // KEYS, f"{part} is not whole"
    if status == 0:
        assert json.loads(told) == EXPECTED
        assert len(parts) == 2


ENDS: list[float] = []
