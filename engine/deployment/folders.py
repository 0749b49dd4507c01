"""Checks that the hosts of a sink see one folder, before records flow.

A task on each host writes a marker into the folder, a file with a new name, and all look for the
markers of the others. So does a task that begins again, maybe elsewhere. If one is missing, the
hosts have different folders. Then a job with checkpoints is refused: the prepared output on a lost
host would be lost, too. Any other job logs where its files will be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from engine.errors import CheckpointError
from engine.graph.execution import ExecutionGraph
from engine.graph.sink import SinkOperator
from engine.placement.place import Placement
from engine.service import Peer, Service, Site


@dataclass(frozen=True)
class FolderPlan:
    """The part of a task of a sink, if its tasks are on several hosts."""

    sink: str
    folder: str
    peers: tuple[int, ...]
    """The first tasks on each host, but for this one: they write markers."""
    hosts: tuple[str, ...]
    """The names of all hosts."""
    is_marked: bool
    """Whether it is the first on its host, and so writes a marker."""
    tells: bool
    """Whether this task logs where files are."""
    listeners: int = 0

    def bind(self, site: Site) -> Service:
        """Write the marker."""
        return _Folder(self, site)


def plan_folders(graph: ExecutionGraph, placement: Placement) -> dict[int, FolderPlan]:
    """The parts of tasks in sinks whose files go to folders of several hosts."""
    planned: dict[int, FolderPlan] = {}
    for vertex in graph.job.vertices:
        sink = vertex.operators[-1]
        folder = sink.operator.files if isinstance(sink.operator, SinkOperator) else None
        if folder is None or "://" in folder:
            continue
        tasks = [task for task in graph.vertices if task.job_vertex.id == vertex.id]
        first: dict[str, int] = {}
        for task in tasks:
            first.setdefault(placement.node(task).id, task.id)
        if len(first) > 1:
            hosts = tuple(dict.fromkeys(placement.nodes[task].name for task in first.values()))
            marked = list(first.values())
            for task in tasks:
                others = tuple(other for other in marked if other != task.id)
                is_marked, tells = task.id in marked, task.id == marked[0]
                planned[task.id] = FolderPlan(sink.name, folder, others, hosts, is_marked, tells)
    return planned


class _Folder(Service):
    """A folder as one host sees it."""

    def __init__(self, plan: FolderPlan, site: Site) -> None:
        self._plan = plan
        self._site = site
        self._folder = Path(plan.folder)
        whose = f".oka-host-{Path(site.folder).name}-{site.task}-"
        self._marker = self._folder / f"{whose}{uuid4().hex}"
        with suppress(OSError):  # of which the sink will tell, as it opens
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(f"{whose}*"):  # the task has been killed before
                left.unlink(missing_ok=True)
            if plan.is_marked:
                self._marker.touch(exist_ok=False)

    @property
    def endpoints(self) -> Mapping[str, str]:
        """The name of the marker."""
        return {_KIND: self._marker.name}

    def connect(self, peers: Mapping[int, Peer]) -> None:
        """Look for the markers of the other hosts. Raises CheckpointError."""
        plan = self._plan
        others = [self._marker.with_name(peer.endpoints[_KIND]) for peer in peers.values()]
        if not os.access(self._folder, os.W_OK) or _are_there(others):
            return
        what = f"the folder {plan.folder!r} of sink {plan.sink!r} is not one that all hosts see"
        where = ", ".join(plan.hosts)
        if self._site.config.checkpoints is not None:
            raise CheckpointError(
                f"{what}, expected that with checkpoints: its tasks are on {where}, and what one "
                "has prepared on a host that is lost would be lost",
                "write to a file system that they share, or to s3://bucket/prefix",
            )
        if plan.tells:
            self._site.say(f"{what}: its files are on {where}, on each those of the tasks there")

    def ready(self) -> None:
        """Remove the marker: all have looked for it before any task has begun."""
        with suppress(OSError):
            self._marker.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the marker."""
        self.ready()


def _are_there(paths: Iterable[Path]) -> bool:
    """Whether all of these exist; other hosts may see a new one a moment later."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    missing = list(paths)
    while missing := [path for path in missing if not path.exists()]:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


_KIND = "folder"
_PATIENCE_SECONDS = 1.0
_PAUSE_SECONDS = 0.05
