"""Models moved by real parts: Ray's object store, blob nodes, and the S3 server."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

import engine
from engine.broadcast import ModelStore, Settings, use
from engine.broadcast.relay import BlobRole
from engine.config import JobConfig
from engine.errors import ConfigError, EngineError, ModelError
from engine.model import Descriptor, Model, Package, pack
from engine.model.descriptor import EXTENSION
from engine.network import Batch, BlobNode, Cancelled, ChannelLost
from engine.programs.s3_server import S3Server
from engine.s3 import S3
from operators import source
from operators.sinks import Collect
from operators.sources import Function, Models
from tests.conftest import S3_CREDENTIALS
from tests.generated_model import generated
from tests.waiting import wait_until

BLOCK = 8 << 20
THREE_GIGABYTES = 384 * BLOCK


class Receiver:
    """A task in another process: decodes what it is sent and tells what it sees."""

    def __init__(self, task: int) -> None:
        self._store = ModelStore(task, None, JobConfig(runtime="ray"), task=f"load[{task}]")
        self._held: list[Any] = []

    def look(self, encoded: bytes) -> dict[str, Any]:
        use(self._store)
        try:
            (model,) = Batch.from_bytes(encoded, 1).to_list()
        finally:
            use(None)
        files = model.files
        blob = np.frombuffer(model.buffer, np.uint8)
        views = [np.frombuffer(data, np.uint8) for data in files.values() if len(data)]
        self._held.append(model)
        return {
            "version": model.version,
            "files": {name: bytes(data) for name, data in files.items()},
            "readonly": all(data.readonly for data in files.values()),
            "views": all(np.shares_memory(view, blob) for view in views),
            "aligned": all(view.ctypes.data % 64 == 0 for view in views),
            "value": None if model.layout.kind != "array" else model.value().tolist(),
        }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "digits"
    (root / "deep").mkdir(parents=True)
    (root / "empty").write_bytes(b"")
    (root / "config.json").write_bytes(b"{}")
    (root / "deep" / "weights").write_bytes(np.random.default_rng(1).bytes(3_000_001))
    return root


def encoded(descriptor: Descriptor) -> bytes:
    """As a channel carries it: a msgpack extension."""
    payload = descriptor.encode()
    return b"\xc9" + len(payload).to_bytes(4, "big") + bytes([EXTENSION]) + payload


@pytest.mark.ray
def test_plasma_gives_each_task_a_view_of_its_nodes_copy(ray_cluster: None, folder: Path) -> None:
    import ray

    receivers = [
        ray.remote(Receiver).options(num_cpus=1, resources={"slot": 1}).remote(n) for n in (1, 2, 3)
    ]
    store = ModelStore(0, None, JobConfig(runtime="ray"), task="publish[0]")
    try:
        sent = encoded(store.publish(pack(folder), "plasma"))
        for seen in ray.get([receiver.look.remote(sent) for receiver in receivers], timeout=300):
            assert seen["files"] == {
                "empty": b"",
                "config.json": b"{}",
                "deep/weights": (folder / "deep" / "weights").read_bytes(),
            }
            assert seen["readonly"]
            assert seen["views"]
            assert seen["aligned"]
        array = np.arange(6.0).reshape(2, 3)
        sent = encoded(store.publish(pack(array), "plasma", 5))
        seen = ray.get(receivers[0].look.remote(sent), timeout=300)
        assert (seen["value"], seen["version"]) == (array.tolist(), 5)
        sent = encoded(store.publish(pack(b""), "plasma", 6))
        assert ray.get(receivers[0].look.remote(sent), timeout=300)["files"] == {"model.bin": b""}
    finally:
        store.close()
        for receiver in receivers:
            ray.kill(receiver)


@pytest.mark.ray
def test_plasma_keeps_a_few_models_and_none_after_the_job(ray_cluster: None) -> None:
    import ray

    core = ray._private.worker.global_worker.core_worker
    store = ModelStore(0, None, JobConfig(runtime="ray"), task="publish[0]")
    sent = [store.publish(pack(bytes([n]) * 1_000_000), "plasma") for n in range(10)]
    # References of our own would keep the objects; those of the bytes of an id do not.
    names = [ray.cloudpickle.loads(descriptor.reference).binary() for descriptor in sent]

    def exist() -> list[bool]:
        return [
            core.object_exists(ray.ObjectRef(name, skip_adding_local_ref=True)) for name in names
        ]

    receiver = ray.remote(Receiver).options(num_cpus=1, resources={"slot": 1}).remote(1)
    try:
        assert exist() == [False] * 6 + [True] * 4
        assert ray.get(receiver.look.remote(encoded(sent[-1])), timeout=300)["version"] == 10
        with pytest.raises(ModelError, match=r"model 'model' version 1 could not be received"):
            ray.get(receiver.look.remote(encoded(sent[0])), timeout=30)
    finally:
        ray.kill(receiver)
        store.close()
    assert exist() == [False] * 10


@pytest.mark.ray
def test_a_task_that_waits_for_plasma_is_cancelled(ray_cluster: None) -> None:
    import threading

    import ray

    @ray.remote(num_cpus=1, resources={"slot": 1})
    def never() -> None:
        threading.Event().wait(60)

    pending = never.remote()
    store = ModelStore(0, None, JobConfig(runtime="ray"), task="load[0]")
    layout = pack(b"x").layout
    sent = Descriptor("plasma", 1, "late", layout, 7, 1, ray.cloudpickle.dumps(pending))
    threading.Timer(0.3, store.cancel).start()
    with pytest.raises(Cancelled):
        store.model(sent).wait(60)
    with pytest.raises(TimeoutError, match="model 'late' version 1"):
        ModelStore(0, None, JobConfig(runtime="ray")).model(sent).wait(0.05)
    ray.cancel(pending, force=True)


def digest(model: Model) -> tuple[int, str, dict[str, str]]:
    """What a task sees of a model: version, name, and each file's checksum."""
    return (
        model.version,
        model.name,
        {name: hashlib.sha256(data).hexdigest() for name, data in model.files.items()},
    )


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def numbered() -> Package:
    """A model whose 64-bit words are the number of their block."""

    def blocks() -> Iterator[Any]:
        for number in range(THREE_GIGABYTES // BLOCK):
            yield np.full(BLOCK // 8, number, np.uint64)

    return generated({"weights": (THREE_GIGABYTES, blocks)})


def block_numbers(model: Model) -> list[int]:
    """The number of each block whose words all are that number."""
    blocks = np.frombuffer(model.files["weights"], np.uint64).reshape(-1, BLOCK // 8)
    return [int(block[0]) for block in blocks if block.min() == block.max()]


@pytest.mark.large
@pytest.mark.skipif(psutil.virtual_memory().available < 6 << 30, reason="needs 6 GiB of memory")
def test_a_model_of_three_gigabytes(nothing_left: None) -> None:
    models = source(Function(lambda: [numbered()])).with_parallelism(1).broadcast(via="channels")
    result = engine.execute(
        models.map(block_numbers).sink(Collect()), parallelism=2, progress="none"
    )
    assert result.output == [list(range(THREE_GIGABYTES // BLOCK))] * 2


@pytest.mark.ray
def test_a_job_moves_models_via_plasma(ray_cluster: None, nothing_left: None, folder: Path) -> None:
    models = source(Models(folder, {"weight": np.ones((2, 3))}, b"")).broadcast(via="plasma")
    result = engine.execute(
        models.map(digest).sink(Collect()), runtime="ray", parallelism=3, progress="none"
    )
    seen = sorted(result.output, key=lambda record: record[0])
    assert [record[0] for record in seen] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert seen[:3] == [(1, "digits", digests(folder))] * 3


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """A bucket of an S3 server on this machine: its URL and the endpoint."""
    (tmp_path / "s3" / "models").mkdir(parents=True)
    for name, value in S3_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    server = S3Server(
        tmp_path / "s3",
        access_key=S3_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        secret_key=S3_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
    yield "s3://models", server.endpoint
    server.close()


def test_s3_uploads_a_model_and_each_task_downloads_it(
    bucket: tuple[str, str], folder: Path, nothing_left: None
) -> None:
    url, endpoint = bucket
    settings = Settings(s3_url=f"{url}/some/where", s3_endpoint=endpoint)
    publisher, receiver = (ModelStore(task, None, JobConfig(name="try")) for task in (0, 1))
    sent = publisher.publish(pack(folder), "s3", settings=settings)
    publisher.finish()
    model = receiver.model(Descriptor.decode(sent.encode()))
    assert digest(model) == (1, "digits", digests(folder))
    assert all(data.readonly for data in model.files.values())
    tensors = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(True)}
    sent = publisher.publish(pack(tensors), "s3", settings=settings)
    found = receiver.model(sent).tensors()
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in tensors.items()
    }
    keys = [key for key, _ in S3.open(f"{url}/some/where", endpoint=endpoint).list()]
    assert len(keys) == 4
    assert all(key.startswith("try-") for key in keys)
    sent = publisher.publish(pack(b""), "s3", settings=settings)
    assert bytes(receiver.model(sent).value()) == b""


def test_a_model_that_is_in_s3_is_not_uploaded(bucket: tuple[str, str], folder: Path) -> None:
    url, endpoint = bucket
    store = S3.open(f"{url}/digits", endpoint=endpoint)
    for path in folder.rglob("*"):
        if path.is_file():
            store.put_file(path.relative_to(folder).as_posix(), str(path))
    stores = [ModelStore(task, None, JobConfig()) for task in (0, 1)]
    sent = stores[0].publish(pack(f"{url}/digits"), "s3", settings=Settings(s3_endpoint=endpoint))
    assert digest(stores[1].model(sent)) == (1, "digits", digests(folder))
    assert len(S3.open(url, endpoint=endpoint).list()) == 3
    one = pack(f"{url}/digits/config.json")
    sent = stores[0].publish(one, "s3", settings=Settings(s3_endpoint=endpoint))
    model = stores[1].model(sent)
    assert (model.name, model.layout.kind, bytes(model.buffer)) == ("config.json", "file", b"{}")


def test_what_is_not_in_s3_is_an_error_that_names_it(bucket: tuple[str, str]) -> None:
    url, endpoint = bucket
    settings = Settings(s3_endpoint=endpoint)
    store = ModelStore(0, None, JobConfig(), task="publish[0]")
    with pytest.raises(ModelError, match="no objects below 's3://models/missing'"):
        store.publish(pack(f"{url}/missing"), "s3", settings=settings)
    with pytest.raises(EngineError, match="model 'x' version 1 could not be published in task pub"):
        store.publish(pack("s3://no-such-bucket/x"), "s3", 1, settings=settings)
    with pytest.raises(ConfigError, match="s3_url is None"):
        store.publish(pack(b"weights"), "s3", settings=settings)
    layout = pack(b"weights").layout
    reference = f'{{"url":"{url}/gone","endpoint":"{endpoint}","share":false}}'.encode()
    gone = store.model(Descriptor("s3", 3, "gone", layout, 7, 1, reference))
    with pytest.raises(EngineError, match="model 'gone' version 3 could not be received in task"):
        gone.wait()


def test_wrong_credentials_are_an_error_without_the_secret(
    bucket: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, endpoint = bucket
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a wrong secret")
    store = ModelStore(0, None, JobConfig())
    settings = Settings(s3_url=url, s3_endpoint=endpoint)
    with pytest.raises(EngineError, match="could not be published") as raised:
        store.publish(pack(b"weights"), "s3", settings=settings)
    assert "wrong secret" not in str(raised.value)


class Nodes:
    """Task 0 publishes on a node of its own with task 1; tasks 2 and 3 are on another node."""

    def __init__(self, folder: Path) -> None:
        paths = [str(folder / f"{task}.blob") for task in range(4)]
        self.nodes = [
            BlobNode("tcp://127.0.0.1:0", path, reconnect_timeout_seconds=1.0, bypass_seconds=0.3)
            for path in paths
        ]
        origin, _, leader, _ = (node.endpoint for node in self.nodes)
        parts = [
            BlobRole(followers=1),
            BlobRole(leaders=((0, 0),)),
            BlobRole(followers=1),
            BlobRole(leaders=((0, 2),)),
        ]
        with ThreadPoolExecutor(4) as pool:
            joined = [
                pool.submit(
                    node.connect,
                    [leader] if task == 0 else [],
                    [origin] if task == 2 else [],
                    [(origin_task, paths[by]) for origin_task, by in part.leaders],
                    part.followers,
                    10.0,
                )
                for task, (node, part) in enumerate(zip(self.nodes, parts, strict=True))
            ]
            for future in joined:
                future.result()
        for node in self.nodes:
            node.unlink()
        self.stores = [
            ModelStore(task, node, JobConfig(), part, task=f"task[{task}]", where=f"n{task // 2}")
            for task, (node, part) in enumerate(zip(self.nodes, parts, strict=True))
        ]

    def close(self) -> None:
        for store, node in zip(self.stores, self.nodes, strict=True):
            store.close()
            node.close()
        del store, node
        self.stores, self.nodes = [], []  # their listening sockets go with them


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    joined = Nodes(tmp_path)
    yield joined
    joined.close()


def addresses(model: Model) -> int:
    return int(np.frombuffer(model.buffer, np.uint8).ctypes.data)


@pytest.mark.parametrize("kind", ["folder", "array", "tensors", "table", "bytes", "nothing"])
def test_channels_give_every_task_what_was_published(
    kind: str, nothing_left: None, nodes: Nodes, folder: Path
) -> None:
    values: dict[str, Any] = {
        "folder": folder,
        "array": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "tensors": {"a": np.arange(3), "b": np.ones((2, 2), "f4")},
        "table": pa.table({"a": [1, 2, 3]}),
        "bytes": np.random.default_rng(1).bytes(3_000_001),
        "nothing": b"",
    }
    value = values[kind]
    publisher, *receivers = nodes.stores
    with ThreadPoolExecutor(1) as pool:
        published = pool.submit(publisher.publish, pack(value), "channels")
        sent = Descriptor.decode(published.result(60).encode())
        models = [store.model(sent).wait(60) for store in receivers]
        pool.submit(publisher.finish).result(60)
    for model in models:
        found = model.value()
        if kind == "folder":
            assert digest(model) == (1, "digits", digests(folder))
        elif kind == "table":
            assert found.equals(value)
        elif kind == "tensors":
            assert {name: a.tolist() for name, a in found.items()} == {
                name: a.tolist() for name, a in value.items()
            }
        else:
            assert bytes(found) == bytes(value)
            assert memoryview(found).readonly
        assert model.size == 0 or addresses(model) % 64 == 0


def is_nothing_held(nodes: Nodes) -> bool:
    return not any(node.statistics().held_bytes for node in nodes.nodes)


def test_memory_is_free_once_no_one_holds_a_model(nodes: Nodes) -> None:
    publisher, *receivers = nodes.stores
    for version in range(1, 4):
        sent = publisher.publish(pack(bytes([version]) * 2_000_000), "channels")
        for store in receivers:
            assert store.model(sent).wait(60).buffer[-1] == version
    sent = publisher.publish(pack(bytes(2_000_000)), "channels")
    views = [store.model(sent).wait(60).value() for store in receivers]
    publisher.finish()
    assert [view[0] for view in views] == [0, 0, 0]
    del views
    gc.collect()
    wait_until(lambda: is_nothing_held(nodes))


def test_a_model_that_one_task_never_reads_is_freed_all_the_same(nodes: Nodes) -> None:
    publisher, *receivers = nodes.stores
    for _ in range(3):
        sent = publisher.publish(pack(bytes(2_000_000)), "channels")
        for store in receivers[1:]:
            store.model(sent).wait(60)
        receivers[0].model(sent)
    publisher.finish()
    gc.collect()

    def is_freed() -> bool:
        for store in receivers:
            store.finish()
        return is_nothing_held(nodes)

    wait_until(is_freed)


def test_a_node_that_is_gone_is_an_error_of_the_publisher_alone(nodes: Nodes) -> None:
    publisher, neighbour, *_ = nodes.stores
    for task in (2, 3):
        nodes.stores[task].close()
        nodes.nodes[task].close()
    sent = []

    def publish() -> None:
        for _ in range(3):
            sent.append(publisher.publish(pack(bytes(2_000_000)), "channels"))

    with pytest.raises(ChannelLost, match=r"model 'model' version 3 could not be published in"):
        publish()
    assert [len(neighbour.model(one).wait(60).buffer) for one in sent] == [2_000_000] * 2


def test_s3_shared_per_node_is_downloaded_once_for_each(
    bucket: tuple[str, str], nodes: Nodes, folder: Path
) -> None:
    url, endpoint = bucket
    publisher, *receivers = nodes.stores
    settings = Settings(s3_url=url, s3_endpoint=endpoint, share_per_node=True)
    sent = publisher.publish(pack(folder), "s3", settings=settings)
    for store in receivers:
        assert digest(store.model(sent).wait(60)) == (1, "digits", digests(folder))
    publisher.finish()


def test_s3_that_is_gone_fails_every_task_of_the_node(
    bucket: tuple[str, str], nodes: Nodes
) -> None:
    url, endpoint = bucket
    layout = pack(b"weights").layout
    reference = f'{{"url":"{url}/gone","endpoint":"{endpoint}","share":true}}'.encode()
    sent = Descriptor("s3", 3, "gone", layout, 0, 1, reference)
    for task in (2, 3):
        with pytest.raises((EngineError, ChannelLost), match="model 'gone' version 3 could not be"):
            nodes.stores[task].model(sent).wait(60)


@pytest.mark.once_on_ray
@pytest.mark.parametrize("via", ["channels", "s3", "s3 shared"])
def test_a_job_moves_models(
    via: str, runtime: str, nothing_left: None, bucket: tuple[str, str], folder: Path
) -> None:
    url, endpoint = bucket
    settings: dict[str, Any] = (
        {}
        if via == "channels"
        else {"s3_url": url, "s3_endpoint": endpoint, "share_per_node": via == "s3 shared"}
    )
    models = source(Models(folder, {"weight": np.ones((2, 3))}, b"", folder / "empty", folder))
    published = models.broadcast(via=via.split()[0], **settings)  # type: ignore[call-overload]
    result = engine.execute(
        published.map(digest).sink(Collect()), runtime=runtime, parallelism=3, progress="none"
    )
    seen = sorted(result.output, key=lambda record: record[0])
    assert [record[0] for record in seen] == [n for n in range(1, 6) for _ in range(3)]
    assert seen[:3] == [(1, "digits", digests(folder))] * 3
    assert seen[-3:] == [(5, "digits", digests(folder))] * 3
    assert seen[9:12] == [(4, "empty", {"empty": hashlib.sha256(b"").hexdigest()})] * 3


def test_tasks_of_one_node_map_one_copy(nodes: Nodes) -> None:
    publisher, *receivers = nodes.stores
    sent = publisher.publish(pack(bytes(2_000_000)), "channels")
    models = [store.model(sent).wait(60) for store in receivers]
    neighbour, leader, follower = (inode(addresses(model)) for model in models)
    assert leader == follower != neighbour
    publisher.finish()


def inode(address: int) -> str:
    """Of the file that is mapped at this address of the process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, _, device, number, *name = line.split(maxsplit=5)
        begin, end = (int(bound, 16) for bound in span.split("-"))
        if begin <= address < end:
            assert "memfd" in name[0], line
            return f"{device} {number}"
    raise AssertionError(f"nothing is mapped at {address:x}")


def test_a_model_in_s3_goes_through_channels_too(
    bucket: tuple[str, str], nodes: Nodes, folder: Path
) -> None:
    url, endpoint = bucket
    store = S3.open(f"{url}/digits", endpoint=endpoint)
    for path in folder.rglob("*"):
        if path.is_file():
            store.put_file(path.relative_to(folder).as_posix(), path)
    publisher, *receivers = nodes.stores
    sent = publisher.publish(
        pack(f"{url}/digits"), "channels", settings=Settings(s3_endpoint=endpoint)
    )
    for receiver in receivers:
        assert digest(receiver.model(sent).wait(60)) == (1, "digits", digests(folder))
    publisher.finish()
