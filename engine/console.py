"""Writes to stdout and stderr, whether or not anybody reads them.

Invariant: no call raises, and none waits longer than its limit, whatever the stream is: missing,
closed, a broken or a full pipe, a full disk, or an object of the program's own.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TextIO


def write(text: str, stream: TextIO | None = None, patience: float | None = 1.0) -> bool:
    """Write the text to the stream; False if not all of it could be.

    The stream is stderr where none is given. `patience` is the longest to wait, in seconds, for a
    reader; None waits for as long as there is one. Characters that the stream's encoding lacks are
    written as escapes.
    """
    stream = stream or sys.stderr
    descriptor = _descriptor(stream)
    try:
        if descriptor is None:
            stream.write(text)
            stream.flush()
            return True
        data = text.encode(stream.encoding or "utf-8", "backslashreplace")
        for start in range(0, len(data), select.PIPE_BUF):
            if not _wait_ready(descriptor, patience):
                return False
            stream.flush()  # what others wrote comes first
            os.write(descriptor, data[start : start + select.PIPE_BUF])
    except Exception:  # noqa: BLE001 - None, closed, broken, full, an object of the program's own
        return False
    return True


def is_ready(patience: float, stream: TextIO | None = None) -> bool:
    """Whether the stream takes a few lines, or refuses them, without delay; waits so long for it.

    It is stderr where none is given.
    """
    descriptor = _descriptor(stream or sys.stderr)
    return descriptor is None or _wait_ready(descriptor, patience)


def is_terminal() -> bool:
    """Whether stderr is a terminal."""
    try:
        return sys.stderr.isatty()
    except Exception:  # noqa: BLE001 - None, closed, or an object of the program's own
        return False


def _descriptor(stream: TextIO) -> int | None:
    """None where the stream is a notebook's, a test's, or not there.

    What a notebook's stream calls its descriptor leads past the cell, to where the notebook's
    server was started.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return None
    try:
        return stream.fileno()
    except Exception:  # noqa: BLE001 - it may be anything
        return None


def _wait_ready(descriptor: int, patience: float | None) -> bool:
    """Whether a write of PIPE_BUF bytes succeeds or fails at once: POLLOUT says so of a pipe."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(None if patience is None else patience * 1000))
