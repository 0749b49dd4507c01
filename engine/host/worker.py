"""A worker hosts one task. The same class runs in a local process and in a Ray actor.

The job master calls, in this order: `deploy`, `connect`, `run`, `commit` and `close`, of which the
first three may come again, in another attempt; `statistics`, `stacks`, `end_source`, `raise_limit`,
`barrier`, `commit_epoch` and `cancel` come at any time from another thread, and one waits in
`listen` for the worker's events. A call for a replaced attempt does nothing to the new one. All
calls go through `answer`, which gives bytes.
"""

from __future__ import annotations

import gc
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from engine import console
from engine.checkpoint import check_reach
from engine.columns import import_pyarrow
from engine.deployment.description import (
    ChannelBroke,
    LimitReached,
    Remark,
    SnapshotFailed,
    SnapshotWritten,
    SourceProgress,
    Start,
    TaskFailure,
    TaskStatistics,
)
from engine.deployment.pickling import PickledDescription, unpickle_description
from engine.deployment.reply import pack, text_of
from engine.deployment.scheduling import share_interpreter
from engine.deployment.services import Services
from engine.deployment.stacks import Stacks
from engine.errors import CheckpointError
from engine.graph.failing import FailureContext
from engine.host.folder import JobFolder
from engine.host.imports import ImportPath
from engine.host.ports import listen
from engine.host.stacks import sampled
from engine.network import Cancelled, ChannelLost, Network
from engine.record import code_pickle
from engine.record import registry as record_registry
from engine.service import Peer, Site
from engine.system import LOCAL_TRANSPORT, usable_cores
from engine.task.chain import Around
from engine.task.clock import SYSTEM_CLOCK, Clock
from engine.task.drift import Drift
from engine.task.failure import describe
from engine.task.side import SIDE
from engine.task.snapshots import Snapshots
from engine.task.task import Task

Word: TypeAlias = (
    ChannelBroke | LimitReached | Remark | SourceProgress | SnapshotWritten | SnapshotFailed
)


class Worker:
    """Hosts one task, its network and its services. Nothing of it outlives `close` or the process.

    With `dedicated` the process belongs to this worker alone, which may tune it. `around` is a
    test's wrapper of each operator.
    """

    def __init__(
        self,
        dedicated: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        around: Around | None = None,
    ) -> None:
        self._dedicated = dedicated
        self._clock = clock
        self._around = around
        self._tasks: dict[int, Task] = {}
        """The last deployed task, by its attempt."""
        self._network: Network | None = None
        self._services = Services()
        self._snapshots: Snapshots | None = None
        self._folder: JobFolder | None = None
        self._words: queue.SimpleQueue[Callable[[], Word] | None] = queue.SimpleQueue()
        self._working = threading.Lock()
        """The lock of the network: one attempt is over before the next is deployed."""
        self._lock = threading.Lock()
        self._closed = False
        self._process_id = os.getpid()
        if dedicated:
            share_interpreter()
            os.register_at_fork(after_in_child=self._stop_fork)

    def answer(self, method: str, *arguments: Any) -> bytes:
        """Call the method; its reply, for `engine.deployment.reply.open_reply`."""
        reply = pack(lambda: getattr(self, method)(*arguments))
        self._end_fork()
        return reply

    def deploy(
        self,
        attempt: int,
        description: PickledDescription,
        folder: str,
        address: str,
        imports: ImportPath,
        start: Start | None = None,
    ) -> dict[str, str] | TaskFailure:
        """Take a task and open its endpoints; each kind's address, for the tasks that will connect.

        A second call brings a new attempt, task, network and services. It waits for the end of the
        earlier task, which comes at once if that was cancelled, and closes it. Frames carry the
        attempt modulo 256: only the keys of encrypted channels expose a task that is 256 attempts
        late.

        The endpoint of tcp has the public key of the task in it, which is made here; the secret key
        never leaves the process. `description` is that of the task, `folder`
        the job's folder for local sockets, `address` the host to listen on for tcp, `imports`
        where the driver imports from, `start` where a task of a job with checkpoints begins. A
        TaskFailure is returned where checkpoints cannot be written from here.
        """
        goes_on = attempt > 0
        if start is not None and (refusal := _refusal(start, address, goes_on)) is not None:
            return refusal
        # A job that is cancelled now closes its workers from another thread.
        with self._working, self._lock:
            if self._closed:
                raise Cancelled("the worker was closed before its job started")
            return self._deploy(attempt, description, folder, address, imports, start)

    def _deploy(
        self,
        attempt: int,
        description: PickledDescription,
        folder: str,
        address: str,
        imports: ImportPath,
        start: Start | None,
    ) -> dict[str, str]:
        self._release()
        task = imports.unpickle(description, unpickle_description)
        if task.columns:
            import_pyarrow("a stream of columns")  # before the task's clock starts
        config = task.config
        record_registry.trust(config.is_private)
        if start is None:
            record_registry.trust_checkpoints(False)
        else:
            record_registry.trust_checkpoints(start.trusted, start.modules)
        if self._folder is None:
            self._folder = JobFolder(folder)
        self._folder.hold()
        self._folder.clear(task.id)
        kinds = (LOCAL_TRANSPORT, "tcp") if config.transport == "auto" else (config.transport,)
        self._network = listen(
            address,
            config.ports if "tcp" in kinds else None,
            task.id,
            lambda tcp: Network(
                [tcp if kind == "tcp" else f"{kind}://{folder}/{task.id}.{kind}" for kind in kinds],
                window_bytes=config.channel_window_bytes,
                send_buffer_bytes=config.send_buffer_bytes,
                max_frame_bytes=config.max_record_bytes,
                linger_ms=config.linger_ms,
                connect_timeout_seconds=config.connect_timeout_seconds,
                reconnect_timeout_seconds=config.reconnect_timeout_seconds,
                nap_us=_NAP_US * max(1.0, task.neighbours / usable_cores()),
                encryption=config.encryption,
                channels=len(task.inputs) + len(task.output_channels),
                attempt=attempt,
            ),
        )
        endpoints = dict(zip(kinds, self._network.endpoints, strict=True))
        endpoints |= self._services.bind(
            task.services,
            Site(
                task.id,
                task.name,
                task.host,
                config,
                folder,
                address,
                lambda open_at: listen(address, config.ports, task.id, open_at),
                lambda what: self._words.put(lambda: Remark(what)),
            ),
        )
        if start is not None:
            pickle = any(operator.pickle for operator in task.operators)
            say = lambda word: self._words.put(lambda: word)  # noqa: E731 - of one line
            self._snapshots = Snapshots(start, attempt, pickle, say)
        made = Task(task, self._network, self._services, self._clock, self._snapshots)
        made.chain.reached = lambda name: self._words.put(lambda: LimitReached(attempt, name))
        made.chain.around = self._around
        made.lost = lambda error: self._words.put(lambda: _broke(attempt, made, error))
        if (drift := made.drift) is not None:
            drift.say = lambda: self._words.put(lambda: _progress(attempt, drift))
        self._tasks = {attempt: made}
        return endpoints

    def connect(
        self, attempt: int, peers: Mapping[int, str], others: Mapping[int, Peer]
    ) -> TaskFailure | None:
        """Connect every channel of the task to the endpoint of its other end.

        From then on the task knows the keys of its peers, and talks to no one else over tcp.
        `others` are the tasks that its services have to know.
        """
        with self._at_work(attempt) as task:
            assert self._network is not None
            description = task.description
            self._network.connect(
                [(channel, peers[channel]) for channel in description.output_channels],
                *(
                    [(channel, peers[channel]) for channel in channels]
                    for channels in (description.first_inputs, description.second_inputs)
                ),
                side=[SIDE] if description.has_side_input else [],
            )
            try:
                self._services.connect(others)
            except CheckpointError as error:  # no further attempt could succeed
                return describe(error, description, FailureContext())
        return None

    def run(self, attempt: int) -> TaskStatistics | TaskFailure:
        """Run the task to its end. Local sockets lose their names first: all are connected."""
        with self._at_work(attempt) as task:
            self._remove_names()
            if self._dedicated:
                gc.collect()
                gc.freeze()
                gc.set_threshold(_GC_THRESHOLD)
            try:
                return task.run()
            except BaseException as error:  # noqa: BLE001 - whatever the user raised fails the job
                failure = self._failed(task, error)
                return replace(failure, error=self._services.named(failure.error))

    def commit(self, attempt: int) -> tuple[dict[str, bytes], TaskStatistics] | TaskFailure:
        """Make the sinks' output final; the pickled results of sinks by name, the last figures."""
        with self._at_work(attempt) as task:
            try:
                results, statistics = task.commit()
            except BaseException as error:  # noqa: BLE001 - whatever the user raised fails the job
                return self._failed(task, error)
        pickled = {}
        for name, result in results.items():
            try:
                pickled[name] = code_pickle.dumps(result)
            except BaseException as error:  # noqa: BLE001 - a __reduce__ of the user's
                what = f"its result cannot be pickled: {type(error).__name__}: {text_of(error)}"
                return TaskFailure("operator", name, None, what, "", getattr(error, "hint", None))
        return pickled, statistics

    def barrier(self, attempt: int, epoch: int, is_last: bool) -> None:
        """Have the task's source send an epoch's barrier, and no record behind the last barrier."""
        if (task := self._tasks.get(attempt)) is not None:
            task.begin_epoch(epoch, is_last)

    def commit_epoch(self, attempt: int, epoch: int) -> TaskFailure | None:
        """Make the sinks' output final up to this epoch, while the task goes on."""
        if (task := self._tasks.get(attempt)) is None:
            raise Cancelled(f"attempt {attempt} of the task is over")
        failing = FailureContext()
        try:
            task.commit_epoch(epoch, failing)
        except BaseException as error:  # noqa: BLE001 - whatever the user raised fails the job
            return describe(error, task.description, failing)
        return None

    def statistics(self) -> TaskStatistics:
        """The task's statistics up to now."""
        (task,) = self._tasks.values()
        return task.statistics()

    def stacks(self, seconds: float) -> Stacks:
        """Where the task's threads are, as often as it is looked at within so many seconds."""
        return sampled(Worker.run.__code__, seconds)

    def listen(self) -> Word | None:
        """Wait for the worker's next event; None once no more will come."""
        word = self._words.get()
        return None if word is None else word()

    def end_source(self, attempt: int) -> None:
        """Let the task's source end, which nobody reads any more."""
        if (task := self._tasks.get(attempt)) is not None:
            task.end_source()

    def raise_limit(self, attempt: int, limit_us: int) -> None:
        """Let the task's source read up to this event time."""
        if (task := self._tasks.get(attempt)) is not None and task.drift is not None:
            task.drift.raise_limit(limit_us)

    def cancel(self, attempt: int | None = None) -> None:
        """Stop the task at its next batch; it then reports that it was cancelled.

        None: any attempt, and no other may follow.
        """
        if attempt is None:
            self._words.put(None)
        for number, task in list(self._tasks.items()):
            if attempt in (None, number):
                task.cancel()

    def close(self) -> None:
        """Close all connections and remove what is left of the job's folder; for good.

        Output of the sinks that is not final is dropped.
        """
        with self._lock:
            self._closed = True
        self._words.put(None)
        self._close_bound()
        if self._folder is not None:
            self._folder.remove()

    def process_id(self) -> int:
        """The process that hosts the worker."""
        return os.getpid()

    def _release(self) -> None:
        """Close the network and services of the attempt before."""
        self._close_bound()
        self._tasks, self._network, self._services = {}, None, Services()
        self._snapshots = None

    @contextmanager
    def _at_work(self, attempt: int) -> Iterator[Task]:
        """The task of the attempt, which stays in place while the block runs."""
        with self._working:
            if attempt not in self._tasks:
                raise Cancelled(f"attempt {attempt} of the task is over")
            yield self._tasks[attempt]

    def _close_bound(self) -> None:
        for task in self._tasks.values():
            task.abort()
        self._services.close()
        if self._snapshots is not None:
            self._snapshots.close()
        if self._network is not None:
            self._network.close()

    def _failed(self, task: Task, error: BaseException) -> TaskFailure:
        """The failure. The sinks drop their output; a forked process ends before that."""
        self._end_fork()
        try:
            return describe(error, task.description, task.chain.failing)
        finally:
            task.abort()

    def _remove_names(self) -> None:
        assert self._network is not None
        assert self._folder is not None
        self._network.unlink_endpoints()
        self._folder.leave()

    def _stop_fork(self) -> None:
        """Stop in a process that a user's function forked: it shares its parent's connections.

        It may go on in the function, but no record gets in or out any more.
        """
        if self._network is not None:
            self._network.cancel_copy()

    def _end_fork(self) -> None:
        """End a forked process that came back from the function that forked it."""
        if os.getpid() != self._process_id:
            console.write(
                "a process that a function of the pipeline forked came back from the function, and "
                "was ended\n\nhint: end it with os._exit, or use subprocess or multiprocessing\n"
            )
            os._exit(1)


def _refusal(start: Start, address: str, goes_on: bool) -> TaskFailure | None:
    """The reason why the job cannot have checkpoints, if this worker has to check that."""
    if start.seen is not None:
        try:
            check_reach(start.url, start.seen, address, goes_on=goes_on)
        except CheckpointError as error:
            return TaskFailure("checkpoint", "", None, error.message, "", error.hint)
    return None


def _broke(attempt: int, task: Task, error: ChannelLost) -> ChannelBroke:
    return ChannelBroke(attempt, describe(error, task.description, FailureContext()))


def _progress(attempt: int, drift: Drift) -> SourceProgress:
    """The source's progress, for the master; at most one every `_PROGRESS_SECONDS`."""
    time.sleep(_PROGRESS_SECONDS)
    return SourceProgress(attempt, drift.take())


_PROGRESS_SECONDS = 0.005
_NAP_US = 50.0
"""µs that a task sleeps at a time; tasks that share a core share its wake-ups, too."""

_GC_THRESHOLD = 50_000
"""Records live for one batch: with the default of 700 each large batch is searched for cycles."""
