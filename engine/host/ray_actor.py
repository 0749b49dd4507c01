"""A worker as an actor of Ray: its name, and the output of this actor and of earlier ones.

An actor's stdout and stderr are files of its host, which Ray's log monitor reads and sends to the
driver, some tenths of a second late.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from pathlib import Path

from engine.host import worker
from engine.system import path_of


class Worker(worker.Worker):
    """A worker in an actor. Its process is `ray::Worker…` in the host's list of processes."""

    def __init__(self, title: str) -> None:
        self._title = title
        super().__init__()
        self._logs = [_Log(each) for each in (1, 2)]

    def __repr__(self) -> str:
        """Job and task: Ray begins each printed line of the actor with it."""
        return self._title

    def end_prints(self, mark: str) -> int:
        """Write the mark behind the output, on a line of its own; returns the number of streams."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return sum(log.end(mark) for log in self._logs)


def last_lines(process_id: int, logs: Path | None = None) -> str:
    """The last lines that an actor's process wrote to its stderr.

    `logs` is the log folder of the process's host; None is the calling worker's.
    """
    if logs is None:
        logs = path_of(2).parent
    for path in logs.glob(f"worker-*-{process_id}.err"):
        with path.open(errors="replace") as lines:
            return "".join(deque(filter(_is_printed, lines), maxlen=_LAST_LINES))
    return ""


class _Log:
    """The file that is this process's stdout or stderr."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self.path = path_of(descriptor) if is_file else None
        self._start = os.fstat(descriptor).st_size

    def end(self, mark: str) -> bool:
        """Write the mark, if anything was printed; True if it was written."""
        if self.path is None:
            return False
        with self.path.open("rb") as file:
            file.seek(self._start)
            last = None
            for line in file:
                if _is_printed(line.decode(errors="replace")):
                    last = line
                    break
            if last is None:
                return False
            file.seek(-1, os.SEEK_END)
            is_whole = file.read(1) == b"\n"
        os.write(self._descriptor, f"{'' if is_whole else chr(10)}{mark}\n".encode())
        return True


def _is_printed(line: str) -> bool:
    """Whether the line is a printed one: neither a mark of Ray's nor one of Oka's."""
    return not line.startswith((":actor_name:", ":task_name:", ":job_id:", END_OF_PRINTS))


END_OF_PRINTS = ":oka_end:"
_LAST_LINES = 20
