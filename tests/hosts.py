"""What tests with hosts share: why there can be none here, their name, and what is on them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.testbed.cluster import Cluster
from benchmarks.testbed.network import Host, missing
from tests.conftest import S3_CREDENTIALS
from tests.drivers import ROOT

needs_hosts = pytest.mark.skipif(missing() is not None, reason=str(missing()))
NAME = f"t{os.getpid()}"
"""No other process has it, nor does a person's testbed."""


def titles(host: Host) -> Iterator[tuple[int, str]]:
    """Each process there, and what it calls itself."""
    for pid in host.processes():
        with suppress(psutil.Error):
            yield pid, " ".join(psutil.Process(pid).cmdline())


def workers(host: Host) -> list[int]:
    """The processes with a task of a job on the host."""
    return [pid for pid, title in titles(host) if title.startswith("ray::Worker")]


def daemons(host: Host, name: str) -> list[int]:
    """The processes of Ray there that are called this, such as `raylet` or `gcs_server`."""
    return [pid for pid, title in titles(host) if Path(title.partition(" ")[0]).name == name]


def lose(host: Host, but: int | None = None) -> None:
    """End all of its processes at once, but for one."""
    while pids := [each for each in host.processes() if each != but]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ask(cluster: Cluster, program: str, *arguments: str) -> str:
    """What a program says that runs on the host of the head."""
    asked = cluster.head.start(
        *(sys.executable, "-c", program, *arguments),
        env=cluster.environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    told, _ = asked.communicate(timeout=300)
    return str(told)


def drain(cluster: Cluster, seconds: float, *hosts: Host) -> None:
    """Ray hears that these go in so many seconds."""
    told = ask(cluster, _DRAIN, str(seconds), *(host.address for host in hosts))
    assert told.split() == ["True"] * len(hosts), told


class Objects:
    """An S3 server on a host, with a bucket, for those who have its `variables`.

    Its objects are in a folder of the machine and outlive it.
    """

    def __init__(self, address: str, folder: Path, bucket: str) -> None:
        self.folder = folder / bucket
        self._command = [str(Path(sys.executable).with_name("oka")), "s3", "serve"]
        self._command += ["--host", address, "--port", str(_S3_PORT)]
        self._command += ["--folder", str(folder), "--bucket", bucket]
        self.variables = {**S3_CREDENTIALS, "AWS_ENDPOINT_URL": f"http://{address}:{_S3_PORT}"}
        self.server: subprocess.Popen[bytes] | None = None

    def serve(self, host: Host) -> None:
        """Start the server."""
        self.server = host.start(
            *self._command,
            env={
                **os.environ,
                "OKA_S3_ACCESS_KEY": S3_CREDENTIALS["AWS_ACCESS_KEY_ID"],
                "OKA_S3_SECRET_KEY": S3_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            },
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End the server, whatever it does."""
        if self.server is not None:
            self.server.kill()
            self.server.wait()


_S3_PORT = 9000
_DRAIN = """
import sys, time, ray
from ray._raylet import GcsClient
ray.init(logging_level="ERROR", log_to_driver=False)
nodes = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
gcs = GcsClient(address=ray.get_runtime_context().gcs_address)
for address in sys.argv[2:]:
    until_ms = int(1000 * (time.time() + float(sys.argv[1])))
    print(*gcs.drain_node(nodes[address], 2, "the machine is taken back", until_ms))
"""
"""`ray drain-node` for several hosts at once. 2 is a preemption."""
