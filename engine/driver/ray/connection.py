"""The connection of this process to a Ray cluster, which all of its jobs share.

A process has one connection to Ray at a time. If it has none, the first job that needs one connects
it, and the last job disconnects it. A process that `ray.init` has connected, or that Ray started,
stays connected.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import ray
from ray._private import auto_init_hook
from ray.exceptions import AuthenticationError

from engine.driver.ray.address import HOW_TO_BE_LET_IN, by_client, check_ray_address, client
from engine.driver.ray.forked import has_dead_connection
from engine.driver.ray.prints import show_all
from engine.errors import HINT_LEFT, LEFT, DriverLost, StartError
from engine.notebook import cells
from engine.system import usable_cores

RAY_NAMES = {"cpus": "CPU", "gpus": "GPU", "memory": "memory"}
"""Ray's names of the resources that Oka knows by names of its own."""


class Connection:
    """One job's part in the connection. Thread-safe.

    Invariant: nothing of Ray is called once `is_open` is false. Many of Ray's functions would
    connect the process anew, and start a cluster where there is none; while a job is part of the
    connection they raise instead, since the process may leave Ray between a look and a call.
    """

    def __init__(self, address: str | None, needed: Mapping[str, float]) -> None:
        """Join the cluster, or start one with the needed resources.

        Raises StartError, and ConfigError where the process is connected to another.
        """
        global _opened
        if has_dead_connection():
            raise StartError(
                "this process was forked from one that was connected to Ray, and Ray does not work "
                "in it",
                "start it by multiprocessing.get_context('spawn'), or connect to Ray in it alone",
            )
        with _lock:
            is_there = check_ray_address(address)
            if not ray.is_initialized():
                try:
                    _init(address, is_there, needed)
                except AuthenticationError as error:  # a cluster without one, or one to be made
                    raise StartError(f"Ray does not start: {error}", HOW_TO_BE_LET_IN) from error
                except (ConnectionError, RuntimeError, ValueError) as error:
                    raise StartError(
                        f"no Ray cluster at {address or os.environ.get('RAY_ADDRESS')!r}: {error}",
                        "start one with `ray start --head`, or leave ray_address out for a local "
                        "one",
                    ) from error
                except OSError as error:
                    raise StartError(f"Ray does not start: {error}", _HINT_FOLDER) from error
                _opened = _current()
            self._ours = _current()
            self._is_left = False
            _connections.add(self)
            auto_init_hook.enable_auto_connect = False

    @property
    def is_open(self) -> bool:
        """Whether the job uses the connection, and the process still has the same one."""
        return not self._is_left and self._ours is not None and _current() == self._ours

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Call Ray as long as the block runs; StartError where the process has left it.

        DriverLost where the cluster is gone, as `check_cluster` says.
        """
        self._check()
        try:
            yield
        except Exception as error:  # Ray may raise anything once the process has left it
            self._check()
            if (lost := _lost(error)) is not None:
                raise lost from None
            raise

    def _check(self) -> None:
        if not self.is_open:
            raise StartError(f"the job's workers cannot be reached: {LEFT}", HINT_LEFT)

    def leave(self) -> None:
        """End the job's part in the connection; idempotent.

        The last job disconnects the process, if a job has connected it.
        """
        global _opened
        with _lock:
            self._is_left = True
            _connections.discard(self)
            if _connections:
                return
            auto_init_hook.enable_auto_connect = _AUTO_CONNECT
            if _opened is None:
                return
            ours, _opened = _opened, None
            if _current() == ours:  # else the program has done so itself
                ray.shutdown()


def check_cluster(patience: float = 60.0) -> None:
    """Raise DriverLost if the head has begun anew: the cluster that this process knew is gone.

    Many of Ray's calls would end the process then, without a word of ours. So they come behind
    this, which takes half a millisecond, and waits for a head that does not answer; then it raises
    Ray's RpcError.
    """
    if by_client():
        return
    try:
        head().internal_kv_exists(b"oka", None, timeout=patience)
    except AuthenticationError as error:
        if (lost := _lost(error)) is not None:
            raise lost from None
        raise


def head() -> Any:
    """Ray's own client of the GCS in this process; it raises errors where the GCS is silent."""
    worker: Any = ray._private.worker.global_worker
    return worker.gcs_client


def _lost(error: Exception) -> DriverLost | None:
    """The error for a head that does not know the cluster of this process."""
    if not isinstance(error, AuthenticationError) or "WrongClusterID" not in str(error):
        return None
    return DriverLost(
        "the head of this job's Ray cluster has begun anew, and knows nothing of the job",
        "start the job again; with checkpoints, `--resume latest` (resume='latest') goes on from "
        "the last",
    )


def title(node: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> str:
    """The name of a node in messages: its address or given name.

    Several nodes on one machine differ in the first digits of their ids.

    >>> first, second = ({"NodeManagerAddress": "10.0.0.2", "NodeID": id} for id in ("a1", "b2"))
    >>> title(first, [first]), title(first, [second]), title(first, [first, second])
    ('10.0.0.2', '10.0.0.2', '10.0.0.2 (a1)')
    """
    address, name = node["NodeManagerAddress"], node.get("NodeName")
    alike = [each for each in nodes if each["NodeManagerAddress"] == address]
    if name not in (None, "", address):
        return f"{address} ({name})"
    return address if len(alike) <= 1 else f"{address} ({node['NodeID'][:6]})"


def _current() -> object:
    """The identity of this process's connection; None if there is none."""
    if by_client():
        found: object = client()
        return found
    worker = ray._private.worker.global_worker
    return worker.node if worker.connected else None  # each connection makes one


def _init(address: str | None, is_there: bool, needed: Mapping[str, float]) -> None:
    """Join the running cluster, or start one on this machine with the needed resources.

    Tasks share the cores that there are, so that a job need not fit them; GPUs and memory cannot be
    shared, and are those of the machine.
    """
    size: dict[str, Any] = {}
    if not is_there:
        amounts = {name: math.ceil(amount) for name, amount in needed.items() if amount}
        cpus = amounts.pop("cpus", 0)
        size = {
            "num_cpus": cpus if cpus > usable_cores() else None,
            "resources": {name: n for name, n in amounts.items() if name not in RAY_NAMES} or None,
        }
    try:
        with _interrupts_later() if cells.are_here() and not is_there else nullcontext():
            ray.init(address=address, logging_level=logging.WARNING, **size)
        show_all()
    except KeyboardInterrupt:
        ray.shutdown()
        raise


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C takes effect behind the block.

    Ray can only end what it has started to the end. A program ends it with itself, and a notebook
    goes on behind an interrupt. A handler of the notebook's own stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


_HINT_FOLDER = (
    "Ray keeps its files in /tmp/ray, or in a folder `ray` of RAY_TMPDIR: let that name one that "
    "you may write, by a short path"
)
_lock = threading.Lock()
_connections: set[Connection] = set()
"""The connections of the jobs that have not ended."""
_opened: object = None
"""The connection that a job has opened."""
_AUTO_CONNECT = auto_init_hook.enable_auto_connect
"""Whether Ray's functions connect a process by themselves, by `RAY_ENABLE_AUTO_CONNECT`."""
