"""Any state dict and any folder comes out as it went in; any bytes are refused with an error."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.errors import ModelError
from engine.model import ALIGNMENT, Descriptor, MemoryLanding, Model, Package, pack
from engine.model import safetensors as ours

dtypes = st.sampled_from(["?", "u1", "<i2", "f2", ">u4", "f4", "i8", ">f8", "c8"])
shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
state_dicts = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
        lambda name: name != "__metadata__"
    ),
    dtypes.flatmap(lambda dtype: arrays.arrays(dtype, shapes)),
    max_size=6,
)
names = st.text(st.sampled_from("ab.ü-"), min_size=1, max_size=3).filter(
    lambda name: name not in (".", "..")
)
folders = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map("/".join),
    st.one_of(st.none(), st.binary(max_size=200)),  # None is an empty folder
    max_size=8,
)


def arrived(package: Package) -> Model:
    landing = MemoryLanding(package.layout.size)
    package.write_to(landing)
    blob = landing.finish()
    sent = Descriptor("s3", 1, package.name, package.layout, 0, 1)
    return Model(Descriptor.decode(sent.encode()), lambda timeout: blob)


@given(state_dicts)
def test_a_state_dict_comes_out_as_it_went_in_and_as_the_library_reads_it(
    tensors: dict[str, Any],
) -> None:
    model = arrived(pack(tensors))
    for found in (model.tensors(), safetensors.numpy.load(bytes(model.buffer))):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found[name].shape == tensor.shape
            assert found[name].dtype == tensor.dtype.newbyteorder("=")
            assert found[name].tobytes() == tensor.astype(found[name].dtype).tobytes()
    assert all(tensor.flags.aligned for tensor in model.tensors().values())


@given(st.data())
def test_a_damaged_file_is_refused_or_read_within_its_bytes(data: st.DataObject) -> None:
    blob = bytearray(b"".join(ours.write({"a": np.arange(3.0), "b": np.ones((2, 2), "i2")})))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    whole = memoryview(blob)[: data.draw(st.integers(0, len(blob)))]
    memory = np.frombuffer(blob, np.uint8)
    try:
        found = ours.read(whole)
    except ModelError:
        return
    for tensor in found.values():
        assert tensor.nbytes == 0 or np.shares_memory(tensor, memory)


@given(folders)
@example({"a": b"", "b/a": b"x", "b/b": None})
def test_a_folder_comes_out_as_it_went_in(content: dict[str, bytes | None]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "model")
        root.mkdir()
        for path, data in content.items():
            try:
                if data is None:
                    (root / path).mkdir(parents=True, exist_ok=True)
                else:
                    (root / path).parent.mkdir(parents=True, exist_ok=True)
                    (root / path).write_bytes(data)
            except OSError:
                continue  # it is a file where a folder should be, or the other way round
        model = arrived(pack(root))
        assert tree(model.save(Path(name, "copy"))) == tree(root)
        end = 0
        for file in model.layout.files:
            assert file.offset % ALIGNMENT == 0
            assert end <= file.offset < end + ALIGNMENT
            end = file.offset + file.size


@given(st.binary(max_size=300))
def test_any_bytes_are_a_descriptor_or_an_error(payload: bytes) -> None:
    for candidate in (payload, len(payload).to_bytes(4, "little") + payload):
        try:
            Descriptor.decode(candidate)
        except ModelError:
            continue


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
    }
