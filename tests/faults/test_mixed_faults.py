"""Workers, raylets, links, drivers, the GCS and S3 are lost, one after the other, while a job runs.

The job is on three hosts of a testbed, its files and checkpoints are on an S3 server. What runs
Ray's daemons brings them back, and the same command again what has ended as a driver, as KubeRay
does both. In the end each record is in the files once, the log has told of each fault as it came,
and nothing is left. `make chaos` has 5 faults in 4 minutes; an hour:

    CHAOS_SEEDS=1 CHAOS_SECONDS=3600 CHAOS_FAULTS=20 python -m pytest -s \\
        tests/faults/test_mixed_faults.py
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.network import Host, address, exists
from tests import jobfolders
from tests.drivers import ROOT
from tests.faults.mixed_job import FOLDERS, RATE, TASKS, Work
from tests.hosts import NAME, Objects, daemons, drain, lose, needs_hosts, workers
from tests.waiting import wait_until

OWN = f"{NAME}m"
HOSTS = 3
SLOTS = {"slot": TASKS / 2}
"""Of each host: two have room for the job."""
SECONDS = float(os.environ.get("CHAOS_SECONDS", 240))
FAULTS = int(os.environ.get("CHAOS_FAULTS", 5))
SEED = int(os.environ.get("CHAOS_SEEDS", "0").partition("-")[0])


class Lives:
    """The driver of the job, on the host of the head, which begins anew whenever it has failed."""

    def __init__(self, cluster: Cluster, work: Work, folder: Path) -> None:
        self._cluster, self._work, self._folder = cluster, work, folder
        self.ends: list[int] = []
        """The status with which each of its lives ended."""
        self._is_over = threading.Event()
        self.may_start = threading.Event()
        self.may_start.set()
        self.driver = self._start()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def log(self) -> str:
        """What all of them have told so far."""
        logs = sorted(self._folder.glob("log-*"))
        return "".join(each.read_text(errors="replace") for each in logs)

    def wait_finished(self, seconds: float) -> None:
        """The job has succeeded."""
        wait_until(lambda: not self._thread.is_alive(), seconds)

    def close(self) -> None:
        """End it, whatever it does."""
        self._is_over.set()
        self.may_start.set()
        self.driver.kill()
        self._thread.join()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._folder / f"log-{len(self.ends):03}").open("wb") as log:
            return self._cluster.head.start(
                *(sys.executable, "-m", "tests.faults.mixed_job", json.dumps(asdict(self._work))),
                env=self._cluster.environment(), cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

    def _keep(self) -> None:
        while True:
            self.ends.append(self.driver.wait())
            if self.ends[-1] == 0 or self._is_over.wait(1.0):
                return
            self.may_start.wait()
            self.driver = self._start()


class Keeper:
    """Brings the daemons of Ray back that have ended on a host, some seconds later."""

    def __init__(self, cluster: Cluster, lives: Lives, chance: random.Random) -> None:
        self._cluster, self._lives, self._chance = cluster, lives, chance
        self.hosts = cluster.network.hosts[:HOSTS]
        self.unreachable: set[Host] = set()
        """Where nobody can do anything."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def is_whole(self, host: Host) -> bool:
        """Whether all of its daemons run."""
        needed = ["raylet", "gcs_server"] if host == self._cluster.head else ["raylet"]
        return all(daemons(host, each) for each in needed)

    def all_whole(self) -> bool:
        """Whether those of all hosts do."""
        return all(self.is_whole(host) for host in self.hosts)

    def close(self) -> None:
        """Bring back no more."""
        self._is_over.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._is_over.wait(0.5):
            for host in self.hosts:
                if host not in self.unreachable and not self.is_whole(host):
                    if host == self._cluster.head:
                        self._lives.may_start.clear()
                    if not self._is_over.wait(self._chance.uniform(1, 10)):
                        self._bring_back(host)

    def _bring_back(self, host: Host) -> None:
        is_head = host == self._cluster.head
        lose(host, but=self._lives.driver.pid if is_head else None)
        for path in host.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if is_head:
            self._cluster.start_head(1, {host.number: SLOTS})
            self._lives.may_start.set()
        else:
            self._cluster.join(host, 1, SLOTS)


@dataclass
class Scene:
    """All that a fault may strike."""

    cluster: Cluster
    objects: Objects
    store: Host
    lives: Lives
    keeper: Keeper
    chance: random.Random

    def final(self) -> int:
        """The last epoch whose files are."""
        paths = (self.objects.folder / "job/checkpoints/committed").glob("*")
        return max((int(each.name) for each in paths), default=0)

    def pause(self, since: float) -> float:
        """The longest time without a file that becomes final, from one before this moment on.

        It waits for a file from now on: the pause may not be over yet.
        """
        now = time.time()
        wait_until(lambda: max(self._final_since(now), default=0) > now or self._is_over(), 120)
        return max(
            (after - before for before, after in pairwise(self._final_since(since))), default=0.0
        )

    def _final_since(self, since: float) -> list[float]:
        """When files became final, from the last before this moment on."""
        files = (self.objects.folder / "job/running").glob("part-*.jsonl")
        times = sorted(each.stat().st_mtime for each in files)
        return times[max(0, bisect(times, since) - 1) :]

    def wait_epochs(self, seconds: float = 240.0) -> None:
        """Wait until what comes from now on is final."""
        before = self.final()
        wait_until(lambda: self.final() >= before + 2 or self._is_over(), seconds)
        assert not self._is_over(), self.lives.log()

    def _is_over(self) -> bool:
        return 0 in self.lives.ends

    def host(self) -> Host:
        """One with tasks of the job, other than that of the driver."""
        others = [each for each in self.keeper.hosts[1:] if workers(each)]
        return self.chance.choice(others)


@dataclass
class Told:
    """What a fault has to lead to."""

    what: str
    """What was done, for who reads the output."""
    lines: Sequence[str] = ()
    """Patterns of lines of the log, in their order."""
    restarts: Sequence[int] = (0,)
    """How often the tasks may begin anew in one life of the driver."""
    ends: int = 0
    """How many drivers end."""


def kill_worker(scene: Scene) -> Told:
    host = scene.host()
    os.kill(scene.chance.choice(workers(host)), signal.SIGKILL)
    return Told(f"a worker on {host.address}", [RESTART + f".*{host.address}"], [1])


def kill_raylet(scene: Scene) -> Told:
    host = scene.host()
    kill(*daemons(host, "raylet"))
    return Told(f"the raylet of {host.address}", [RESTART + f".*{host.address}"], [1])


def stop_raylet(scene: Scene) -> Told:
    host, seconds = scene.host(), scene.chance.uniform(3, 45)
    with stopped(daemons(host, "raylet")):
        time.sleep(seconds)
    return Told(f"the raylet of {host.address} stops for {seconds:.0f} s", restarts=[0, 1])


def cut_link(scene: Scene) -> Told:
    host, seconds = scene.host(), scene.chance.uniform(3, 60)
    scene.keeper.unreachable.add(host)
    host.cut_off()
    time.sleep(seconds)
    host.plug_in()
    scene.keeper.unreachable.discard(host)
    what = f"the link of {host.address} for {seconds:.0f} s"
    return Told(what, restarts=[0] if seconds < 9 else [0, 1])


def kill_driver(scene: Scene) -> Told:
    scene.lives.driver.kill()
    return Told("the driver", [GOES_ON], ends=1)


def kill_gcs(scene: Scene) -> Told:
    kill(*daemons(scene.cluster.head, "gcs_server"))
    lines = ["DriverLost: the head of this job's Ray cluster has begun anew", GOES_ON]
    return Told("the GCS", lines, [0, 1], ends=1)


def stop_gcs(scene: Scene) -> Told:
    seconds = scene.chance.uniform(3, 20)
    with stopped(daemons(scene.cluster.head, "gcs_server")):
        time.sleep(seconds)
    return Told(f"the GCS stops for {seconds:.0f} s")


def drain_host(scene: Scene) -> Told:
    host = scene.host()
    drain(scene.cluster, 30, host)
    wait_until(lambda: not workers(host))
    wait_until(lambda: not scene.keeper.is_whole(host))
    line = rf"host {host.address} goes in (2\d|30) s: \d tasks? on it moves? to other hosts"
    return Told(f"{host.address} drains", [line])


def kill_storage(scene: Scene) -> Told:
    seconds = scene.chance.uniform(3, 30)
    scene.objects.kill()
    time.sleep(seconds)
    scene.objects.serve(scene.store)
    return Told(f"S3 for {seconds:.0f} s", [r"checkpoint \d+ is given up: .* no answer"])


def silence_storage(scene: Scene) -> Told:
    seconds = scene.chance.uniform(3, 30)
    assert scene.objects.server is not None
    with stopped([scene.objects.server.pid]):
        time.sleep(seconds)
    lines = [r"checkpoint \d+ is under way for \d+ s: "] if seconds > 15 else []
    return Told(f"S3 stops for {seconds:.0f} s", lines)


def kill(*processes: int) -> None:
    for each in processes:
        os.kill(each, signal.SIGKILL)


@contextmanager
def stopped(processes: Sequence[int]) -> Iterator[None]:
    """They do nothing for as long as the block runs."""
    for each in processes:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


RESTART = r"restart \d+ of 10 in [\d.]+ s: "
GOES_ON = r"goes on from checkpoint \d+, which is \d+ s old"
KINDS: list[Callable[[Scene], Told]] = [
    kill_worker, kill_raylet, stop_raylet, cut_link, kill_driver,
    kill_gcs, stop_gcs, drain_host, kill_storage, silence_storage,
]  # fmt: skip


@contextmanager
def running(folder: Path, chance: random.Random) -> Iterator[Scene]:
    """The job, at work on its hosts."""
    objects = Objects(address(HOSTS + 1), folder / "s3", "bucket")
    variables = {**objects.variables, "TMPDIR": str(folder), MARK: OWN}
    hold = folder / "hold"
    hold.touch()
    with running_cluster(
        HOSTS, resources=dict.fromkeys(range(1, HOSTS + 1), SLOTS), name=OWN, variables=variables
    ) as cluster:
        store = cluster.network.add_host()
        objects.serve(store)
        total = int(SECONDS * RATE)
        work = Work(SEED, total, time.time(), "s3://bucket/job", str(hold))
        lives = Lives(cluster, work, folder)
        keeper = Keeper(cluster, lives, random.Random(SEED))
        scene = Scene(cluster, objects, store, lives, keeper, chance)
        try:
            scene.wait_epochs()
            yield scene
            hold.unlink()
            left = work.began + SECONDS - time.time()
            lives.wait_finished(max(0.0, left) + 120)
            tell(f"{total} numbers, {len(lives.ends)} drivers")
            check_output(objects.folder / "job", work)
            check_nothing_left(scene, folder)
        finally:
            lives.close()
            keeper.close()
            objects.kill()
    assert not exists(OWN)
    wait_until(lambda: not marked())


def check_output(out: Path, work: Work) -> None:
    """Each record is in the files once."""
    for name, expected in work.expected().items():
        files = list((out / name).glob("part-*.jsonl"))
        found = sorted(json.loads(line) for each in files for line in each.read_text().splitlines())
        tell(f"{name}: {len(found)} of {len(expected)} lines in {len(files)} files")
        assert found == expected, name
        assert len(list((out / name).iterdir())) == len(files)


def check_nothing_left(scene: Scene, folder: Path) -> None:
    """No worker, no upload and no folder of the job is there, nor memory that it shared."""
    wait_until(lambda: not any(workers(host) for host in scene.keeper.hosts))
    uploads = scene.objects.folder.parent.glob(".*/uploads/*")
    assert not list(uploads)
    made = (folder / FOLDERS).read_text().splitlines()
    # That of a killed driver goes with the next job that begins 10 s later.
    jobfolders.let_next_job_remove(each for each in made if Path(each).exists())
    assert not [each for each in made if Path(each).exists()]
    assert {each.name for each in folder.iterdir()} == {"s3", FOLDERS} | logs(folder)
    shared = Path("/dev/shm").glob(f"testbed-{OWN}-*/*oka*")
    assert not list(shared)


def logs(folder: Path) -> set[str]:
    return {each.name for each in folder.glob("log-*")}


def marked() -> list[psutil.Process]:
    """All processes that the test has started and that live."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == OWN and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


MARK = "OKA_TEST_MIXED"


def tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def deck(chance: random.Random) -> Iterator[Callable[[Scene], Told]]:
    """All kinds of faults in some order, and again."""
    while True:
        yield from chance.sample(KINDS, len(KINDS))


@needs_hosts
@pytest.mark.ray
@pytest.mark.skipif("CHAOS_SEEDS" not in os.environ, reason="`make chaos` has faults for minutes")
@pytest.mark.timeout(SECONDS + 600)
def test_a_job_is_exact_whatever_fails_meanwhile() -> None:
    chance = random.Random(SEED)
    folder = Path(tempfile.mkdtemp(prefix="mixed-"))  # short: sockets are below
    tell(f"seed {SEED}, {FAULTS} faults in {SECONDS:g} s, logs in {folder}")
    wrong: list[str] = []
    with running(folder, chance) as scene:
        began = time.monotonic()
        kinds = deck(random.Random(SEED))
        for number in range(FAULTS):
            moment = began + (SECONDS - 30) * (number + chance.uniform(0, 0.5)) / FAULTS
            time.sleep(max(0.0, moment - time.monotonic()))
            wrong += strike(next(kinds), scene)
    assert not wrong
    shutil.rmtree(folder)


def strike(kind: Callable[[Scene], Told], scene: Scene) -> list[str]:
    """Have it happen, and wait until the job is at work again on a cluster that is whole.

    What has come of it in another way than it should.
    """
    before, ends = len(scene.lives.log()), len(scene.lives.ends)
    at = time.time()
    told = kind(scene)
    tell(told.what)
    wait_until(lambda: len(scene.lives.ends) >= ends + told.ends, 180)
    scene.wait_epochs()
    wait_until(scene.keeper.all_whole, 120)
    log = scene.lives.log()[before:]
    print(log, end="")
    tell(f"  no output for {scene.pause(at):.1f} s")
    wrong = []
    if len(restarts := re.findall(RESTART, log)) not in told.restarts:
        wrong.append(f"{told.what}: {len(restarts)} restarts")
    if len(scene.lives.ends) != ends + told.ends:
        wrong.append(f"{told.what}: {len(scene.lives.ends) - ends} drivers ended")
    if not re.search(".*".join(told.lines), log, re.DOTALL):
        wrong.append(f"{told.what}: the log has not {told.lines}")
    return wrong
