"""Pods of Ray that are lost while a job runs, as Kubernetes and KubeRay lose and replace them.

A pod is a host of a testbed: it dies with all of its processes at once, and the one that replaces
it has another address and nothing on its disk. Checkpoints are on an S3 server, as on a cluster.
Whatever is lost, the files have each record once. `make chaos` runs all and prints the times of
k8s/README.md: `python -m pytest -s tests/faults/test_pods.py`, with CHAOS_SEEDS set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.network import Host, address, exists
from tests.drivers import ROOT
from tests.faults.pod_job import SLOTS, expected, found, newest
from tests.hosts import NAME, Objects, daemons, lose, needs_hosts
from tests.waiting import wait_until

pytestmark = [needs_hosts, pytest.mark.ray]

OWN = f"{NAME}p"
POD = {"operator_slot": SLOTS / 2}
chaos = pytest.mark.skipif("CHAOS_SEEDS" not in os.environ, reason="`make chaos` loses more pods")


class Pods:
    """A head, pods of workers, and an S3 server, in hosts of their own."""

    def __init__(self, cluster: Cluster, server: Host) -> None:
        self.cluster = cluster
        self.network = cluster.network
        self.server = server

    @property
    def head(self) -> Host:
        """That of the head, which also has the driver."""
        return self.cluster.head

    def workers(self) -> list[Host]:
        """Those with a raylet."""
        hosts = (each for each in self.network.hosts if each not in (self.head, self.server))
        return [each for each in hosts if daemons(each, "raylet")]

    def replace(self, seconds: float) -> float:
        """Another pod comes after so many seconds, with an address of its own; when it is there."""
        time.sleep(seconds)  # what Kubernetes takes
        host = self.network.add_host()
        self.cluster.join(host, 1, POD)
        return time.monotonic()

    def restart(self, host: Host) -> None:
        """Its container begins again, with the address that it had."""
        lose(host)
        for path in host.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if host == self.head:
            self.cluster.start_head(1)
        else:
            self.cluster.join(host, 1, POD)


@contextmanager
def running_pods(workers: int, folder: Path) -> Iterator[Pods]:
    """A head and so many workers."""
    number = workers + 2
    slots = dict.fromkeys(range(2, number), POD)
    objects = Objects(address(number), folder / "s3", "checkpoints")
    with running_cluster(
        workers + 1, resources=slots, name=OWN, variables=objects.variables
    ) as cluster:
        server = cluster.network.add_host()
        objects.serve(server)
        try:
            yield Pods(cluster, server)
        finally:
            objects.kill()
    assert not exists(OWN)


class Job:
    """The driver of a job, in the head's pod."""

    def __init__(self, pods: Pods, folder: Path, seconds: int) -> None:
        self.out, self._seconds, self._pods = folder / "out", seconds, pods
        self._errors = (folder / "errors").open("a+")
        self._start()
        wait_until(lambda: newest(self.out) >= 2 or self.driver.poll() is not None, 120)
        assert self.driver.poll() is None, (folder / "errors").read_text()

    def _start(self) -> None:
        self.driver = self._pods.head.start(
            *(sys.executable, "-m", "tests.faults.pod_job"),
            *(str(self.out), "s3://checkpoints/job", str(self._seconds)),
            env=self._pods.cluster.environment(), cwd=ROOT,
            stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip

    def again(self) -> None:
        """The same command, as the pod that submits the job has it run on a new head."""
        self.driver.communicate()
        self._start()

    def close(self) -> None:
        """End it, whatever has happened."""
        self.driver.kill()
        self.driver.communicate()
        self._errors.close()

    def wait_for_output(self, since: int, seconds: float) -> float:
        """When files of an epoch are final that began behind the epoch `since`, and the next."""
        wait_until(lambda: newest(self.out) >= since + 2 or self.driver.poll(), seconds)
        self._errors.seek(0)
        assert not self.driver.poll(), self._errors.read()
        return time.monotonic()

    def wait_finished(self, seconds: float) -> dict[str, Any]:
        """What it tells; its files are exact."""
        output, _ = self.driver.communicate(timeout=seconds)
        self._errors.seek(0)
        assert self.driver.returncode == 0, self._errors.read()
        assert found(self.out) == expected(self._seconds)
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
        return told


def tell(what: str, seconds: float, since: str, then: str = "output again") -> None:
    """A line for k8s/README.md."""
    print(f"\n{what}: {then} {seconds:.1f} s after {since}", flush=True)


@chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [5, 15, 30, 120])
def test_tasks_of_a_lost_pod_wait_for_the_next(tmp_path: Path, seconds: int) -> None:
    with running_pods(2, tmp_path) as pods, closing(Job(pods, tmp_path, 12)) as job:
        before = newest(job.out)
        lose(pods.workers()[-1])
        there = pods.replace(seconds)
        again = job.wait_for_output(before, 120)
        tell(f"lost worker, replaced after {seconds} s", again - there, "it came")
        assert job.wait_finished(300)["restarts"] >= 1


@chaos
@pytest.mark.timeout(900)
def test_tasks_of_a_lost_pod_go_to_the_spare_one(tmp_path: Path) -> None:
    with running_pods(3, tmp_path) as pods, closing(Job(pods, tmp_path, 20)) as job:
        lost = max(pods.workers(), key=lambda host: len(host.processes()))
        before, at = newest(job.out), time.monotonic()
        lose(lost)
        tell("lost worker with a spare pod", job.wait_for_output(before, 120) - at, "it was lost")
        assert job.wait_finished(300)["restarts"] >= 1


@chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [1, 30])
def test_a_job_goes_on_after_its_head(tmp_path: Path, seconds: int) -> None:
    with running_pods(2, tmp_path) as pods, closing(Job(pods, tmp_path, 20)) as job:
        workers, before = pods.workers(), newest(job.out)
        lose(pods.head)
        at = time.monotonic()
        time.sleep(seconds)  # what Kubernetes takes
        pods.restart(pods.head)
        there = time.monotonic()

        def keep(host: Host) -> None:  # KubeRay starts a container again whose raylet has ended
            wait_until(lambda: not daemons(host, "raylet"), 120)
            tell("lost head", time.monotonic() - there, "it came", "a worker ended")
            pods.restart(host)

        keepers = [threading.Thread(target=keep, args=(each,)) for each in workers]
        for each in keepers:
            each.start()
        job.again()
        again = job.wait_for_output(before, 240)
        for each in keepers:
            each.join()
        tell(f"lost head, replaced after {seconds} s", again - there, "it came")
        tell(f"lost head, replaced after {seconds} s", again - at, "it was lost")
        job.wait_finished(300)
