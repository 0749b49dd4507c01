"""What can be published, and that it arrives as it was."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import ModelError
from engine.model import (
    ALIGNMENT,
    File,
    Layout,
    MemoryLanding,
    Model,
    Package,
    Part,
    pack,
)
from tests.generated_model import generated

Arrived = Callable[[Package], Model]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nested and empty files, an empty folder, and links."""
    root = tmp_path / "speech"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "nothing" / "here").mkdir(parents=True)
    (root / "config.json").write_bytes(b"{}")
    (root / "empty").write_bytes(b"")
    (root / "deep" / "er" / "weights").write_bytes(bytes(range(256)) * 3)
    (root / "deep" / "last-empty").write_bytes(b"")
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (blobs / "0123").write_bytes(b"linked")
    (root / "vocabulary").symlink_to(blobs / "0123")
    (root / "shared").symlink_to(blobs)
    return root


def test_a_folder_arrives_with_its_nested_and_empty_files_and_what_is_linked(
    folder: Path, arrived: Arrived
) -> None:
    model = arrived(pack(str(folder)))
    assert model.name == "speech"
    assert {name: bytes(data) for name, data in model.files.items()} == {
        "config.json": b"{}",
        "deep/er/weights": bytes(range(256)) * 3,
        "deep/last-empty": b"",
        "empty": b"",
        "shared/0123": b"linked",
        "vocabulary": b"linked",
    }
    assert all(file.offset % ALIGNMENT == 0 for file in model.layout.files)


def test_a_folder_is_saved_as_it_was(folder: Path, tmp_path: Path, arrived: Arrived) -> None:
    model = arrived(pack(folder))
    saved = model.save(tmp_path / "new" / "copy")
    assert saved == tmp_path / "new" / "copy"
    assert tree(saved) == tree(folder)
    assert list(saved.parent.iterdir()) == [saved]
    with pytest.raises(ModelError, match="does not exist yet"):
        model.save(saved)
    assert list(saved.parent.iterdir()) == [saved]
    assert tree(saved) == tree(folder)


def test_a_file_arrives(folder: Path, arrived: Arrived) -> None:
    model = arrived(pack(folder / "vocabulary"))
    assert (model.name, model.layout.kind, bytes(model.buffer)) == ("vocabulary", "file", b"linked")
    assert list(model.files) == ["vocabulary"]


@pytest.mark.parametrize(
    "value",
    [b"bytes", bytearray(b"bytes"), memoryview(b"-b-y-t-e-s")[1::2], b""],
    ids=["bytes", "bytearray", "memoryview", "nothing"],
)
def test_bytes_arrive(value: Any, arrived: Arrived) -> None:
    model = arrived(pack(value))
    assert bytes(model.value()) == bytes(value)
    assert model.value().readonly


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24.0).reshape(2, 3, 4)[:, ::2, ::-1],
        np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
        np.array(7, dtype=">i2"),
        np.empty((0, 3), dtype="float32"),
        np.array(["a", "bcd"]),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([True, False]),
        np.array([1 + 2j]),
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_an_array_arrives_with_its_dtype_shape_and_order(array: Any, arrived: Arrived) -> None:
    found = arrived(pack(array)).value()
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.fnc == array.flags.fnc
    assert not found.flags.writeable
    assert found.flags.aligned


@pytest.mark.parametrize("rows", [0, 3])
def test_a_table_arrives(rows: int, arrived: Arrived) -> None:
    table = pa.table({"a": list(range(rows)), "b": ["x"] * rows})
    assert arrived(pack(table.slice(0, rows))).value().equals(table)


def test_what_arrives_is_a_view_of_the_one_blob(arrived: Arrived) -> None:
    array = np.arange(100, dtype="f8")
    model = arrived(pack(array))
    blob = np.frombuffer(model.buffer, np.uint8)
    assert np.shares_memory(model.value(), blob)
    tensors = arrived(pack({"a": array, "b": array[:3]}))
    blob = np.frombuffer(tensors.buffer, np.uint8)
    assert all(np.shares_memory(tensor, blob) for tensor in tensors.tensors().values())
    table = arrived(pack(pa.table({"a": pa.array(array)})))
    start = np.frombuffer(table.buffer, np.uint8).ctypes.data
    column = table.value().column("a").chunk(0).buffers()[1]
    assert start <= column.address < start + table.size


def test_an_array_and_bytes_are_packed_without_a_copy() -> None:
    array = np.arange(10.0)
    blob = pack(array).contiguous
    assert blob is not None
    assert np.shares_memory(np.frombuffer(blob, "f8"), array)
    fortran = np.asfortranarray(np.ones((3, 4)))
    blob = pack(fortran).contiguous
    assert blob is not None
    assert np.shares_memory(np.frombuffer(blob, "f8"), fortran)
    package = pack({"a": array})
    assert package.contiguous is None
    assert package.parts[0].buffers is not None
    _, data = package.parts[0].buffers()
    assert np.shares_memory(np.frombuffer(data, "f8"), array)


def test_generated_bytes_are_made_when_they_are_written(arrived: Arrived) -> None:
    made = []

    def buffers() -> Any:
        for number in range(3):
            made.append(number)
            yield bytes([number]) * 10

    package = generated({"weights": (30, buffers), "nothing": (0, lambda: ())}, name="synthetic")
    assert made == []
    model = arrived(package)
    assert made == [0, 1, 2]
    assert bytes(model.files["weights"]) == b"\0" * 10 + b"\1" * 10 + b"\2" * 10


def test_parts_that_fill_memory_are_filled_in_place_and_in_order() -> None:
    layout = Layout.of("folder", [("a", 3), ("empty", 0), ("b", 2)])
    fills = {"a": b"one", "b": b"22"}

    def part(file: File) -> Part:
        def fill(view: memoryview) -> None:
            view[:] = fills[file.name]

        return Part(file.name, file.offset, file.size, fill=fill)

    class ViewedLanding(MemoryLanding):
        def write(self, data: Any, /) -> None:
            raise AssertionError("a landing is written or viewed, never both")

    landing = ViewedLanding(layout.size)
    Package("model", layout, tuple(map(part, layout.files))).write_to(landing)
    assert bytes(landing.finish()) == b"one" + bytes(61) + b"22"


@pytest.mark.parametrize("size", [29, 31])
def test_generated_bytes_of_another_size_are_an_error(size: int, arrived: Arrived) -> None:
    package = generated({"weights": (size, lambda: (bytes(10) for _ in range(3)))})
    with pytest.raises(ModelError, match=f"expected its {size} bytes"):
        arrived(package)


@pytest.mark.parametrize("content", [b"longer than it was", b"short", b"as longer"])
def test_a_file_that_changes_is_an_error(content: bytes, tmp_path: Path, arrived: Arrived) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"as it was")
    os.utime(path, ns=(1, 1))
    package = pack(path)
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"weights' changed while the model was read[\s\S]*rename"):
        arrived(package)


def test_a_file_that_is_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(1000))
    package = pack(path)

    class Cut:
        def write_file(self, path: str, offset: int, length: int) -> None:
            os.truncate(path, 10)
            raise OSError("unexpected end")

    with pytest.raises(ModelError, match="has 10 bytes, and had 1000"):
        package.write_to(Cut())  # type: ignore[arg-type]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    root = tmp_path / "model"
    root.mkdir()
    with pytest.raises(ModelError, match="missing' of a model cannot be read: No such file"):
        pack(root / "missing")
    (root / "dangling").symlink_to(root / "nowhere")
    with pytest.raises(ModelError, match="dangling' of a model cannot be read: No such file"):
        pack(root)
    (root / "dangling").unlink()
    (root / "circle").symlink_to(root)
    with pytest.raises(ModelError, match="circle' of a model leads back"):
        pack(root)
    (root / "circle").unlink()
    os.mkfifo(root / "pipe")
    with pytest.raises(ModelError, match="pipe' is neither a file nor a folder"):
        pack(root)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "secret").chmod(0)
    with pytest.raises(ModelError, match="secret' of a model cannot be read: Permission denied"):
        pack(tmp_path)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (7, "a model is int 7"),
        (None, "NoneType"),
        (np.array([object()]), "without objects"),
        (np.ma.masked_array([1], [True]), "MaskedArray"),
        ({"a": np.array([object()])}, "tensor 'a' is ndarray of dtype object"),
        ({"a": "text"}, "tensor 'a' is str of dtype <U4"),
        ({1: np.zeros(1)}, "a tensor is named 1"),
        ({"__metadata__": np.zeros(1)}, "__metadata__"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_model_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        pack(value)


def test_a_model_in_s3_is_listed_later() -> None:
    package = pack("s3://bucket/models/digits/")
    assert (package.name, package.url) == ("digits", "s3://bucket/models/digits/")


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../b", "a//b", "", "a/", "a\0b", 3])
def test_a_layout_does_not_lead_out_of_its_folder(name: Any) -> None:
    with pytest.raises(ModelError, match="a relative path"):
        Layout("folder", 0, (File(name, 0, 0),))
    with pytest.raises(ModelError, match="a relative path"):
        Layout("folder", 0, (), {"folders": [name]})


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ([("a", 0, 10), ("b", 0, 10)], 10),
        ([("a", 0, 10), ("a", 64, 10)], 74),
        ([("a", 8, 10)], 18),
        ([("a", 0, 10)], 11),
        ([("a", 0, -1)], -1),
    ],
)
def test_a_layout_of_nonsense_is_refused(files: list[Any], size: int) -> None:
    with pytest.raises(ModelError):
        Layout("folder", size, tuple(File(*file) for file in files))


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        os.path.relpath(Path(path, name), root): (
            None if name in folders else Path(path, name).read_bytes()
        )
        for path, folders, files in os.walk(root, followlinks=True)
        for name in (*folders, *files)
    }
