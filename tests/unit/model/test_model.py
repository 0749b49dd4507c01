"""A model in the task that got it: waiting, views, and errors."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from engine.errors import ModelError
from engine.model import Descriptor, Layout, MemoryLanding, Model, Package, pack
from tests.generated_model import generated

Arrived = Callable[[Package], Model]


def descriptor(package: Package, reference: bytes = b"") -> Descriptor:
    return Descriptor("s3", 3, "tiny", package.layout, 5, 2, reference, 17)


def test_a_model_waits_only_when_its_bytes_are_read() -> None:
    package, there = pack(b"weights"), threading.Event()

    def fetch(timeout: float | None) -> Any:
        if not there.wait(timeout):
            raise TimeoutError("not yet")
        return package.contiguous

    model = Model(descriptor(package), fetch)
    assert (model.version, model.name, model.size, model.published_ns) == (3, "tiny", 7, 17)
    with pytest.raises(TimeoutError):
        model.wait(0.01)
    assert model.ready_ns is None
    there.set()
    assert model.wait(60) is model
    assert model.ready_ns is not None
    assert bytes(model.buffer) == b"weights"


def test_its_bytes_are_fetched_once_by_many_threads() -> None:
    package, calls = pack(b"weights"), []

    def fetch(timeout: float | None) -> Any:
        calls.append(timeout)
        return package.contiguous

    model = Model(descriptor(package), fetch)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(bytes(model.buffer))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(calls)) == ([b"weights"] * 8, 1)


def test_what_failed_once_fails_again_and_is_not_asked_twice() -> None:
    calls = []

    def fetch(timeout: float | None) -> Any:
        calls.append(timeout)
        raise ModelError("lost")

    model = Model(descriptor(pack(b"weights")), fetch)
    for _ in range(2):
        with pytest.raises(ModelError, match="lost"):
            model.buffer  # noqa: B018
    assert len(calls) == 1


def test_too_few_bytes_are_an_error() -> None:
    model = Model(descriptor(pack(b"weights")), lambda timeout: b"weigh")
    with pytest.raises(ModelError, match="arrived with 5 bytes, expected 7"):
        model.value()


def test_views_keep_the_memory_after_release(arrived: Arrived) -> None:
    class Memory(bytearray):
        pass

    memory = Memory(np.arange(10.0).tobytes())
    gone = weakref.ref(memory)
    package = pack(np.arange(10.0))
    model = Model(descriptor(package), lambda timeout, memory=memory: memory)  # type: ignore[misc]
    array = model.value()
    model.release()
    del memory
    with pytest.raises(ModelError, match="was released in this task"):
        model.buffer  # noqa: B018
    assert gone() is not None
    assert (array == np.arange(10.0)).all()
    del array
    gc.collect()
    assert gone() is None


def test_tensors_are_those_of_all_safetensors_files(arrived: Arrived) -> None:
    one = safetensors.numpy.save({"a": np.ones(2)})
    two = safetensors.numpy.save({"b": np.zeros(3, "i2")})
    files = {"x/1.safetensors": one, "2.safetensors": two, "config.json": b"{}"}
    model = arrived(
        generated({name: (len(data), lambda d=data: [d]) for name, data in files.items()})
    )  # type: ignore[misc]
    assert sorted(model.tensors()) == ["a", "b"]
    twice = {"1.safetensors": one, "2.safetensors": one}
    model = arrived(
        generated({name: (len(data), lambda d=data: [d]) for name, data in twice.items()})
    )  # type: ignore[misc]
    with pytest.raises(ModelError, match="tensor 'a' is in two files"):
        model.tensors()
    with pytest.raises(ModelError, match=r"without .*safetensors"):
        arrived(pack(b"weights")).tensors()


def test_an_empty_state_dict_and_a_model_of_no_bytes_arrive(arrived: Arrived) -> None:
    assert arrived(pack({})).value() == {}
    empty = arrived(generated({}))
    assert (empty.size, dict(empty.files), bytes(empty.buffer)) == (0, {}, b"")


@pytest.mark.parametrize("leave", [pickle.dumps, copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_model_stays_in_its_task(leave: Callable[[Any], Any], arrived: Arrived) -> None:
    with pytest.raises(TypeError, match="a Model cannot travel"):
        leave(arrived(pack(b"weights")))


def test_a_descriptor_arrives_as_it_was_sent() -> None:
    layout = Layout.of("folder", [("caf\udce9/ü", 3), ("z", 0)], {"folders": ["empty"]})
    sent = Descriptor("plasma", 2, "näme", layout, 7, 1, b"\0\xff{}", 123)
    assert Descriptor.decode(sent.encode()) == sent


def test_bytes_that_are_no_descriptor_are_refused() -> None:
    sent = descriptor(pack(np.ones(3)), b"s3").encode()
    for end in range(len(sent) - 2):
        with pytest.raises(ModelError, match="descriptor"):
            Descriptor.decode(sent[:end])
    for wrong, right in [
        (b'"via":"ftp"', b'"via":"s3"'),
        (b'"size":-5', b'"size":24'),
        (b'"version":"3"', b'"version":3'),
        (b'"files":17', b'"files":[["model.npy",0,24]]'),
        (b'"files":[["../up",0,24]]', b'"files":[["model.npy",0,24]]'),
        (b'"attributes":[]', b'"attributes":{"dtype":"<f8","shape":[3],"order":"C"}'),
        (b'"kind":{}', b'"kind":"array"'),
    ]:
        assert right in sent
        head = sent[4:-2].replace(right, wrong)
        with pytest.raises(ModelError):
            Descriptor.decode(len(head).to_bytes(4, "little") + head)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"dtype": "O", "shape": [3], "order": "C"},
        {"dtype": "f8", "shape": [4], "order": "C"},
        {"dtype": "f8", "shape": "x", "order": "C"},
        {"dtype": "f8", "shape": [3], "order": 9},
    ],
    ids=str,
)
def test_attributes_that_fit_no_array_are_an_error(attributes: dict[str, Any]) -> None:
    blob = bytes(24)
    layout = Layout.of("array", [("model.npy", 24)], attributes)
    model = Model(Descriptor("s3", 1, "tiny", layout, 0, 1), lambda timeout: blob)
    with pytest.raises(ModelError, match="is no array"):
        model.value()


def test_memory_that_is_not_full_is_no_blob() -> None:
    landing = MemoryLanding(10)
    landing.write(b"12345")
    with pytest.raises(ModelError, match="5 bytes were written, expected 10"):
        landing.finish()
