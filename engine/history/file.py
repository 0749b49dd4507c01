"""The file of a history, `oka.job/1`: JSON lines in one gzip stream, so `zcat job.oka` shows it.

Invariant: at any moment the file holds all lines that were written, whatever kills the writer. The
stream is flushed after each write, and a reader takes the lines up to where it ends or is damaged.
A file that is written anew takes the place of the one before in one step.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

SCHEMA = "oka.job/1"


class HistoryWriter:
    """A new file at this path, only its user's, in the place of any before; raises OSError."""

    def __init__(self, path: Path, lines: Iterable[bytes] = ()) -> None:
        self.size = 0
        """Bytes in the file."""
        self._path = path
        self._stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        unfinished = path.with_name(f".{path.name}{UNFINISHED}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        self._descriptor = os.open(unfinished, flags, 0o600)
        try:
            self.write(lines)
            unfinished.replace(path)
        except BaseException:
            os.close(self._descriptor)
            unfinished.unlink(missing_ok=True)
            raise

    def write(self, lines: Iterable[bytes]) -> None:
        """Append lines, and have all of them in the file; raises OSError."""
        pieces = [self._stream.compress(line + b"\n") for line in lines]
        self._append(b"".join(pieces) + self._stream.flush(zlib.Z_SYNC_FLUSH))

    def rewrite(self, lines: Iterable[bytes]) -> HistoryWriter:
        """Close this one, and have another in its place that begins with these lines."""
        anew = HistoryWriter(self._path, lines)
        os.close(self._descriptor)
        return anew

    def close(self, *, whole: bool = True) -> None:
        """Append the end of the stream, if it is `whole`: it has the checksum of all lines."""
        try:
            if whole:
                self._append(self._stream.flush(zlib.Z_FINISH))
        finally:
            os.close(self._descriptor)

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            self.size += written
            view = view[written:]


class HistoryReader:
    """Reads the lines of a file, and those that are appended later.

    Of a file from elsewhere, it reads no more than a history can have, however it is compressed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._inode = os.fstat(self._file.fileno()).st_ino
        self._stream = zlib.decompressobj(_GZIP)
        self._rest = b""
        self._left = _MOST_BYTES
        self.is_damaged = False
        """Whether reading has ended in front of something that is none of the writer's."""

    def lines(self) -> Iterator[bytes]:
        """The lines that are new since the last call."""
        while not self.is_damaged and (data := self._file.read(_CHUNK)):
            while data and not self.is_damaged:
                try:
                    text = self._stream.decompress(data, _CHUNK * 16)
                except zlib.error:
                    self.is_damaged = True
                    return
                data = self._stream.unconsumed_tail
                self._left -= len(text)
                *found, self._rest = (self._rest + text).split(b"\n")
                self.is_damaged = self._left < 0 or len(self._rest) > _LONGEST_LINE
                yield from found

    @property
    def is_replaced(self) -> bool:
        """Whether the file was written anew: another reader has to begin at its beginning."""
        try:
            return self._path.stat().st_ino != self._inode
        except OSError:
            return True

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as it is now; raises OSError."""
    reader = HistoryReader(path)
    try:
        yield from reader.lines()
    finally:
        reader.close()


UNFINISHED = ".unfinished"
_GZIP = 31
"""zlib's number for a window of 32 KiB with the header and the checksum of gzip."""
_LEVEL = 6
_CHUNK = 1 << 16
_LONGEST_LINE = 16 << 20
_MOST_BYTES = 256 << 20
"""Of the text of one file. One of 2 MB that a job has written has some 20 MB."""
