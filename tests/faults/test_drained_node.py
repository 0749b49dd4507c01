"""A host that is about to go: the job's tasks leave it before, and its output is exact."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.network import Host, exists
from tests.drivers import ROOT
from tests.hosts import NAME, ask, drain, needs_hosts, workers
from tests.integration import checkpointed
from tests.integration.checkpointed import expected, found, held, left_over, newest
from tests.waiting import wait_until

pytestmark = [needs_hosts, pytest.mark.ray, pytest.mark.timeout(900)]

OWN = f"{NAME}e"
RECORDS = 4000
SECONDS = 30
"""From the notice to the end of the host."""

OCCUPY = """
import sys, ray
ray.init(logging_level="ERROR", log_to_driver=False)

@ray.remote(num_cpus=0, resources={"slot": 2})
class Another:
    def work(self): ...

another = Another.remote()
ray.get(another.work.remote())
print("there", flush=True)
sys.stdin.read()
"""

DEMANDS = """
import ray
ray.init(logging_level="ERROR", log_to_driver=False)
print([each["state"] for each in ray.util.placement_group_table().values()].count("PENDING"))
"""


@dataclass
class Job:
    """A job whose tasks take slots of hosts."""

    folder: Path
    cluster: Cluster
    driver: subprocess.Popen[str]

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def drain(self, *hosts: Host) -> None:
        """Ray hears that these go."""
        drain(self.cluster, SECONDS, *hosts)

    def demands(self) -> int:
        """For how many tasks or groups of them Ray's autoscaler is to find room."""
        return int(ask(self.cluster, DEMANDS))

    @contextmanager
    def without_room(self) -> Iterator[None]:
        """Somebody else has what other hosts have left."""
        with self.cluster.head.start(
            *(sys.executable, "-c", OCCUPY), env=self.cluster.environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as another:  # fmt: skip
            try:
                assert another.stdout is not None
                assert another.stdout.readline() == "there\n"
                yield
            finally:
                another.kill()

    def wait_epochs(self, seconds: float = 60.0) -> None:
        """Output is final that was not when this was called."""
        before = newest(self.folder)
        wait_until(lambda: newest(self.folder) >= before + 2, seconds)

    def end(self) -> None:
        """Let the job come to its end, which is exact."""
        (self.folder / checkpointed.HOLD).unlink()
        assert self.driver.wait(60) == 0, self.log()
        assert found(self.folder / "out") == expected(RECORDS)
        assert left_over(self.folder / "out") == []


@contextmanager
def running(folder: Path, slots: Mapping[int, int], driver_on: int = 1) -> Iterator[Job]:
    """A job of four tasks on three hosts with so many slots, by their number from 1."""
    resources = {number: {"slot": count} for number, count in slots.items()}
    settings = {"runtime": "ray", "resources": {"*": {"slot": 1, "cpus": 0}}}
    program = (sys.executable, "-m", checkpointed.__name__)
    arguments = (str(folder), str(RECORDS), json.dumps(settings))
    with (
        running_cluster(3, cpus=1, resources=resources, name=OWN) as cluster,
        held(folder),
        (folder / "log").open("w") as log,
        cluster.network.hosts[driver_on - 1].start(
            *program, *arguments, env=cluster.environment(), cwd=ROOT, stderr=log, text=True
        ) as driver,
    ):
        job = Job(folder, cluster, driver)
        try:
            job.wait_epochs()
            yield job
        finally:
            driver.kill()
    assert not exists(OWN)


chaos = pytest.mark.skipif("CHAOS_SEEDS" not in os.environ, reason="`make chaos` drains more hosts")


def test_a_host_that_drains_is_empty_before_it_goes(tmp_path: Path) -> None:
    with running(tmp_path, {1: 2, 2: 2, 3: 2}) as job:
        _, second, third = job.cluster.network.hosts
        assert (len(workers(second)), len(workers(third))) == (2, 0)
        job.drain(second)
        noticed = time.monotonic()
        wait_until(lambda: not workers(second), SECONDS)
        empty = time.monotonic()
        job.wait_epochs()
        final = time.monotonic()
        print(f"empty after {empty - noticed:.1f} s, output after {final - noticed:.1f} s")
        assert len(workers(third)) == 2
        job.end()
        (told,) = re.findall(r"^host .*$", job.log(), re.MULTILINE)
        assert re.fullmatch(
            rf"host {second.address} goes in (2\d|30) s: 2 tasks on it move to other hosts, "
            "behind a checkpoint",
            told,
        )
        assert "restart" not in job.log()


@chaos
def test_two_hosts_that_drain_are_empty_before_they_go(tmp_path: Path) -> None:
    with running(tmp_path, {1: 2, 2: 2, 3: 4}, driver_on=3) as job:
        first, second, third = job.cluster.network.hosts
        assert (len(workers(first)), len(workers(second))) == (2, 2)
        job.drain(first, second)
        wait_until(lambda: not workers(first) and not workers(second), SECONDS)
        job.wait_epochs()
        assert len(workers(third)) == 4
        job.end()
        assert len(re.findall(r"^host .* behind a checkpoint$", job.log(), re.MULTILINE)) == 2
        assert "restart" not in job.log()


@chaos
def test_a_job_whose_driver_is_on_a_host_that_drains_ends_with_that(tmp_path: Path) -> None:
    with running(tmp_path, {1: 2, 2: 2}, driver_on=3) as job:
        job.drain(job.cluster.network.hosts[2])  # Ray takes it away at once: it is empty
        assert job.driver.wait(60) == 1
        assert "DriverLost: the Ray node of " in job.log()
        wait_until(lambda: not any(map(workers, job.cluster.network.hosts)))
    checkpointed.run(tmp_path, RECORDS, resume="latest")
    assert found(tmp_path / "out") == expected(RECORDS)


@chaos
def test_tasks_stay_where_the_driver_is_as_long_as_they_can(tmp_path: Path) -> None:
    with running(tmp_path, {1: 2, 2: 2, 3: 2}, driver_on=2) as job:
        second = job.cluster.network.hosts[1]
        job.drain(second)
        wait_until(lambda: "whose driver is there" in job.log())
        job.wait_epochs()
        assert len(workers(second)) == 2
        job.end()
        assert "restart" not in job.log()


@chaos
def test_tasks_that_no_other_host_has_room_for_wait_for_one(tmp_path: Path) -> None:
    with running(tmp_path, {1: 2, 2: 2, 3: 2}) as job:
        second = job.cluster.network.hosts[1]
        with job.without_room():
            job.drain(second)
            wait_until(lambda: "wait for room" in job.log())
            assert job.demands() == 1
            job.wait_epochs()
            assert len(workers(second)) == 2
        wait_until(lambda: not workers(second), SECONDS)
        job.wait_epochs()
        assert job.demands() == 0
        job.end()
        assert "restart" not in job.log()


@chaos
def test_tasks_that_no_other_host_has_room_for_leave_all_the_same(tmp_path: Path) -> None:
    with running(tmp_path, {1: 2, 2: 2, 3: 2}) as job:
        second = job.cluster.network.hosts[1]
        with job.without_room():
            job.drain(second)
            wait_until(lambda: not workers(second), SECONDS)
            assert "wait for room" in job.log()
        job.wait_epochs()
        job.end()
        assert "restart" not in job.log()
