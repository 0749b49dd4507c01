"""The store of one worker, on a node without a network."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from engine.broadcast import ModelStore, Settings, check, use
from engine.config import JobConfig
from engine.errors import ConfigError, ModelError
from engine.graph.assembly import logical_graph
from engine.model import Descriptor, Model, pack
from engine.network import Batch, Cancelled, ChannelLost, DecodeError, EncodeError
from operators import source
from operators.sinks import Collect
from operators.sources import Models
from tests.generated_model import generated


@pytest.fixture
def used(store: ModelStore) -> Iterator[ModelStore]:
    use(store)
    yield store
    use(None)


def sent(descriptor: Descriptor) -> Any:
    """What a task decodes."""
    (model,) = Batch.from_list([descriptor]).to_list()
    return model


def test_a_descriptor_that_is_decoded_is_a_model_of_the_store(used: ModelStore) -> None:
    model = sent(used.publish(pack(b"weights"), "channels", 7, "tiny"))
    assert type(model) is Model
    assert (model.name, model.version, bytes(model.value())) == ("tiny", 7, b"weights")
    assert 0 < model.published_ns <= model.ready_ns


def test_two_handles_of_one_model_are_one(used: ModelStore, node: Any) -> None:
    descriptor = used.publish(pack(b"weights"), "channels")
    first, second = sent(descriptor), sent(descriptor)
    assert first is second
    assert bytes(first.buffer) == bytes(second.buffer)
    assert node.calls.count(("get", 1)) == 1


def test_a_model_that_was_let_go_of_is_not_to_be_had_again(used: ModelStore) -> None:
    descriptor = used.publish(pack(b"weights"), "channels")
    assert bytes(sent(descriptor).buffer) == b"weights"
    gc.collect()
    with pytest.raises(ModelError, match="was taken and let go of before in task publish"):
        sent(descriptor).wait()


def test_a_model_that_no_one_reads_is_taken_from_the_node(used: ModelStore, node: Any) -> None:
    first = used.publish(pack(b"first"), "channels")
    second = used.publish(pack(b"second"), "channels")
    late = node.blobs.pop((3, 1))  # still on its way
    sent(first)
    gc.collect()
    model = sent(second)
    node.blobs[3, 1] = late
    used.finish()
    assert list(node.blobs) == [(3, 2)]
    assert bytes(model.buffer) == b"second"


def test_two_models_are_on_their_way_at_most(store: ModelStore, node: Any) -> None:
    for _ in range(4):
        store.publish(pack(b"weights"), "channels")
    store.finish()
    steps = [call[:2] for call in node.calls]
    assert steps == [
        ("create", 1),
        ("create", 2),
        ("wait_delivered", 1),
        ("create", 3),
        ("wait_delivered", 2),
        ("create", 4),
        ("wait_delivered", 3),
        ("wait_delivered", 4),
    ]


def test_what_cannot_be_packed_is_given_up_and_named(store: ModelStore, node: Any) -> None:
    package = generated({"weights": (10, lambda: [b"short"])}, name="bad")
    with pytest.raises(ModelError) as raised:
        store.publish(package, "channels", 2)
    assert "model 'bad' version 2 could not be published in task publish[0] on node n1" in str(
        raised.value
    )
    assert "gave 5 bytes, expected its 10 bytes" in node.aborted[3, 1]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ChannelLost("node away"), ChannelLost),
        (Cancelled("the task was cancelled"), Cancelled),
        (MemoryError("full"), ModelError),
        (OSError(28, "No space left on device"), ModelError),
    ],
)
def test_errors_of_the_node_name_the_model_and_keep_what_they_are(
    error: Exception, kind: type[Exception], used: ModelStore, node: Any
) -> None:
    model = sent(used.publish(pack(b"weights"), "channels", 4, "tiny"))

    def fail(*arguments: Any) -> None:
        raise error

    node.get = node.create = node.wait_delivered = fail
    for act in (
        model.wait,
        used.finish,
        lambda: used.publish(pack(b"x"), "channels", 5, "tiny"),
    ):
        with pytest.raises(kind) as raised:
            act()
        assert type(raised.value) is kind
        assert kind is Cancelled or "in task publish[0] on node n1" in str(raised.value)
        assert str(error) in str(raised.value)


def test_a_model_that_is_late_may_be_waited_for_again(used: ModelStore, node: Any) -> None:
    descriptor = used.publish(pack(b"weights"), "channels", 4, "tiny")
    blob = node.blobs.pop((3, 1))
    model = sent(descriptor)
    with pytest.raises(TimeoutError, match="model 'tiny' version 4 could not be received"):
        model.wait(0.0)
    node.blobs[3, 1] = blob
    assert bytes(model.wait(1.0).buffer) == b"weights"


def test_decoding_without_a_store_says_so(store: ModelStore) -> None:
    batch = Batch.from_list([store.publish(pack(b"weights"), "channels")])
    with pytest.raises(DecodeError, match="a model arrived where no task runs"):
        batch.to_list()


def test_threads_have_stores_of_their_own(node: Any) -> None:
    """As the workers of engine.testing, which share a process."""
    stores = [ModelStore(task, node, JobConfig()) for task in (0, 1)]
    descriptor = stores[0].publish(pack(b"weights"), "channels")
    batch, found = Batch.from_list([descriptor]), {}
    both = threading.Barrier(2)

    def work(number: int) -> None:
        use(stores[number])
        both.wait(60)
        found[number] = batch.to_list()[0]
        both.wait(60)
        use(None)

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is stores[0].model(descriptor)
    assert found[1] is stores[1].model(descriptor)
    assert found[0] is not found[1]


def test_another_thread_uses_the_only_store(used: ModelStore) -> None:
    batch = Batch.from_list([used.publish(pack(b"weights"), "channels")])
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(batch.to_list()))
    thread.start()
    thread.join()
    assert bytes(found[0].buffer) == b"weights"


def test_a_model_is_no_record(used: ModelStore) -> None:
    model = sent(used.publish(pack(b"weights"), "channels"))
    with pytest.raises(EncodeError, match="a Model cannot travel in a record"):
        Batch.from_list([model])


def test_channels_without_a_node_is_an_error() -> None:
    with pytest.raises(ModelError, match="has no blob node"):
        ModelStore(0, None, JobConfig()).publish(pack(b"weights"), "channels")


def test_plasma_without_ray_is_refused_before_anything_starts() -> None:
    graph = logical_graph(source(Models(b"x")).broadcast(via="plasma").sink(Collect()))
    with pytest.raises(ConfigError, match=r"runtime is 'local', expected 'ray'[\s\S]*channels"):
        check(graph.operators, JobConfig())
    check(graph.operators, JobConfig(runtime="ray"))


@pytest.mark.parametrize(
    "settings",
    [
        {"s3_url": "bucket/prefix"},
        {"s3_url": "s3://"},
        {"s3_endpoint": "127.0.0.1:9000"},
        {"share_per_node": 1},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Settings(**settings)
