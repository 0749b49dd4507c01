"""The unpacked bytes of a packed file, by PyArrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.columns import import_pyarrow


class Unpacked:
    """A packed file, unpacked. Seeking forward unpacks what is in between.

    It raises OSError, which does not name the file, where that is broken or not whole.
    """

    def __init__(self, open_packed: Callable[[], Any], codec: str) -> None:
        """`open_packed` gives the packed file, for PyArrow; it is closed here."""
        self._pyarrow = import_pyarrow("a packed file")
        self._codec, self._open = codec, open_packed
        self._begin()

    def read(self, size: int) -> bytes:
        """At most so many of the next bytes."""
        found: bytes = self._stream.read(size)
        self._at += len(found)
        return found

    def seek(self, offset: int) -> None:
        """Go to an offset; backwards means from the start on."""
        if offset < self._at:
            self.close()
            self._begin()
        while self._at < offset and self.read(min(offset - self._at, _SKIPPED_BYTES)):
            pass

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._at

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        self._packed.close()

    def _begin(self) -> None:
        self._packed, self._at = self._open(), 0
        self._stream = self._pyarrow.CompressedInputStream(self._packed, self._codec)

    def __enter__(self) -> Unpacked:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


_SKIPPED_BYTES = 1 << 20
