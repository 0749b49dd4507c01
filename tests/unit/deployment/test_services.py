"""What a worker runs beside its channels: any service, from its plan to its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.config import JobConfig
from engine.deployment.description import TaskDescription, TaskFailure, TaskStatistics
from engine.deployment.pickling import PickledTasks
from engine.graph.logical import LogicalOperator
from engine.host.imports import ImportPath
from engine.host.worker import Worker
from engine.service import Peer, Service, Site
from operators.sinks import Discard
from operators.sources import Function

happened: list[Any] = []


@dataclass(frozen=True)
class NotingPlan:
    name: str
    peers: tuple[int, ...] = ()
    listeners: int = 1

    def bind(self, site: Site) -> Noting:
        happened.append(("bind", self.name))
        return Noting(self.name, site)


class Noting(Service):
    def __init__(self, name: str, site: Site) -> None:
        self.name, self.site = name, site
        self.endpoint = site.listen_on(lambda tcp: f"{tcp}/{name}")

    @property
    def endpoints(self) -> Mapping[str, str]:
        return {self.name: self.endpoint}

    def connect(self, peers: Mapping[int, Peer]) -> None:
        happened.append(("connect", self.name, {task: each.name for task, each in peers.items()}))

    @contextmanager
    def entered(self) -> Iterator[None]:
        happened.append(("enter", self.name))
        yield
        happened.append(("leave", self.name))

    def finish(self) -> None:
        happened.append(("finish", self.name))

    def metrics(self) -> Mapping[str, Any]:
        return {"refused_connections": 2, "model_sent_bytes": 5}

    def named(self, message: str) -> str:
        return message.replace(self.name, self.name.upper())

    def close(self) -> None:
        happened.append(("close", self.name))


def numbers() -> Iterator[int]:
    happened.append("work")
    yield 1


def failing() -> Iterator[int]:
    raise ValueError("lost at first, and at second")
    yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    happened.clear()
    return tmp_path / "job"


def bound(folder: Path, source: Any, *services: NotingPlan) -> tuple[Worker, dict[str, str]]:
    operators = (
        LogicalOperator(0, "numbers", Function(source), None, {}),
        LogicalOperator(1, "nowhere", Discard(), None, {}),
    )
    config = JobConfig(transport="ipc")
    task = TaskDescription(0, "v", 0, 1, operators, {}, (), (), config, services=services)
    (data,) = PickledTasks([task]).placed([task], {})
    worker = Worker(dedicated=False)
    return worker, worker.deploy(0, data, str(folder), "127.0.0.1", ImportPath.of_this_process())


def test_a_worker_takes_its_services_from_bind_to_close(folder: Path) -> None:
    plans = NotingPlan("first", (3, 1)), NotingPlan("second")
    worker, endpoints = bound(folder, numbers, *plans)
    assert {name: endpoints[name] for name in ("first", "second")} == {
        "first": "tcp://127.0.0.1:0/first",
        "second": "tcp://127.0.0.1:0/second",
    }
    worker.connect(0, {}, {task: Peer(f"task {task}", {}) for task in (1, 2, 3)})
    statistics = worker.run(0)
    assert isinstance(statistics, TaskStatistics)
    assert (statistics.refused_connections, statistics.model_sent_bytes) == (4, 10)
    worker.close()
    assert happened == [
        ("bind", "first"),
        ("bind", "second"),
        ("connect", "first", {3: "task 3", 1: "task 1"}),
        ("connect", "second", {}),
        ("enter", "first"),
        ("enter", "second"),
        "work",
        ("finish", "first"),
        ("finish", "second"),
        ("leave", "second"),
        ("leave", "first"),
        ("close", "first"),
        ("close", "second"),
    ]


def test_services_know_the_tasks_that_a_failure_tells_of(folder: Path) -> None:
    worker, _ = bound(folder, failing, NotingPlan("first"), NotingPlan("second"))
    failure = worker.run(0)
    worker.close()
    assert isinstance(failure, TaskFailure)
    assert failure.error == "ValueError: lost at FIRST, and at SECOND"
    assert ("finish", "first") not in happened
    assert ("close", "first") in happened
