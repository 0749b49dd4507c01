"""What the tests of running jobs share: both runtimes, and the proof that nothing is left over."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import psutil
import pytest

from engine.config import JobConfig, Native
from tests import jobfolders, part
from tests.kafka import kafka as kafka
from tests.kafka import kafka_programs as kafka_programs
from tests.waiting import wait_until

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

S3_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "oka",
    "AWS_SECRET_ACCESS_KEY": "not a secret",
    "AWS_REGION": "us-east-1",
}
"""What the tests' S3 servers take; workers on the tests' Ray cluster have it."""


def pytest_configure() -> None:
    """Let Ctrl-C reach the commands that tests start and interrupt; keep their Ray apart.

    A shell's background job ignores Ctrl-C, and so would they. Ray would find a cluster of the
    machine by the file in its folder or by RAY_ADDRESS, and leave the address of the tests' there.
    Histories of jobs are not among those of the user.
    Commands are as wide as they like: pytest's readline has set the terminal's size behind
    `os.environ`.
    """
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
        os.unsetenv(name)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("RAY_ADDRESS", None)
    _run_functions(os.environ.get("NATIVE", "auto"))
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="oka-ray-")  # short: sockets are below
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="oka-state-")


def _run_functions(native: str) -> None:
    """Make `native` the default of jobs that the tests' own processes start."""
    if native not in get_args(Native):
        raise pytest.UsageError(f"NATIVE is {native!r}, expected one of {get_args(Native)}")
    names = [field.name for field in dataclasses.fields(JobConfig) if field.init]
    defaults = JobConfig.__init__.__defaults__
    assert defaults is not None
    assert len(defaults) == len(names)
    JobConfig.__init__.__defaults__ = tuple(
        native if name == "native" else default
        for name, default in zip(names, defaults, strict=True)
    )


def pytest_unconfigure() -> None:
    """Remove what the tests' Ray has left, and the histories of jobs."""
    for name in ("RAY_TMPDIR", "XDG_STATE_HOME"):
        shutil.rmtree(os.environ.pop(name), ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before those of pytest-xdist, which read the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make test-all` runs, and group the others."""
    kept: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        kept[part.has(item)].append(item)
    if kept[False]:
        config.hook.pytest_deselected(items=kept[False])
        items[:] = kept[True]
    _group(items)
    if config.getoption("loadgroup", False):  # what takes longest begins first
        items.sort(key=_is_in_file)


def _group(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, one has all that share a Ray cluster.

    Those that start clusters of their own come one after the other, too: a third would be too much.
    Those that share a broker of Kafka are together, too. The tests of any other file stay together,
    as their fixtures want it.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if not (item.get_closest_marker("ray") or "ray_cluster" in fixtures):
            group = "kafka" if "kafka" in fixtures else str(item.path)
        elif {"ray_cluster", "runtime", "request"}.intersection(fixtures):  # by `request`, at last
            group = "ray"
        else:
            group = "ray of its own"
        item.add_marker(pytest.mark.xdist_group(group))


def _is_in_file(item: pytest.Item) -> bool:
    """Whether its group is its file, and none of those on Ray."""
    group = item.get_closest_marker("xdist_group")
    return group is not None and group.args == (str(item.path),)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail where groups have no effect: each process would start a Ray cluster."""
    if session.config.getoption("loadgroup", False):
        apart = [item.nodeid for item in session.items if "@" not in item.nodeid]
        assert not apart, f"this pytest-xdist does not group the tests of this pytest: {apart[:3]}"


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.ray)])
def runtime(request: pytest.FixtureRequest) -> str:
    """Each runtime in turn; a real Ray on this machine is started once for all tests."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    return str(request.param)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A head without CPUs and three more raylets with 8 each: the tests' tasks mostly wait."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as environment:  # which workers have from their raylet
        for name, value in S3_CREDENTIALS.items():
            environment.setenv(name, value)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for resources in ({"download": 1, "loader_slot": 1}, {"loader_slot": 2}, {}):
            cluster.add_node(num_cpus=8, resources={"slot": 2, **resources})
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="WARNING")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if the test leaves a process, a descriptor, a job folder or a shared-memory file.

    What other people's jobs on this machine have is none of the test's.
    """
    if "runtime" in request.fixturenames:
        request.getfixturevalue("runtime")  # what belongs to the cluster is there before
    before = _traces()
    with jobfolders.recorded() as folders:
        yield
    with suppress(AssertionError):
        wait_until(lambda: not _traces(folders) - before, 20)
    left = _traces(folders) - before
    assert not left, f"left behind: {sorted(left)}; sockets and threads: {_ways_out()}"


def _traces(folders: Sequence[str] = ()) -> set[str]:
    processes = set()
    for child in psutil.Process().children(recursive=True):
        try:
            name = child.name()
        except psutil.NoSuchProcess:
            continue
        # Ray keeps idle workers of its own; a process that runs our actor is named for it.
        if not _ray_runs() or name.startswith("ray::Worker"):
            processes.add(f"process {child.pid} {name}")
    files = {f"folder {path}" for path in folders if Path(path).exists()}
    files |= {f"file {path}" for path in Path("/dev/shm").iterdir() if "oka" in path.name}
    return processes | files | (set() if _ray_runs() else _descriptors())


def _ways_out() -> list[str]:
    """The sockets of this process, with what they connect, and its threads."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if (target := str(link.readlink())).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(link.name))) as each:
                    found.append(f"{target} {each!r}")
    return [*found, *(thread.name for thread in threading.enumerate())]


def _ray_runs() -> bool:
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()


def _descriptors() -> set[str]:
    """Sockets, pipes and memory of this process."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith(("socket:", "/memfd:", "pipe:")):
            found.add(f"descriptor {target}")
    return found
