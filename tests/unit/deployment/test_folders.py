"""Whether hosts see one folder: two tasks, each as on a host of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.config import JobConfig
from engine.deployment.folders import plan_folders
from engine.errors import CheckpointError
from engine.placement.nodes import Node
from engine.placement.place import place
from engine.plan import Plan
from engine.service import Peer, Service, Site
from operators import source
from operators.sinks import Discard, JsonLines
from operators.sources import Collection

NODES = [Node(f"node{n}", f"10.0.0.{n}", {"cpus": 3.0}, f"host {n}") for n in range(2)]


def planned(sink: Any, parallelism: int) -> Any:
    numbers = source(Collection([1])).with_parallelism(1).rebalance()
    graph = Plan.of(numbers.sink(sink), JobConfig(parallelism=parallelism)).execution
    return plan_folders(graph, place(graph, NODES, "parallelism_first"))


def test_the_first_task_on_each_host_looks(tmp_path: Path) -> None:
    plans = planned(JsonLines(tmp_path), 4)
    told = {t: (plan.peers, plan.is_marked, plan.tells) for t, plan in plans.items()}
    assert told == {
        1: ((3,), True, True),
        2: ((1, 3), False, False),
        3: ((1,), True, False),
        4: ((1, 3), False, False),
    }
    assert {plan.hosts for plan in plans.values()} == {("host 0", "host 1")}


def test_nobody_looks_on_one_host_or_without_a_folder(tmp_path: Path) -> None:
    assert planned(JsonLines(tmp_path), 1) == {}
    assert planned(JsonLines("s3://bucket/out"), 4) == {}
    assert planned(Discard(), 4) == {}


def bound(plans: dict[int, Any], folders: list[Path], said: list[str], **config: Any) -> Any:
    """The services of four tasks whose hosts have these folders."""
    settings = JobConfig(**config)
    services: dict[int, Service] = {}
    for (task, plan), folder in zip(plans.items(), folders, strict=True):
        site = Site(task, "t", "n", settings, "/tmp", "", lambda _: None, said.append)
        services[task] = replace(plan, folder=str(folder)).bind(site)
    return services


def connect(plans: dict[int, Any], services: dict[int, Service]) -> None:
    for task, plan in plans.items():
        peers = {other: Peer("", services[other].endpoints) for other in plan.peers}
        services[task].connect(peers)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("engine.deployment.folders._PATIENCE_SECONDS", 0.0)
    return


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_markers_tell_whether_hosts_see_one_folder(
    is_shared: bool, checkpoints: bool, tmp_path: Path
) -> None:
    plans, said = planned(JsonLines(tmp_path), 4), list[str]()
    one, other = tmp_path / "one", tmp_path / ("one" if is_shared else "other")
    config = {"checkpoints": "kept"} if checkpoints else {}
    services = bound(plans, [one, one, other, other], said, **config)
    told = rf"the folder '{one}' of sink 'json_lines' is not one that all hosts see"
    if checkpoints and not is_shared:
        with pytest.raises(CheckpointError, match=f"{told}, .*: its tasks are on host 0, host 1"):
            connect(plans, services)
    else:
        connect(plans, services)
    expected = 0 if is_shared or checkpoints else 1
    assert len(said) == expected
    assert all("its files are on host 0, host 1" in each for each in said)
    for service in services.values():
        service.ready()
        service.close()
    assert not list(one.iterdir())
    assert not list(other.iterdir())


def test_a_task_that_moved_to_a_host_without_the_folder_is_refused(tmp_path: Path) -> None:
    plans, said = planned(JsonLines(tmp_path), 4), list[str]()
    one, other = tmp_path / "one", tmp_path / "other"
    services = bound(plans, [one, one, one, one], said, checkpoints="kept")
    connect(plans, services)
    again = bound(plans, [one, one, one, other], said, checkpoints="kept")
    assert len(list(one.iterdir())) == 2  # those of tasks that were killed before are gone
    with pytest.raises(CheckpointError, match="not one that all hosts see"):
        connect(plans, again)


def test_a_folder_that_cannot_be_written_is_the_sinks_to_tell(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    plans, said = planned(JsonLines(tmp_path), 4), list[str]()
    services = bound(plans, 2 * [tmp_path / "file" / "a", tmp_path / "file" / "b"], said)
    connect(plans, services)
    assert said == []


def test_the_result_says_where_files_are(tmp_path: Path) -> None:
    numbers = source(Collection([1]))
    pipelines = [numbers.sink(JsonLines(tmp_path)), numbers.sink(Discard())]
    result = engine.execute(pipelines)
    assert {name: str(files) for name, files in result.files.items()} == {
        "json_lines": str(tmp_path)
    }
    assert result.to_dict()["files"] == {"json_lines": {"url": str(tmp_path), "hosts": ()}}
    assert f"json_lines: {tmp_path}" in str(result)
