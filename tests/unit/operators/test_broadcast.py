"""Streams of models: what is declared, what is refused, and which versions models get."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.config import JobConfig
from engine.errors import ConfigError, GraphError, ModelError
from engine.graph import TaskContext, logical_graph
from engine.graph.chaining import chain
from engine.graph.partitioner import Broadcast
from engine.job import Plan
from engine.model import Descriptor, Package
from operators import source
from operators.broadcast import Publish
from operators.sinks import Collect
from operators.sources import Collection, Models

Task = Callable[..., TaskContext]


class Store:
    """Notes what is published."""

    def __init__(self) -> None:
        self.published: list[tuple[Package, int, str | None]] = []

    def publish(
        self, package: Package, via: Any, version: int, name: str | None, *rest: Any
    ) -> Descriptor:
        self.published.append((package, version, name))
        return Descriptor(via, version, name or package.name, package.layout, 0, version)


def publisher(task: Task, **settings: Any) -> Any:
    context = task()
    store = Store()
    object.__setattr__(context, "models", store)
    return Publish("channels", **settings).open(context), store


def test_publishing_is_in_the_sources_task_and_goes_to_every_task_behind_it() -> None:
    stream = source(Models(b"x")).broadcast(via="channels").map(len)
    graph = chain(logical_graph(stream.sink(Collect())), parallelism=4)
    first, second = graph.vertices
    assert [operator.name for operator in first.operators] == ["models", "publish"]
    assert (first.parallelism, second.parallelism) == (1, 4)
    assert [edge.partitioner for edge in graph.edges] == [Broadcast()]
    assert first.operators[1].operator.publishes == "channels"  # type: ignore[union-attr]


def test_records_are_broadcast_as_they_are_without_via() -> None:
    (edge,) = source(Collection([1])).broadcast().inputs
    assert edge.partitioner == Broadcast()
    assert edge.source.name == "collection"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"via": "ftp"}, "via='ftp', expected 'channels' or 'plasma' or 's3'"),
        ({"s3_url": "s3://bucket/x"}, "s3_url without via"),
        ({"via": "s3", "s3_url": "bucket"}, "s3_url is 'bucket'"),
        ({"via": "s3"}, "not in S3, and no s3_url"),
        ({"via": "channels", "name": ""}, "name=''"),
        ({"via": "channels", "share_per_node": True}, "share_per_node with via='channels', exp"),
        ({"via": "plasma", "s3_url": "s3://bucket/x"}, "s3_url with via='plasma', expected via='s"),
        ({"via": "channels", "speed": 3}, "speed, expected settings of name, s3_url"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_where_it_is_written(
    arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(GraphError, match=reason):
        source(Models(b"x")).broadcast(**arguments)


def test_a_model_that_is_in_s3_needs_no_url() -> None:
    source(Models("s3://bucket/models/digits")).broadcast(via="s3")


def test_plasma_needs_ray() -> None:
    pipeline = source(Models(b"x")).broadcast(via="plasma").sink(Collect())
    with pytest.raises(ConfigError, match="Ray's object store"):
        Plan.of(pipeline, JobConfig(runtime="local"))


def test_versions_count_up(task: Task) -> None:
    publish, store = publisher(task, name="tiny")
    assert [
        d.version for d in publish([b"a", {"w": np.ones(1)}]) + publish([]) + publish([b"c"])
    ] == [
        1,
        2,
        3,
    ]
    assert [(version, name) for _, version, name in store.published] == [
        (1, "tiny"),
        (2, "tiny"),
        (3, "tiny"),
    ]


def test_versions_may_come_with_the_models(task: Task) -> None:
    publish, store = publisher(task)
    publish([(10, b"a"), b"b", (20, b"c")])
    assert [version for _, version, _ in store.published] == [10, 11, 20]
    with pytest.raises(
        ModelError, match="version 20 after version 20, expected one that is higher"
    ):
        publish([(20, b"d")])
    with pytest.raises(ModelError, match="expected a model or"):
        publish([(1, 2, 3)])
    with pytest.raises(ModelError, match="expected a model or"):
        publish([("1", b"d")])


def test_a_task_without_a_store_cannot_publish(task: Task) -> None:
    with pytest.raises(ModelError, match="no model store"):
        Publish("channels").open(task())


def test_models_come_one_by_one_in_the_first_task(task: Task) -> None:
    models = Models(b"a", b"b", every=0.01)
    assert [item for item in models.open(task(0, 2)) if item != []] == [b"a", b"b"]
    assert list(models.open(task(1, 2))) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"every": 0},
        {"every": "1"},
        {"seconds": 1},
        {"watch": "x", "seconds": -1},
        {"watch": "x", "seconds": float("inf")},
        {"watch": "x", "every": 1},
    ],
    ids=str,
)
def test_a_source_of_models_that_cannot_work_is_refused(arguments: dict[str, Any]) -> None:
    values = () if "watch" in arguments or not arguments else (b"x",)
    with pytest.raises(GraphError, match="Models got"):
        Models(*values, **arguments)


def test_models_and_watch_exclude_each_other() -> None:
    with pytest.raises(GraphError, match="expected one or the other"):
        Models(b"x", watch="folder")


def test_a_watched_folder_is_published_when_it_has_changed_and_rests(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = ["a", "a", "b", "c", "c", "c", None, "c", "c", None, "d", "d"]
    left = iter(contents)
    monkeypatch.setattr("operators.sources.models._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("operators.sources.models._content", lambda path: next(left))
    items = Models(watch="/model").open(task())
    looks = []
    for _ in range(3):
        assert next(items) == Path("/model")
        looks.append(len(contents) - left.__length_hint__())  # type: ignore[attr-defined]
    assert looks == [2, 5, 12]


def test_a_watched_folder_is_new_when_a_file_of_it_is(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operators.sources.models._LOOK_SECONDS", 0.001)
    weights = tmp_path / "deep" / "weights"
    weights.parent.mkdir()
    weights.write_bytes(b"one")
    items = (item for item in Models(watch=tmp_path, seconds=30).open(task()) if item != [])
    assert next(items) == tmp_path
    weights.write_bytes(b"two!")
    assert next(items) == tmp_path
    os.utime(weights, ns=(1, 1))
    assert next(items) == tmp_path
    (tmp_path / "dangling").symlink_to("nowhere")  # unreadable now: no error, but no model
    ended = Models(watch=tmp_path, seconds=0.02).open(task())
    assert [item for item in ended if item != []] == []
