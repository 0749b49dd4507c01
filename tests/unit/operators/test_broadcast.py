"""Streams of models: what is declared, what is refused, and which versions models get."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.broadcast import Publisher, use
from engine.config import JobConfig
from engine.errors import ConfigError, GraphError, ModelError
from engine.graph import TaskContext, logical_graph
from engine.graph.chaining import chain
from engine.model import Descriptor, Layout, Package
from engine.network import Cancelled, ChannelLost
from engine.partitioner import Broadcast
from engine.plan import Plan
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
        if package.layout.size == 13:
            raise ModelError(f"version {version} has 13 bytes")
        return Descriptor(via, version, name or package.name, package.layout, 0, version)

    def unpublished(self, via: Any, version: int, name: str, error: Exception) -> Descriptor:
        return Descriptor(
            via, version, name, Layout.of("bytes", []), 0, version, failure=str(error)
        )


def publisher(task: Task, **settings: Any) -> Any:
    store: Any = Store()
    use(store)
    try:
        return Publish("channels", **settings).open(task()), store
    finally:
        use(None)


def test_publishing_is_in_the_sources_task_and_goes_to_every_task_behind_it() -> None:
    stream = source(Models(b"x")).broadcast(via="channels").map(len)
    graph = chain(logical_graph(stream.sink(Collect())), parallelism=4)
    first, second = graph.vertices
    assert [operator.name for operator in first.operators] == ["models", "publish"]
    assert (first.parallelism, second.parallelism) == (1, 4)
    assert [edge.partitioner for edge in graph.edges] == [Broadcast()]
    assert first.operators[1].operator.properties.services == (Publisher("channels", relays=True),)


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
        d.version
        for d in publish.process([b"a", {"w": np.ones(1)}])
        + publish.process([])
        + publish.process([b"c"])
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
    publish.process([(10, b"a"), b"b", (20, b"c")])
    assert [version for _, version, _ in store.published] == [10, 11, 20]
    with pytest.raises(
        ModelError, match="version 20 after version 20, expected one that is higher"
    ):
        publish.process([(20, b"d")])
    with pytest.raises(ModelError, match="expected a model or"):
        publish.process([(1, 2, 3)])
    with pytest.raises(ModelError, match="expected a model or"):
        publish.process([("1", b"d")])


def test_a_later_model_that_cannot_be_published_is_passed_on_without_bytes(
    task: Task, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    publish, store = publisher(task, name="tiny")
    published = publish.process([b"a", tmp_path / "missing", bytes(13), object(), (7, b"b")])
    assert [each.version for each in published] == [1, 2, 3, 4, 7]
    missing = f"file '{tmp_path / 'missing'}' of a model cannot be read: No such file or directory"
    assert [each.failure.partition("\n")[0] for each in published] == [
        "",
        f"version 2 of the model cannot be packed in task task[0]: {missing}",
        "version 3 has 13 bytes",
        published[3].failure.partition("\n")[0],
        "",
    ]
    assert "a model is object <object" in published[3].failure
    assert publish.failures == len(caplog.records) == 3
    assert all(record.message.endswith("; the models before it stay") for record in caplog.records)
    assert [version for _, version, _ in store.published] == [1, 3, 7]


def test_the_first_model_must_be_published(task: Task) -> None:
    for broken in (3, bytes(13)):
        publish, _ = publisher(task)
        with pytest.raises(ModelError):
            publish.process([broken])
        assert publish.failures == 0


@pytest.mark.parametrize("error", [Cancelled("away"), ChannelLost("away")])
def test_what_is_no_fault_of_a_model_is_not_passed_over(task: Task, error: Exception) -> None:
    publish, store = publisher(task)
    publish.process([b"a"])

    def fail(*_arguments: Any) -> Descriptor:
        raise error

    store.publish = fail
    with pytest.raises(type(error)):
        publish.process([b"b"])


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
    items = iter(Models(watch="/").open(task()))
    looks = []
    for _ in range(3):
        assert next(items) == Path("/")
        looks.append(len(contents) - left.__length_hint__())  # type: ignore[attr-defined]
    assert looks == [2, 5, 12]


@pytest.mark.parametrize(("changed", "version"), [(False, 2), (True, 3)])
def test_a_watched_folder_is_published_again_with_its_version(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool, version: int
) -> None:
    monkeypatch.setattr("operators.sources.models._LOOK_SECONDS", 0.001)
    weights = tmp_path / "weights"

    def given(reader: Any) -> Iterator[Any]:
        return (item for item in reader if item != [])

    reader = Models(watch=tmp_path, seconds=30).open(task())
    items = given(reader)
    for content in (b"one", b"two!"):
        weights.write_bytes(content)
        assert next(items) == tmp_path
    if changed:
        weights.write_bytes(b"three")
    again = Models(watch=tmp_path, seconds=30).open(task())
    again.restore(reader.position)
    items = given(again)
    assert next(items) == (version, tmp_path)
    weights.write_bytes(b"fourth")
    assert next(items) == tmp_path
    assert again.position[0] == version + 1


def test_models_that_bring_versions_keep_them(task: Task) -> None:
    models = Models(b"a", (7, b"b"), b"c", b"d")
    for given, expected in [
        (0, [b"a", (7, b"b"), b"c", b"d"]),
        (1, [(1, b"a"), (7, b"b"), b"c", b"d"]),
        (2, [(7, b"b"), b"c", b"d"]),
        (3, [(8, b"c"), b"d"]),
        (4, [(9, b"d")]),
        (5, [(9, b"d")]),
    ]:
        reader = models.open(task())
        reader.restore((given, ""))
        assert list(reader) == expected


def test_a_path_that_is_not_there_is_not_watched(task: Task, tmp_path: Path) -> None:
    models = Models(watch=tmp_path / "typo")
    pipeline = source(models).broadcast(via="channels").sink(Collect())
    told = f"Models watches '{tmp_path / 'typo'}', which does not exist\n\nhint: make the folder"
    with pytest.raises(GraphError) as planned:
        Plan.of(pipeline, JobConfig())
    assert str(planned.value).startswith(f"models: {told}")
    Plan.of(pipeline, JobConfig(runtime="ray"))  # its task may run on another machine
    with pytest.raises(ModelError) as opened:
        next(iter(models.open(task())))
    assert str(opened.value).startswith(told)
    (tmp_path / "typo").mkdir()
    Plan.of(pipeline, JobConfig())


def test_a_watched_folder_without_a_model_says_so_again_and_again(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("operators.sources.models._LOOK_SECONDS", 0.001)
    monkeypatch.setattr("operators.sources.models._SAY_SECONDS", 0.01)
    folder = tmp_path / "models"
    folder.mkdir()
    items = iter(Models(watch=folder, seconds=30).open(task()))

    def said() -> str:
        caplog.clear()
        while not caplog.records:
            assert next(items) == []
        return caplog.records[0].message

    watches = f"task task[0] watches '{folder}' for models: "
    assert said() == said() == f"{watches}it is empty; there was none yet"
    (folder / "weights").symlink_to("nowhere")
    assert f"{folder / 'weights'}' of a model cannot be read: No such file" in said()
    (folder / "weights").unlink()
    (folder / "weights").write_bytes(b"one")
    assert next(item for item in items if item != []) == folder
    (folder / "weights").unlink()
    assert said() == f"{watches}it is empty; the last one stays"
    folder.rmdir()
    assert said().startswith(f"{watches}file '{folder}' of a model cannot be read: No such file")


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
