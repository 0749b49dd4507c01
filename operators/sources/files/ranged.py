"""An object in S3 as a seekable file that is read in ranges."""

from __future__ import annotations

import io
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from engine.s3 import S3


class RangedFile(io.RawIOBase):
    """One version of an object. While it is read in order, the next range is fetched meanwhile.

    Raises StorageError, also where the object was replaced. At most two ranges are in memory.
    """

    def __init__(self, s3: S3, key: str, size: int, tag: str) -> None:
        self._s3, self._key, self._size, self._tag = s3, key, size, tag
        self._at = 0
        self._start, self._range = 0, memoryview(b"")
        """The range in memory, and where it begins."""
        self._length = _LEAST_BYTES
        """The length of the next range: it doubles while the object is read in order."""
        self._next: tuple[int, Future[memoryview]] | None = None
        """The range that is on its way, and where it begins."""
        self._thread: ThreadPoolExecutor | None = None

    def begin(self) -> None:
        """Fetch the first range; raises StorageError where this version is gone."""
        self._fetch(min(self._size, _LEAST_BYTES))

    def readable(self) -> bool:
        """True: it can be read."""
        return True

    def seekable(self) -> bool:
        """True: it can be sought in."""
        return True

    def size(self) -> int:
        """Its bytes, for PyArrow."""
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position; asks nobody."""
        base = (0, self._at, self._size)[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def read(self, size: int | None = -1) -> Any:
        """The next bytes, all that were asked for but at the end; they are not copied."""
        left = max(0, self._size - self._at)
        size = left if size is None or size < 0 else min(size, left)
        inside = self._at - self._start
        if not 0 <= inside <= len(self._range) - size:
            self._fetch(size)
            inside = self._at - self._start
        self._at += size
        return self._range[inside : inside + size]

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into the buffer."""
        with memoryview(buffer).cast("B") as target:
            found = self.read(len(target))
            target[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Let go of what was read, and of what is on its way."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._thread = None
        self._next = None
        self._range = memoryview(b"")
        super().close()

    def _fetch(self, size: int) -> None:
        """Have a range in memory that has so many bytes from the position on."""
        end = self._start + len(self._range)
        is_next = self._start <= self._at <= end and end > 0
        rest = self._range[self._at - self._start :] if is_next else memoryview(b"")
        self._length = min(2 * self._length, _MOST_BYTES) if is_next else _LEAST_BYTES
        at = self._at + len(rest)
        ahead, self._next = self._next, None
        found = ahead[1].result() if ahead is not None and ahead[0] == at else None
        if found is None or len(found) < size - len(rest):
            found = self._get(at, max(size - len(rest), self._length))
        if len(rest):
            found = memoryview(b"".join((rest, found)))
        self._start, self._range = self._at, found
        behind = at - len(rest) + len(found)
        if is_next and self._length == _MOST_BYTES and behind < self._size:
            self._thread = self._thread or ThreadPoolExecutor(1, "oka-read-ahead")
            self._next = behind, self._thread.submit(self._get, behind, _MOST_BYTES)

    def _get(self, at: int, size: int) -> memoryview:
        found = memoryview(bytearray(min(size, self._size - at)))
        self._s3.get_part_into(self._key, at, self._tag, found)
        return found


_LEAST_BYTES = 1 << 16
_MOST_BYTES = 4 << 20
