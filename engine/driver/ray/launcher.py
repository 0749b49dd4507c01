"""The Ray runtime: one actor per task, on the node that the placement says."""

from __future__ import annotations

import math
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from engine.config import JobConfig
from engine.deployment.description import TaskDescription
from engine.deployment.reply import CallFailed, open_reply, text_of
from engine.driver.launcher import DrainingNode, Launcher, WorkerDied, WorkerHandle
from engine.driver.placing import Waits
from engine.driver.ray.address import by_client
from engine.driver.ray.connection import RAY_NAMES, Connection, title
from engine.driver.ray.draining import living_nodes
from engine.driver.ray.prints import Prints
from engine.driver.ray.reach import Reach
from engine.driver.ray.reservations import Reservations, free, kinds, ray_amounts
from engine.errors import LEFT, StartError
from engine.host.ray_actor import Worker, last_lines
from engine.placement.nodes import Node, add_to


class RayLauncher(Launcher):
    """Actors of one job on the connected cluster; a local Ray is started if there is none."""

    has_draining = True
    takes_of_ray = True

    def __init__(self, config: JobConfig, needed: Mapping[str, float]) -> None:
        """Join or start Ray; `needed` are the resources of all tasks together."""
        self.folder = f"/tmp/oka-job-{uuid.uuid4().hex[:12]}"  # noqa: S108 - made with mode 0700
        self._workers: list[RayWorker] = []
        self._started = 0
        """Actors, so far."""
        self._connection = Connection(config.ray_address, needed)
        self._logs = _logs()
        self._prints = Prints()
        self._reservations = Reservations()
        self._reach = Reach()

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        """The living nodes of the cluster, in the order of their addresses and ids.

        Those that are about to go are left out.
        """
        names = {name: RAY_NAMES.get(name, name) for name in resources}
        with self._connection.calling():
            there_is = free()
            alive, draining = living_nodes(patience=60.0)
        goes = {node.id for node in draining}
        alive = [node for node in alive if node["NodeID"] not in goes]
        for node_id, task in self._reservations.held():
            add_to(there_is.setdefault(node_id, {}), ray_amounts(task.resources))
        alive.sort(key=lambda node: (node["NodeManagerAddress"], node["NodeID"]))
        return [
            Node(
                node["NodeID"],
                node["NodeManagerAddress"],
                {
                    name: min(
                        there_is.get(node["NodeID"], {}).get(ours, 0.0),
                        node["Resources"].get(ours, 0.0),
                    )
                    for name, ours in names.items()
                },
                title(node, alive),
                total={name: node["Resources"].get(ours, 0.0) for name, ours in names.items()},
                doubtful=node["NodeID"] in {*self._reservations.doubtful, *self._reach.lost},
            )
            for node in alive
        ]

    def kinds(self, resources: Collection[str]) -> Sequence[Mapping[str, float]] | None:
        """The kinds of nodes of the autoscaler; None where this process has started Ray itself.

        Where the autoscaler's kinds are unknown, it is taken to start whatever is asked for.
        """
        node = ray._private.worker._global_node
        if node is not None and node.head:
            return None
        with self._connection.calling():
            found = kinds()
        if found is None:
            return [dict.fromkeys(resources, math.inf)]
        names = {name: RAY_NAMES.get(name, name) for name in resources}
        return [{name: kind.get(ours, 0.0) for name, ours in names.items()} for kind in found]

    def reserve(
        self,
        tasks: Sequence[TaskDescription],
        choose: Callable[[Sequence[Node]], Mapping[int, Node]],
        *,
        beside: bool = False,
    ) -> Mapping[int, Node] | Waits:
        """Nodes on which the tasks' resources are reserved."""
        resources = {name for task in tasks for name in task.resources}
        told = {each.task.id for each in self._workers if each.was_told_of}
        with self._connection.calling():
            return self._reservations.reserve(
                tasks,
                lambda: self.nodes(resources),
                choose,
                None if beside else {task.id for task in tasks} - told,
            )

    def add(self, task: TaskDescription, node: Node) -> WorkerHandle:
        """Start an actor; the task's resources are reserved while it lives."""
        self._started += 1
        # Names are unique in a namespace, and free some time after their actor has ended.
        namespace = f"{Path(self.folder).name}-{self._started}"
        logs = self._logs if node.address == _own_address() else None
        strategy = self._reservations.strategy(task.id)
        self._workers.append(RayWorker(task, node, strategy, self._connection, logs, namespace))
        return self._workers[-1]

    def end(self, worker: WorkerHandle) -> None:
        """Kill the actor: it may still live if it was only out of reach for too long."""
        assert isinstance(worker, RayWorker)
        self._workers.remove(worker)
        worker.kill()
        with self._connection.calling():
            self._reservations.leave(worker.task.id, worker.node)

    def want(self, tasks: Sequence[TaskDescription]) -> None:
        """Tell Ray's autoscaler what these tasks need."""
        with self._connection.calling():
            if tasks:
                self._reservations.ask_for(tasks, self.nodes(()))
            else:
                self._reservations.drop_demand()

    def draining(self) -> Sequence[DrainingNode]:
        """The nodes that drain, as the GCS knows them, and those that this process cannot reach."""
        with self._connection.calling():
            alive, draining = living_nodes()
        used = {each.node.id: each.node for each in [*self._workers]}
        if not by_client():  # which is outside of the cluster
            self._reach.look(node for node in alive if node["NodeID"] in used)
        lost = (used[each] for each in self._reach.lost)
        return [*draining, *(DrainingNode(n.id, n.name, is_cut_off=True) for n in lost)]

    def shutdown(self) -> None:
        """Kill the actors; leave Ray if it was joined for jobs, and this is the last.

        Workers remove the folder on their nodes when they close. Those that were killed before
        cannot; on the driver's own node it is removed here.
        """
        ended = [each.end_prints(self._prints.mark) for each in self._workers]
        self._prints.wait(filter(None, ended))
        for worker in self._workers:
            worker.kill()
        self._workers = []
        with suppress(StartError), self._connection.calling():  # Ray frees what its leaver has
            self._reservations.release()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._connection.leave()


class RayWorker(WorkerHandle):
    """One actor that hosts a Worker."""

    def __init__(
        self,
        task: TaskDescription,
        node: Node,
        strategy: PlacementGroupSchedulingStrategy,
        connection: Connection,
        logs: Path | None,
        namespace: str,
    ) -> None:
        self.task = task
        self.node = node
        self.was_told_of = False
        """Whether the actor's node has reported its death, so that the node itself lives."""
        self._connection = connection
        self._logs = logs
        self._calling = threading.Lock()
        needed = ray_amounts(task.resources)
        title = f"{task.config.name}: {task.name}"
        with connection.calling():
            self._actor: Any = (
                ray.remote(Worker)
                .options(
                    name=title,
                    namespace=namespace,
                    num_cpus=needed.pop("CPU", 0.0),
                    num_gpus=needed.pop("GPU", 0.0),
                    memory=needed.pop("memory", None),
                    resources=needed,
                    scheduling_strategy=strategy,
                    max_concurrency=_CONCURRENT_CALLS,
                    max_restarts=0,
                )
                .remote(title)
            )
        self._process_id = self.call("process_id")

    def call(self, method: str, *arguments: Any) -> Future[bytes]:
        """Call the actor; what Ray raises becomes WorkerDied or CallFailed."""
        answer: Future[bytes] = Future()

        def complete(reply: Future[bytes]) -> None:
            error = reply.exception()
            if error is None:
                answer.set_result(reply.result())
            elif not self._connection.is_open:
                answer.set_exception(WorkerDied(LEFT))  # Ray ends the actors of its leaver
            elif isinstance(error, RayActorError):
                self.was_told_of = _EXIT.search(str(error)) is not None
                answer.set_exception(WorkerDied(_status(error), self._last_log_lines()))
            else:
                answer.set_exception(CallFailed(type(error).__name__, text_of(error)))

        with self._calling:
            if self._actor is None or not self._connection.is_open:
                answer.set_exception(
                    WorkerDied("the job has ended" if self._actor is None else LEFT)
                )
                return answer
            try:
                reply = self._actor.answer.remote(method, *arguments).future()
            except Exception:  # noqa: BLE001 - whatever Ray raises of a process that leaves it
                answer.set_exception(WorkerDied(LEFT))
                return answer
        reply.add_done_callback(complete)
        return answer

    def kill(self) -> None:
        """End the actor's process at once. Nothing is called any more."""
        with self._calling:
            actor, self._actor = self._actor, None
            if actor is None or not self._connection.is_open:
                return
            try:
                ray.kill(actor, no_restart=True)
            except Exception:
                if self._connection.is_open:
                    raise  # else Ray has ended the actors of a process that left it

    def end_prints(self, mark: str) -> Future[bytes] | None:
        """Have the actor write a mark behind its prints, if it has started."""
        return self.call("end_prints", mark) if self._process_id.done() else None

    def last_words(self) -> str:
        """The last lines of its log, which a task on its node reads."""
        if (process_id := self._known_process_id()) is None:
            return ""
        here = NodeAffinitySchedulingStrategy(self.node.id, soft=False)
        reader = ray.remote(last_lines).options(
            num_cpus=0, max_retries=0, scheduling_strategy=here, name="last words of a worker"
        )
        try:
            with self._connection.calling():
                return str(ray.get(reader.remote(process_id), timeout=_READING_SECONDS))
        except Exception:  # noqa: BLE001 - whatever Ray raises: the node may be gone, too
            return ""

    def _last_log_lines(self) -> str:
        """The worker's last lines, if its log is on this machine."""
        process_id = self._known_process_id()
        if self._logs is None or process_id is None:
            return ""
        return last_lines(process_id, self._logs)

    def _known_process_id(self) -> int | None:
        if not self._process_id.done() or self._process_id.exception() is not None:
            return None
        return int(open_reply(self._process_id.result()))


def _own_address() -> str:
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def _logs() -> Path | None:
    """Where the connected cluster keeps its logs on this machine; Ray's client does not know."""
    if by_client():
        return None
    context = ray.get_runtime_context()
    return Path(context.get_temp_dir()) / context.get_session_name() / "logs"


def _status(error: RayActorError) -> str:
    """Ray's message about the actor's end, without its advice and most ids."""
    text = _ID.sub(r"\1…", str(error))
    detail = _EXIT.search(text)
    if detail:
        return f"died, {detail.group(1)}: {detail.group(2)}"
    return text.strip().splitlines()[-1].strip()


_ID = re.compile("([0-9a-f]{6})[0-9a-f]{26,}")
_READING_SECONDS = 3.0
"""A task on another host begins and reads a few lines of a file."""
_EXIT = re.compile(r"Worker exit type: (\w+) Worker exit detail: (.*?\.)(?: |$)")
_CONCURRENT_CALLS = 10
"""`run`, and beside it `listen`, `statistics`, `stacks`, `end_source`, `raise_limit`, `barrier`,
`commit_epoch`, `cancel`, and the `deploy` of the next attempt."""
