"""Our reader and writer of safetensors, beside the library's."""

import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from engine.errors import ModelError
from engine.model import safetensors as ours

DTYPES = ["?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", "c8"]


def joined(tensors: dict[str, Any]) -> bytes:
    return b"".join(ours.write(tensors))


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_is_as_the_library_has_it(dtype: str) -> None:
    tensors = {
        "matrix": np.arange(6).astype(dtype).reshape(2, 3),
        "scalar": np.array(1, dtype),
        "none": np.empty((0, 3), dtype),
    }
    written = joined(tensors)
    for found in (safetensors.numpy.load(written), ours.read(memoryview(written))):
        assert_equal(found, tensors)
    theirs = safetensors.numpy.save(tensors)
    assert_equal(ours.read(memoryview(theirs)), tensors)


def test_data_begin_aligned_and_every_tensor_is_aligned_to_its_type() -> None:
    written = np.frombuffer(
        joined({"a": np.ones(3, "i1"), "b": np.ones(3, "f8"), "c": np.ones(3, "f4")}), np.uint8
    )
    aligned = np.empty(len(written) + 64, np.uint8)
    start = -aligned.ctypes.data % 64
    aligned[start : start + len(written)] = written
    found = ours.read(memoryview(aligned)[start : start + len(written)])
    assert all(tensor.flags.aligned and not tensor.flags.writeable for tensor in found.values())
    assert found["b"].ctypes.data % 64 == 0


def test_orders_that_the_format_does_not_have_are_copied() -> None:
    big = np.arange(6, dtype=">i4").reshape(2, 3)
    found = ours.read(memoryview(joined({"big": big, "turned": big.T, "every": big[:, ::2]})))
    assert_equal(found, {"big": big, "turned": big.T, "every": big[:, ::2]})


def test_bfloat16_is_read_as_bits() -> None:
    header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    blob = len(header).to_bytes(8, "little") + header + b"\x80\x3f\x00\x40"
    found = ours.read(memoryview(blob))["a"]
    assert found.dtype == np.uint16
    assert ((found.astype("u4") << 16).view("f4") == [1.0, 2.0]).all()


def test_metadata_is_no_tensor() -> None:
    saved = safetensors.numpy.save({"a": np.ones(1)}, metadata={"format": "np"})
    assert list(ours.read(memoryview(saved))) == ["a"]


def test_an_array_of_another_library_is_taken() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(2, "f4")

    assert_equal(ours.read(memoryview(joined({"a": Tensor()}))), {"a": np.ones(2, "f4")})

    class Gradient:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise RuntimeError("requires grad")

    with pytest.raises(ModelError, match=r"requires grad[\s\S]*detach"):
        ours.write({"a": Gradient()})


def with_header(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: Any = "U8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x01\0\0",
        (1000).to_bytes(8, "little") + b"{}",
        b"\xff" * 16,
        with_header(b"not json"),
        with_header(b"[" * 100_000),
        with_header([]),
        with_header({"a": 3}, b"abcd"),
        with_header({"a": entry("F5")}, b"abcd"),
        with_header({"a": entry(["U8"])}, b"abcd"),
        with_header({"a": entry(shape=4)}, b"abcd"),
        with_header({"a": entry(shape=[-4])}, b"abcd"),
        with_header({"a": entry(shape=[5])}, b"abcd"),
        with_header({"a": entry(shape=[1] * 65)}, b"abcd"),
        with_header({"a": entry(shape=[True] * 4)}, b"abcd"),
        with_header({"a": entry(offsets=[0, 5])}, b"abcd"),
        with_header({"a": entry(offsets=[4, 0])}, b"abcd"),
        with_header({"a": entry(offsets=[0])}, b"abcd"),
        with_header({"a": entry(shape=[2**40, 2**40])}, b"abcd"),
        with_header({"a": entry(), "b": entry()}, b"abcd"),
        with_header({"a": entry(offsets=[1, 5])}, b"abcde"),
        with_header({"a": entry()}, b"abcde"),
    ],
    ids=range(22),
)
def test_what_is_no_safetensors_file_is_refused(blob: bytes) -> None:
    with pytest.raises(ModelError, match="weights"):
        ours.read(memoryview(blob), "weights")


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].shape == tensor.shape
        assert found[name].dtype == tensor.dtype.newbyteorder("=")
        assert (found[name] == tensor).all()


def test_a_tensor_of_a_newer_type_leaves_the_others_as_they_are() -> None:
    header = {"a": entry(), "b": entry("F4_NEW", (2, 4), (4, 8)), "c": entry("I32", (1,), (8, 12))}
    found = ours.read(memoryview(with_header(header, bytes(range(12)))), "weights")
    assert list(found["a"]) == [0, 1, 2, 3]
    assert found["c"].tolist() == [0x0B0A0908]
    assert set(found) == {"a", "b", "c"}
    assert len(found) == 3
    assert "b" in found
    for ask in (lambda: found["b"], lambda: found.get("b"), lambda: dict(found)):
        with pytest.raises(ModelError, match="tensor 'b' of weights is of dtype F4_NEW, expected"):
            ask()


@pytest.mark.parametrize("offsets", [(4, 9), (3, 8), (5, 8), (8, 4)])
def test_its_place_in_the_file_is_checked_all_the_same(offsets: tuple[int, int]) -> None:
    blob = with_header({"a": entry(), "b": entry("F4_NEW", (2,), offsets)}, bytes(8))
    with pytest.raises(ModelError, match="weights"):
        ours.read(memoryview(blob), "weights")
