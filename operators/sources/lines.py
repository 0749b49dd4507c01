r"""Lines of files, in blocks of whole lines, from any position on.

A line ends in `\n`, `\r\n` or `\r`, as in Python's `open`.
"""

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from engine.columns import import_pyarrow
from operators.sources.layout import Range
from operators.sources.unpacked import Unpacked

T = TypeVar("T")


class File(io.RawIOBase):
    """A file that is open only while it is read, so that there may be many.

    Raises OSError if another file has replaced it meanwhile.
    """

    def __init__(self, path: str, *, stays_open: bool = True) -> None:
        self._path = path
        self._stays_open = stays_open
        self._at = 0
        self._identity: tuple[int, int] | None = None
        self._file: io.FileIO | None = None
        self._open()

    def readable(self) -> bool:
        """True: it can be read."""
        return True

    def seekable(self) -> bool:
        """True: it can be sought in."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, from the beginning or from the current one."""
        self._at = offset if whence == os.SEEK_SET else self._at + offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """At most this many of the next bytes."""
        return self._with(lambda file: file.read(size)) or b""

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into the buffer."""
        return self._with(lambda file: file.readinto(buffer)) or 0

    def close(self) -> None:
        """Let go of it."""
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()

    def _with(self, read: Callable[[io.FileIO], T]) -> T:
        file = self._file or self._open()
        try:
            file.seek(self._at)
            found = read(file)
            self._at = file.tell()
        finally:
            if not self._stays_open:
                file.close()
                self._file = None
        return found

    def _open(self) -> io.FileIO:
        self._file = file = io.FileIO(self._path)
        status = os.fstat(file.fileno())
        identity = status.st_dev, status.st_ino
        if self._identity not in (None, identity):
            raise OSError(f"{self._path} is another file now than when its first lines were read")
        self._identity = identity
        return file


def whole_lines(
    file: File, of: Range, size: int, offset: int | None, block_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in the range, as blocks of whole lines that end in a line feed.

    Each comes with its offset in the unpacked file; `offset` is that of the first block. Only the
    last line of a file of `size` bytes may be without an end.
    """
    path = of.piece.path
    if (codec := of.piece.codec) is not None:
        is_gzip = codec == "gzip"
        broken = (EOFError, gzip.BadGzipFile, zlib.error) if is_gzip else OSError
        try:
            with _unpacked(file, codec) as packed:
                packed.seek(offset or 0)
                yield from _blocks(packed, None, block_bytes)
        except broken as error:
            kind = "gzip" if is_gzip else "Zstandard"
            raise OSError(f"{path} is not a whole {kind} file: {error}") from error
        return
    start, end = (line_start(file, at, size) for at in (of.begin, of.end))
    begin = file.seek(start if offset is None else offset)
    yield from _blocks(file, end - begin, block_bytes)
    if file.tell() < end:
        raise OSError(
            f"{path} has {file.tell():,} bytes, expected {size:,} as when the job was planned"
        )


def line_start(
    file: io.RawIOBase, at: int, size: int, ends: tuple[bytes, ...] = (b"\n", b"\r")
) -> int:
    """The first position from `at` on where a line begins, or the file's size.

    `ends` are the bytes that end a line.
    """
    if at <= 0 or at >= size:
        return max(0, min(at, size))
    position = at - 1  # a line begins at `at` if the byte before ends one
    file.seek(position)
    while block := bytes(file.read(_SEARCH_BYTES) or b""):
        found = [place for place in map(block.find, ends) if place >= 0]
        if found:
            position += min(found)
            file.seek(position)
            return min(size, position + (2 if file.read(2) == b"\r\n" else 1))
        position += len(block)
    return size


def ends_line(file: io.RawIOBase, size: int) -> bool:
    """Whether a line ends at this byte."""
    if size == 0:
        return True
    file.seek(size - 1)
    return file.read(1) in (b"\n", b"\r")


def _unpacked(file: File, codec: str) -> gzip.GzipFile | Unpacked:
    if codec == "gzip":  # which needs no PyArrow
        return gzip.GzipFile(fileobj=io.BufferedReader(file, _PACKED_BYTES))
    return Unpacked(lambda: import_pyarrow("a .zst file").PythonFile(file, "r"), codec)


def _blocks(
    file: io.RawIOBase | gzip.GzipFile | Unpacked, limit: int | None, block_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The next `limit` bytes (all, if None), cut behind line ends; all become a line feed."""
    begun: list[bytes] = []  # parts of a line that has not ended yet
    start = file.tell()
    left = float("inf") if limit is None else limit
    while left > 0 and (block := file.read(int(min(block_bytes, left)))):
        left -= len(block)
        while block.endswith(b"\r") and left > 0 and (more := file.read(1)):
            block += more  # it may be the first half of \r\n
            left -= 1
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut = block.rfind(b"\n") + 1
        if cut:
            yield start, b"".join((*begun, block[:cut]))
            begun = []
            start = file.tell() - (len(block) - cut)  # no line end of the rest was replaced
        if cut < len(block):
            begun.append(block[cut:])
    if begun:
        yield start, b"".join(begun)


_SEARCH_BYTES = 1 << 16
_PACKED_BYTES = 1 << 16
