"""A published value as one blob: `pack(value)` lays it out, reads no file and copies no array.

A `Package` knows the place and the source of each part; `write_to` moves the bytes once, into the
backend's memory.

    >>> package = pack({"weight": memoryview(b"abcd")})
    >>> package.layout.kind, len(package.parts)
    ('tensors', 1)
    >>> landing = MemoryLanding(package.layout.size)
    >>> package.write_to(landing)
    >>> bytes(landing.finish()[-4:])
    b'abcd'
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.errors import ModelError
from engine.model import safetensors
from engine.model.folder import FileOnDisk, list_folder, read_status
from engine.model.landing import MemoryLanding
from engine.model.layout import Kind, Layout

Buffer = Any  # collections.abc.Buffer is newer than the Python we support


class Landing(Protocol):
    """Memory of a fixed size that is filled in order; `engine.network.Landing` is one."""

    def write(self, data: Buffer, /) -> None:
        """Append these bytes."""

    def write_file(self, path: str, offset: int = 0, length: int | None = None) -> None:
        """Append this range of a file; an error if the file has less."""

    def view(self) -> memoryview:
        """The whole memory, writable: fill the bytes behind the written ones, then `advance`."""

    def advance(self, count: int, /) -> None:
        """Count this many further bytes of `view` as written."""


@dataclass(frozen=True)
class Part:
    """A file of the layout, and exactly one source of its `size` bytes.

    `file` is on disk. `buffers` gives the bytes in any number of pieces, each time it is called.
    `fill` writes them into memory of that size; then all parts of the package have a `fill`.
    """

    name: str
    offset: int
    size: int
    file: FileOnDisk | None = None
    buffers: Callable[[], Iterable[Buffer]] | None = None
    fill: Callable[[memoryview], None] | None = None


@dataclass(frozen=True)
class Package:
    """A model before its transfer. `name` is its default name.

    A package of S3 has a `url`, `s3://bucket/prefix`, and an empty layout until its objects are
    listed.
    """

    name: str
    layout: Layout
    parts: tuple[Part, ...]
    url: str | None = None

    @property
    def contiguous(self) -> memoryview | None:
        """The blob itself, if it is already in memory in one piece."""
        if len(self.parts) == 1 and isinstance(self.parts[0].buffers, _Held):
            held = self.parts[0].buffers.pieces
            return held[0] if len(held) == 1 else None
        return None

    def write_to(self, landing: Landing) -> None:
        """Write all parts in order, with zeros between.

        Raises ModelError, which names the file, if a file cannot be read or has changed since
        packing.
        """
        if any(part.fill is not None for part in self.parts):
            self._fill(landing)
            return
        end = 0
        for part in self.parts:
            if part.offset > end:
                landing.write(bytes(part.offset - end))
            self._write(part, landing)
            end = part.offset + part.size

    def _fill(self, landing: Landing) -> None:
        """Through the view, which begins with zeros: a landing is written or viewed, never both."""
        end = 0
        with landing.view() as view:
            for part in self.parts:
                assert part.fill is not None, "the parts of a package are filled all, or none is"
                if part.size:
                    with view[part.offset : part.offset + part.size] as target:
                        part.fill(target)
                landing.advance(part.offset + part.size - end)
                end = part.offset + part.size

    def _write(self, part: Part, landing: Landing) -> None:
        if part.file is not None:
            if part.size:
                part.file.check_unchanged()
                try:
                    landing.write_file(part.file.path, 0, part.size)
                except OSError as error:
                    part.file.check_unchanged()  # says more than "unexpected end"
                    raise ModelError(
                        f"file {part.file.path!r} of model {self.name!r} cannot be read: {error}"
                    ) from error
            part.file.check_unchanged()
        elif part.buffers is not None:
            written = 0
            for buffer in part.buffers():
                view = memoryview(buffer).cast("B")
                written += len(view)
                if written > part.size:
                    break
                landing.write(view)
            if written != part.size:
                raise ModelError(
                    f"part {part.name!r} of model {self.name!r} gave "
                    f"{'more' if written > part.size else f'{written} bytes'}, "
                    f"expected its {part.size} bytes"
                )


def pack(value: Any, name: str | None = None) -> Package:
    """Lay out a value to publish; where `name` is None, the value gives the name.

    - `str` or `Path`: a file, or a folder with all it holds. Links are followed, empty folders
      kept. A task with credentials lists `s3://bucket/prefix` later.
    - `bytes`, `bytearray`, `memoryview`; a NumPy array of any dtype without objects; a
      `pyarrow.Table` or `RecordBatch` (which arrives as a Table).
    - a state dict, `{name: array}`: in the safetensors layout.
    - a `Package`, as it is.

    Buffers are not copied and must keep their content until they are published; only arrays that
    are not contiguous are copied. Raises ModelError for other values, and for files that cannot be
    read.
    """
    if isinstance(value, Package):
        return value
    if isinstance(value, str) and value.startswith("s3://"):
        return Package(name or _last_part(value), Layout.of("folder", []), (), url=value)
    if isinstance(value, str | Path):
        return _pack_path(Path(value), name)
    if isinstance(value, bytes | bytearray | memoryview):
        return _pack_bytes(value, name)
    if isinstance(value, Mapping):
        return _held(name, "tensors", "model.safetensors", safetensors.write(value), {})
    numpy, pyarrow = sys.modules.get("numpy"), sys.modules.get("pyarrow")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _pack_array(value, name)
    if pyarrow is not None and isinstance(value, pyarrow.Table | pyarrow.RecordBatch):
        return _pack_table(value, name)
    raise ModelError(
        f"a model is {type(value).__name__} {value!r:.80}, expected a path, bytes, a NumPy array, "
        "an Arrow table or a dict of arrays",
        "save it to a folder and publish the folder; a torch module has .state_dict()",
    )


def _pack_path(path: Path, name: str | None) -> Package:
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the link's name
    name = name or path.name or "model"
    if path.is_dir():
        files, empty = list_folder(path)
        layout = Layout.of(
            "folder",
            [(relative, file.size) for relative, file in files],
            {"folders": empty} if empty else {},
        )
    else:
        files = [(path.name, read_status(path))]
        layout = Layout.of("file", [(path.name, files[0][1].size)])
    parts = tuple(
        Part(place.name, place.offset, place.size, file=file)
        for place, (_, file) in zip(layout.files, files, strict=True)
    )
    return Package(name, layout, parts)


def _pack_bytes(value: bytes | bytearray | memoryview, name: str | None) -> Package:
    view = memoryview(value)
    flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    return _held(name, "bytes", "model.bin", [flat], {})


def _pack_array(array: Any, name: str | None) -> Package:
    import numpy as np

    from engine.record.numpy import dtype_text

    if type(array) not in (np.ndarray, np.memmap):
        raise ModelError(
            f"a model is an array of the type {type(array).__name__}, expected numpy.ndarray",
            "numpy.asarray(value) gives its data; publish a mask in a dict beside it",
        )
    try:
        dtype = dtype_text(array.dtype)
    except TypeError as error:
        raise ModelError(
            f"a model is an array of dtype {array.dtype}, expected one without objects",
            "convert it with astype()",
        ) from error
    order = "F" if array.flags.fnc else "C"
    flat = np.ascontiguousarray(array.T if order == "F" else array).reshape(-1)
    data = [flat.view("u1").data] if flat.nbytes else [memoryview(b"")]
    attributes = {"dtype": dtype, "shape": list(array.shape), "order": order}
    return _held(name, "array", "model.npy", data, attributes)


def _pack_table(table: Any, name: str | None) -> Package:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return _held(name, "table", "model.arrow", [memoryview(sink.getvalue())], {})


def _held(
    name: str | None, kind: Kind, file: str, pieces: list[memoryview], attributes: dict[str, Any]
) -> Package:
    """A package of one part whose bytes are in memory."""
    layout = Layout.of(kind, [(file, sum(map(len, pieces)))], attributes)
    part = Part(file, 0, layout.size, buffers=_Held(tuple(pieces)))
    return Package(name or "model", layout, (part,))


@dataclass(frozen=True)
class _Held:
    """Bytes in memory, in pieces."""

    pieces: tuple[memoryview, ...]

    def __call__(self) -> Iterable[memoryview]:
        return self.pieces


def _last_part(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2] or "model"


__all__ = ["Landing", "MemoryLanding", "Package", "Part", "pack"]
