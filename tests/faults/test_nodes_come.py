"""Hosts that join late, are lost or cut off: a job waits for room, and each loss is one restart."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.network import exists
from tests.hosts import NAME, lose, needs_hosts
from tests.integration import checkpointed
from tests.waiting import wait_until

pytestmark = [needs_hosts, pytest.mark.ray]

OWN = f"{NAME}n"
RECORDS = 4000
BUSY, IDLE = 100_000, 100
"""Records that flow as long as a test looks at them, and so few that they are soon through."""
CPUS = 2


@contextmanager
def running(
    cluster: Cluster, folder: Path, records: int, **settings: object
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A job whose driver is on the first host, held before its end, and what it tells."""
    told = folder / "told"
    program = [sys.executable, "-m", checkpointed.__name__]
    wanted = {"runtime": "ray", "checkpoint_interval_seconds": 0.5, **settings}
    with (
        checkpointed.held(folder),
        told.open("w") as stderr,
        cluster.head.start(
            *(*program, str(folder), str(records), json.dumps(wanted)),
            env=cluster.environment(),
            cwd=Path(__file__).parents[2],
            stderr=stderr,
        ) as job,
    ):
        try:
            yield job, told
        finally:
            job.kill()


def finish(job: subprocess.Popen[str], folder: Path, records: int, told: Path) -> list[str]:
    """Let it come to its end, which is exact; the restarts that it told of."""
    (folder / checkpointed.HOLD).unlink()
    assert job.wait(120) == 0, told.read_text()
    assert checkpointed.found(folder / "out") == checkpointed.expected(records)
    assert checkpointed.left_over(folder / "out") == []
    return re.findall("restart .*", told.read_text())


def wait_more(folder: Path, seconds: float) -> float:
    """Wait until something more is final; how long that took."""
    before, began = checkpointed.newest(folder), time.monotonic()
    wait_until(lambda: checkpointed.newest(folder) > before, seconds)
    return time.monotonic() - began


DELAYS = [5.0, 15.0, 30.0, 120.0] if "CHAOS_SEEDS" in os.environ else [1.0]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("delay", DELAYS)
def test_a_job_waits_for_a_host_to_join_and_for_another_when_that_is_lost(
    tmp_path: Path, delay: float
) -> None:
    with running_cluster(2, cpus=1, name=OWN) as cluster:
        third, fourth = cluster.network.add_host(), cluster.network.add_host()
        with running(cluster, tmp_path, RECORDS, parallelism=2) as (job, told):
            wait_until(lambda: "2 of 4 workers, waiting for 2 CPUs" in told.read_text())
            time.sleep(delay)
            cluster.join(third, CPUS)
            first = wait_more(tmp_path, 60)
            lose(third)
            wait_until(lambda: "restart 1 of 10" in told.read_text())
            time.sleep(delay)
            cluster.join(fourth, CPUS)
            again = wait_more(tmp_path, 60)
            restarts = finish(job, tmp_path, RECORDS, told)
        print(f"{delay:g} s: first output {first:.1f} s after a host joined, then {again:.1f} s")
        assert len(restarts) == 1, told.read_text()
        assert "restart 1 of 10" in restarts[0]
    assert not exists(OWN)


@pytest.mark.skipif("CHAOS_SEEDS" not in os.environ, reason="`make chaos` cuts links for a minute")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("spare", [True, False])
def test_a_host_that_is_cut_off_is_left_for_one_that_is_free(tmp_path: Path, spare: bool) -> None:
    # Where no other host is free, shorter than what Ray takes the host away for, some 60 s.
    seconds = 60.0 if spare else 30.0
    with running_cluster(3 if spare else 2, cpus=CPUS, name=OWN) as cluster:
        second = cluster.network.hosts[1]
        plug_in = threading.Timer(seconds, second.plug_in)
        with running(cluster, tmp_path, BUSY, parallelism=2) as (job, told):
            wait_until(lambda: checkpointed.newest(tmp_path) >= 2)
            second.cut_off()
            plug_in.start()
            again = wait_more(tmp_path, 120)
            plug_in.join()
            restarts = finish(job, tmp_path, BUSY, told)
        print(f"output {again:.1f} s after the cut")
        assert len(restarts) == 1, told.read_text()
        assert (again < seconds) == spare


CUTS = [*product(("idle", "busy"), ("source", "sink"), ("short", "long"))]
"""What flows meanwhile, whose host is cut off, and for how long."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("flow", "who", "length"),
    CUTS if "CHAOS_SEEDS" in os.environ else [("idle", "sink", "long")],
)
def test_a_cut_heals_or_the_tasks_move_whether_or_not_records_flow(
    tmp_path: Path, flow: str, who: str, length: str
) -> None:
    records, is_long = BUSY if flow == "busy" else IDLE, length == "long"
    slots = {number: {"slot": 1.0} for number in (2, 3, 4)}  # the driver has a host of its own
    settings = {
        "parallelism": 1,
        "resources": {"*": {"slot": 1, "cpus": 0}},
        "reconnect_timeout_seconds": 3 if is_long else 60,
    }
    with running_cluster(4, resources=slots, name=OWN) as cluster:
        host = cluster.network.hosts[1 if who == "source" else 2]
        with running(cluster, tmp_path, records, **settings) as (job, told):
            wait_until(lambda: checkpointed.newest(tmp_path) >= 2)
            host.cut_off()
            began = time.monotonic()
            if is_long:
                wait_until(lambda: "moves from" in told.read_text())
                print(f"tasks move {time.monotonic() - began:.1f} s after the cut")
            else:
                time.sleep(3)
            host.plug_in()
            wait_more(tmp_path, 60)
            restarts = finish(job, tmp_path, records, told)
        moves = re.findall("task .* moves from (.*) to .*", told.read_text())
    assert moves == [host.address] * is_long, told.read_text()
    assert len(restarts) == is_long, told.read_text()
    assert all("the channel from task" in each for each in restarts), restarts  # not Ray's word
