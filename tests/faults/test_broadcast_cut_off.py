"""A host that is cut off while a model is on its way to it and, through it, to the next."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.network import exists
from tests.hosts import NAME, needs_hosts
from tests.waiting import wait_until

pytestmark = [needs_hosts, pytest.mark.ray]

OWN = f"{NAME}d"
SIZE = 80_000_000

JOB = f"""
import json, sys
import engine
from pipelines.model_broadcast import model_broadcast

try:
    result = engine.execute(
        model_broadcast("channels", "synthetic:{SIZE}", 2, (1, 2)),
        runtime="ray", strict_placement=True, progress="none",
        reconnect_timeout_seconds=float(sys.argv[1]),
    )
    print(json.dumps({{"reports": result.output}}))
except engine.EngineError as error:
    print(json.dumps({{"error": type(error).__name__, "message": str(error)}}))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three hosts: the model goes from the first to the second, and from there to the third."""
    with running_cluster(3, rate=200_000_000, name=OWN) as cluster:
        yield cluster
    assert not exists(OWN)


def broadcast(cluster: Cluster, cut_off_seconds: float, reconnect_timeout: float) -> dict[str, Any]:
    """What the job tells, whose second host is cut off when it has a quarter of the model."""
    network = cluster.network
    second = network.hosts[1]
    before = network.counters()[2].received_bytes
    driver = cluster.head.start(
        *(sys.executable, "-c", JOB, str(reconnect_timeout)),
        env=cluster.environment(), cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    plug_in = threading.Timer(cut_off_seconds, second.plug_in)
    with driver:
        try:
            wait_until(lambda: network.counters()[2].received_bytes - before > SIZE / 4)
            second.cut_off()
            plug_in.start()
            output, errors = driver.communicate(timeout=300)
        finally:
            driver.kill()
            plug_in.cancel()
            second.plug_in()
    assert driver.returncode == 0, errors
    answer: dict[str, Any] = json.loads(output)
    return answer


@pytest.mark.again_on_ray
def test_a_host_that_comes_back_gets_the_rest(cluster: Cluster) -> None:
    before = cluster.network.counters()
    answer = broadcast(cluster, cut_off_seconds=1.0, reconnect_timeout=10.0)
    assert "reports" in answer, answer
    assert all(report["bytes"] >= SIZE for report in answer["reports"])
    assert len({report["checksum"] for report in answer["reports"]}) == 1
    received = cluster.network.counters()[2].received_bytes - before[2].received_bytes
    assert SIZE < received < 1.2 * SIZE  # not once more from its beginning


@pytest.mark.again_on_ray
def test_a_host_that_stays_away_is_named(cluster: Cluster) -> None:
    answer = broadcast(cluster, cut_off_seconds=20.0, reconnect_timeout=3.0)
    assert answer["error"] == "ChannelLost", answer
    message = answer["message"]
    assert re.match(
        r"task download -> publish\[0\] on [\d.]+: a model could not be delivered", message
    )
    assert re.search(r"number 1, is lost: .* did not get to task load\[[01]\] on node ", message)
    assert "reconnect_timeout_seconds" in message
