"""Memory of this process for a model, where the node's shared memory is not used."""

from __future__ import annotations

import mmap
import os
from typing import Any

from engine.errors import ModelError


class MemoryLanding:
    """`size` bytes at the start of a page, filled in order; `finish` gives them read-only.

    >>> landing = MemoryLanding(4)
    >>> landing.write(b"abc")
    >>> landing.finish()
    Traceback (most recent call last):
        ...
    engine.errors.ModelError: 3 bytes were written, expected 4
    """

    def __init__(self, size: int) -> None:
        # Anonymous memory: it is aligned, zero, and given back when the last view is gone.
        self._view = memoryview(mmap.mmap(-1, size) if size else bytearray())
        self._size = size
        self._written = 0

    def write(self, data: Any, /) -> None:
        """Append these bytes."""
        data = memoryview(data).cast("B")
        self._view[self._written : self._written + len(data)] = data
        self._written += len(data)

    def write_file(self, path: str, offset: int = 0, length: int | None = None) -> None:
        """Append this range of a file; OSError if the file has less."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            end = os.fstat(descriptor).st_size if length is None else offset + length
            while offset < end:
                target = self._view[self._written : self._written + end - offset]
                count = os.preadv(descriptor, [target], offset)
                if count == 0:
                    raise OSError(f"{path} ends at byte {offset}, expected {end}")
                offset += count
                self._written += count
        finally:
            os.close(descriptor)

    def view(self) -> memoryview:
        """All of it, writable."""
        return self._view[:]

    def advance(self, count: int, /) -> None:
        """Count this many further bytes as written."""
        self._written += count

    def finish(self) -> memoryview:
        """The bytes; ModelError unless exactly as many were written."""
        if self._written != self._size:
            raise ModelError(f"{self._written} bytes were written, expected {self._size}")
        return self._view.toreadonly()
