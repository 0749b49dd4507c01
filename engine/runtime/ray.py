"""The Ray runtime: one actor per task, on the node that the placement says."""

from __future__ import annotations

import logging
import os
import re
import shutil
import uuid
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from engine.config import JobConfig
from engine.errors import StartError
from engine.placement import Node, Placement
from engine.runtime.description import TaskDescription
from engine.runtime.launcher import Launcher, WorkerDied, WorkerHandle
from engine.runtime.reply import CallFailed, open_reply, text_of
from engine.runtime.worker import Worker


class RayLauncher(Launcher):
    """Actors of one job on the connected cluster; a local Ray is started if there is none."""

    def __init__(self, config: JobConfig) -> None:
        self.folder = f"/tmp/oka-job-{uuid.uuid4().hex[:12]}"  # noqa: S108 - made with mode 0700
        self._workers: list[RayWorker] = []
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            try:
                ray.init(address=config.ray_address, logging_level=logging.WARNING)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise StartError(
                    f"no Ray cluster at {config.ray_address or os.environ.get('RAY_ADDRESS')!r}: "
                    f"{error}",
                    "start one with `ray start --head`, or leave ray_address out for a local one",
                ) from error

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        """The living nodes of the cluster, in the order of their addresses and ids."""
        names = {name: _RAY_NAMES.get(name, name) for name in resources}
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        alive.sort(key=lambda node: (node["NodeManagerAddress"], node["NodeID"]))
        return [
            Node(
                node["NodeID"],
                node["NodeManagerAddress"],
                {name: node["Resources"].get(ours, 0.0) for name, ours in names.items()},
            )
            for node in alive
        ]

    def launch(
        self, tasks: Sequence[TaskDescription], placement: Placement
    ) -> Sequence[WorkerHandle]:
        """Start one actor per task; a task's resources are reserved while it lives."""
        for task in tasks:
            self._workers.append(RayWorker(task, placement.nodes[task.id]))
        return self._workers

    def shutdown(self) -> None:
        """Kill the actors; leave Ray if it was joined for this job.

        Workers remove the folder on their nodes when they close. Those that were killed before
        cannot; on the driver's own node it is removed here.
        """
        for worker in self._workers:
            worker.kill()
        self._workers = []
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._connected_here:
            self._connected_here = False
            ray.shutdown()


class RayWorker(WorkerHandle):
    """One actor that hosts a Worker."""

    def __init__(self, task: TaskDescription, node: Node) -> None:
        self.task = task
        self.node = node
        needed = {_RAY_NAMES.get(name, name): amount for name, amount in task.resources.items()}
        self._actor: Any = (
            ray.remote(Worker)
            .options(
                num_cpus=needed.pop("CPU", 0.0),
                num_gpus=needed.pop("GPU", 0.0),
                resources=needed,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
                max_concurrency=_CONCURRENT_CALLS,
                max_restarts=0,
            )
            .remote()
        )
        self._process_id = self.call("process_id")

    def call(self, method: str, *arguments: Any) -> Future[bytes]:
        """Call the actor; what Ray raises becomes WorkerDied or CallFailed."""
        answer: Future[bytes] = Future()

        def complete(reply: Future[bytes]) -> None:
            error = reply.exception()
            if error is None:
                answer.set_result(reply.result())
            elif isinstance(error, RayActorError):
                answer.set_exception(WorkerDied(_status(error), self._last_log_lines()))
            else:
                answer.set_exception(CallFailed(type(error).__name__, text_of(error)))

        try:
            reply = self._actor.answer.remote(method, *arguments)
        except Exception:  # noqa: BLE001 - whatever Ray raises once the driver has left it
            answer.set_exception(WorkerDied("the job has ended"))
        else:
            reply.future().add_done_callback(complete)
        return answer

    def kill(self) -> None:
        """End the actor's process at once."""
        ray.kill(self._actor, no_restart=True)

    def _last_log_lines(self) -> str:
        """What the worker last wrote, where its log is on this machine."""
        if not self._process_id.done() or self._process_id.exception() is not None:
            return ""
        process_id = open_reply(self._process_id.result())
        for path in _LOGS.glob(f"worker-*-{process_id}.err"):
            with path.open(errors="replace") as lines:
                written = (line for line in lines if not line.startswith(":"))  # Ray's own marks
                return "".join(deque(written, maxlen=20))
        return ""


def _status(error: RayActorError) -> str:
    """How the actor ended, in Ray's words without its advice."""
    text = str(error)
    detail = re.search(r"Worker exit type: (\w+) Worker exit detail: (.*?\.)(?: |$)", text)
    if detail:
        return f"died, {detail.group(1)}: {detail.group(2)}"
    return text.strip().splitlines()[-1].strip()


_LOGS = Path("/tmp/ray/session_latest/logs")  # noqa: S108 - where Ray documents its logs
_RAY_NAMES = {"cpus": "CPU", "gpus": "GPU", "memory": "memory"}
_CONCURRENT_CALLS = 4
"""`run`, and beside it `statistics`, `stop` and `cancel`."""
