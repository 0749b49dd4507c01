"""A Ray cluster on the hosts of a network: one node in each, the head in the first.

Its processes run on the hosts, and end when the network is removed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.testbed.network import RAY_FOLDER, USUAL_NAME, Host, Network
from engine.errors import ConfigError, StartError

LEAST_OBJECT_STORE_BYTES = 100 * 1024 * 1024
"""Records do not use the object store; Ray's minimum is 75 MiB."""


class Cluster:
    """The Ray cluster of a network: its address, nodes and variables."""

    def __init__(
        self,
        network: Network,
        object_store_bytes: int = LEAST_OBJECT_STORE_BYTES,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.network = network
        self._object_store_bytes = object_store_bytes
        self._variables = dict(variables or {})

    @property
    def head(self) -> Host:
        """The host of the head."""
        return self.network.hosts[0]

    @property
    def address(self) -> str:
        """The value of RAY_ADDRESS on the hosts."""
        return f"{self.head.address}:{_PORT}"

    def environment(self) -> dict[str, str]:
        """The variables of a process that uses the cluster."""
        return {
            **os.environ,
            **self._variables,
            "RAY_ADDRESS": self.address,
            # With TMPDIR it would be a folder of the machine, with the address of the machine's
            # cluster.
            "RAY_TMPDIR": str(RAY_FOLDER.parent),
            "RAY_USAGE_STATS_ENABLED": "0",
            # Nobody else reaches the hosts. With a token in the home folder, which `ray.init()`
            # writes, the head would ask for it, and nodes and drivers would not show it.
            "RAY_AUTH_MODE": "disabled",
        }

    def start(
        self,
        cpus: int = 1,
        resources: Mapping[int, Mapping[str, float]] | None = None,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Start a node with so many CPUs on each host, and wait until all have joined.

        `resources` are further resources of a node, by the number of its host. Raises StartError
        with the last lines of its logs if a node does not join.
        """
        head, *others = self.network.hosts
        further = resources or {}
        tell("starting the Ray head")
        self.start_head(cpus, further)
        tell(f"starting {len(others)} more Ray nodes")
        self._start_nodes(others, cpus, further, ("--address", self.address))
        tell("waiting until all Ray nodes have joined")
        alive = self.nodes(wait=True)
        for host in (head, *others):
            if host.address not in alive:
                raise _failed(host, "did not join: it is not among the living nodes of the cluster")

    def start_head(
        self, cpus: int = 1, resources: Mapping[int, Mapping[str, float]] | None = None
    ) -> None:
        """Start only the head's node. Raises StartError as `start` does."""
        options = ("--head", "--port", str(_PORT), "--include-dashboard", "false")
        self._start_nodes([self.head], cpus, resources or {}, options)

    def join(self, host: Host, cpus: int = 1, resources: Mapping[str, float] | None = None) -> None:
        """Start one more node, on a host of the network; it has joined when this returns."""
        further = {host.number: resources or {}}
        self._start_nodes([host], cpus, further, ("--address", self.address))

    def nodes(self, wait: bool = False) -> dict[str, dict[str, float]]:
        """The resources of each living node, by its address; with `wait` once all have joined.

        Raises StartError if the cluster does not answer.
        """
        if not self.head.processes():
            raise _failed(self.head, "does not answer: no process of it is there")
        expected, seconds = (len(self.network.hosts), _JOIN_SECONDS) if wait else (0, 0)
        arguments = ("-m", "benchmarks.testbed.nodes", str(expected), str(seconds))
        asked = self.head.start(
            *(sys.executable, *arguments),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        with asked:
            try:
                answer, errors = asked.communicate(timeout=seconds + _ANSWER_SECONDS)
            except BaseException as error:
                asked.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise _failed(self.head, "does not answer") from None
                raise
        if asked.returncode != 0:
            last = errors.strip().splitlines()[-1:] or ["no message"]
            raise _failed(self.head, f"does not answer: {last[0]}")
        nodes: dict[str, dict[str, float]] = json.loads(answer)
        return nodes

    def _start_nodes(
        self,
        hosts: Sequence[Host],
        cpus: int,
        resources: Mapping[int, Mapping[str, float]],
        options: Sequence[str],
    ) -> None:
        environment = self.environment()
        del environment["RAY_ADDRESS"]  # it would be taken for one to connect to
        # A file and no pipe: Ray's daemons inherit it, and would hold a pipe open.
        with ExitStack() as files:
            outputs = [files.enter_context(tempfile.TemporaryFile(mode="w+")) for _ in hosts]
            started = [
                host.start(
                    *(sys.executable, "-m", "ray.scripts.scripts", "start", *options),
                    *("--node-ip-address", host.address, "--num-cpus", str(cpus)),
                    *("--resources", json.dumps(dict(resources.get(host.number, {})))),
                    *(
                        "--object-store-memory",
                        str(self._object_store_bytes),
                        "--disable-usage-stats",
                    ),
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
                for host, output in zip(hosts, outputs, strict=True)
            ]
            deadline = time.monotonic() + _JOIN_SECONDS
            for host, process, output in zip(hosts, started, outputs, strict=True):
                try:
                    status = process.wait(timeout=max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    reason = f"did not join: `ray start` was not done after {_JOIN_SECONDS:.0f} s"
                    raise _failed(host, reason) from None
                if status != 0:
                    output.seek(0)
                    reason = f"did not join: `ray start` ended with {status}"
                    raise _failed(host, reason, output.read())


@contextmanager
def running_cluster(
    nodes: int,
    *,
    rate: int | None = None,
    cpus: int = 1,
    resources: Mapping[int, Mapping[str, float]] | None = None,
    object_store_bytes: int = LEAST_OBJECT_STORE_BYTES,
    variables: Mapping[str, str] | None = None,
    name: str = USUAL_NAME,
    tell: Callable[[str], None] = lambda _line: None,
) -> Iterator[Cluster]:
    """A testbed of so many hosts with a Ray node on each, removed at the end.

    `object_store_bytes` is the size of each node's object store; `variables` are in the environment
    of all processes of Ray, workers included.
    """
    check_nodes(nodes)
    with Network.create(name, hosts=nodes, rate=rate) as network:
        cluster = Cluster(network, object_store_bytes, variables)
        cluster.start(cpus, resources, tell)
        yield cluster


def check_nodes(nodes: int) -> None:
    """Raise ConfigError if no cluster can have so many nodes."""
    if not 1 <= nodes <= MOST_NODES:
        raise ConfigError(
            f"nodes is {nodes}, expected 1 to {MOST_NODES}",
            "each is a Ray node on this one machine; 2 to 4 are enough for most tests",
        )


def _failed(host: Host, reason: str, output: str = "") -> StartError:
    logs = "".join(f"{name}: {line}\n" for name, line in _last_log_lines(host))
    message = f"the Ray node on host {host.number} ({host.address}) {reason}"
    if output or logs:
        message += f"\nlast log lines:\n{output}{logs}".rstrip()
    return StartError(message, "is the machine short of memory or very busy? try fewer nodes")


def _last_log_lines(host: Host) -> Iterator[tuple[str, str]]:
    """The last lines of its Ray daemons. The link `session_latest` is valid on the host only."""
    sessions = sorted(host.folder.glob("session_[0-9]*"))
    for path in sorted(sessions[-1].glob("logs/*")) if sessions else []:
        if path.name in _LOGS:
            with path.open(errors="replace") as lines:
                for line in deque(lines, maxlen=_LOG_LINES):
                    yield path.name, line.rstrip()


MOST_NODES = 32
_PORT = 6379
_JOIN_SECONDS = 60.0
_ANSWER_SECONDS = 20.0
_LOGS = ("gcs_server.out", "gcs_server.err", "raylet.out", "raylet.err")
_LOG_LINES = 5
