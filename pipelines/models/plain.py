"""Models with unknown contents: loading reads all bytes, running computes a checksum."""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from engine.errors import ModelError
from engine.installation.cached import cached
from pipelines.models.kind import Answer, Kind

if TYPE_CHECKING:
    from engine.model import Model

Words = npt.NDArray[np.uint64]


class Plain(Kind):
    """A model as bytes: `load` sums all of them, `run` makes a checksum of the sums."""

    def load(self, model: Model) -> dict[str, Words]:
        """Sums over all bytes of each part; this reads every one of them."""
        return {name: fold(view) for name, view in parts(model).items()}

    def run(self, loaded: dict[str, Words]) -> Answer:
        """The checksum of names and sums."""
        checksum = 0
        for name in sorted(loaded):
            checksum = zlib.crc32(loaded[name].tobytes(), zlib.crc32(name.encode(), checksum))
        return Answer(f"{checksum:08x}", {"parts": len(loaded)})


@dataclass(frozen=True)
class Files(Plain):
    """A file or a folder on the Download task's node."""

    path: str

    def prepare(self, via: str) -> Iterator[Any]:
        """Yield its path."""
        yield Path(self.path)


@dataclass(frozen=True)
class Synthetic(Plain):
    """A folder of three files of pseudorandom bytes, made once on each machine."""

    size: int
    seed: int = 0

    def prepare(self, via: str) -> Iterator[Any]:
        """Yield the folder, and make it if it does not exist."""
        yield self.folder()

    def folder(self) -> Path:
        """Its folder."""
        return cached(f"models/synthetic-{self.size}-{self.seed}", self._make)

    def _make(self, folder: Path) -> None:
        head = json.dumps({"size": self.size, "seed": self.seed}).encode()[: self.size]
        (folder / "config.json").write_bytes(head)
        (folder / "weights").mkdir()
        left = self.size - len(head)
        random = np.random.Generator(np.random.SFC64(self.seed))
        for name, size in (("0.bin", left // 2), ("1.bin", left - left // 2)):
            with (folder / "weights" / name).open("wb") as file:
                for at in range(0, size, _BLOCK):
                    file.write(random.bytes(min(_BLOCK, size - at)))


@dataclass(frozen=True)
class Memory(Plain):
    """Pseudorandom bytes in the memory of the Download task, as one NumPy array."""

    size: int
    seed: int = 0

    def prepare(self, via: str) -> Iterator[Any]:
        """Yield the array, filled block by block."""
        array = np.empty(self.size, np.uint8)
        random = np.random.Generator(np.random.SFC64(self.seed))
        for at in range(0, self.size, _BLOCK):
            block = array[at : at + _BLOCK]
            block[:] = np.frombuffer(random.bytes(len(block)), np.uint8)
        yield array


@dataclass(frozen=True)
class Bucket(Plain):
    """Objects below `s3://bucket/prefix`: named by their URL for `s3`, else downloaded first."""

    url: str

    def prepare(self, via: str) -> Iterator[Any]:
        """Yield the URL, or a folder with its objects, which exists while it is published."""
        if via == "s3":
            yield self.url
            return
        from engine.s3 import S3

        bucket = S3.open(self.url)
        folder = Path(tempfile.mkdtemp(prefix="oka-model-"))
        try:
            objects = bucket.list()
            if not objects:
                raise ModelError(
                    f"there is no object below {self.url}", "a prefix ends where the names begin"
                )
            for key, _size in objects:
                path = folder / (key or Path(self.url).name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bucket.get(key))
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def parts(model: Model) -> Mapping[str, memoryview]:
    """The bytes of a model by name: its files, or all in one part."""
    if model.layout.kind in ("folder", "file"):
        return model.files
    return {"": model.buffer}


def fold(view: memoryview | bytes) -> Words:
    """The sum of the 64-bit words of each 8 KiB, by NumPy: about the speed of memory.

    A changed, missing or moved byte changes the sums, except if words change places within 8 KiB.
    The last bytes that fill no word, and their number, follow.
    """
    data = np.frombuffer(view, np.uint8)
    whole = len(data) // _FOLDED * _FOLDED
    words = data[:whole].view(np.uint64).reshape(-1, _FOLDED // 8)
    sums = np.add.reduce(words, axis=1, dtype=np.uint64)
    rest = np.zeros(-(-(len(data) - whole) // 8) * 8, np.uint8)
    rest[: len(data) - whole] = data[whole:]
    return np.concatenate([sums, rest.view(np.uint64), np.array([len(data)], np.uint64)])


_BLOCK = 16 << 20
_FOLDED = 8192
