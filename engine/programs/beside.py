"""A program of others, such as a JVM, that ends with this process unless it is let go."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO


class Beside:
    """A program as a process beside this one.

    Invariant: it ends with this process, however that ends, and `leftover` is removed behind it. A
    shell between the two sees to that until `release`. The program has a session of its own, so
    Ctrl-C is for this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        errors: IO[bytes],
        leftover: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; what it writes to stderr goes into the file."""
        self._shell = subprocess.Popen(
            ["sh", "-c", _SHELL, "sh", *command],
            stdin=subprocess.PIPE,  # which ends with this process
            stdout=subprocess.PIPE,  # which ends with the program
            stderr=errors,
            start_new_session=True,
            env={**os.environ, **(environment or {}), "OKA_LEFTOVER": str(leftover or "")},
        )
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._stdin, self._stdout = self._shell.stdin, self._shell.stdout
        self.pid = int(self._stdout.readline())

    def lines(self) -> Iterator[str]:
        """What the program writes to stdout, line by line, until it ends."""
        for line in self._stdout:
            yield line.decode(errors="replace")

    def wait_ended(self, seconds: float) -> bool:
        """Whether the program has ended; waits at most so long for it."""
        poll = select.poll()
        poll.register(self._stdout, 0)  # the end of all writers is told unasked
        return bool(poll.poll(seconds * 1000))

    def terminate(self, seconds: float) -> None:
        """Ask it to end, and end it if it has not done so in time. `leftover` is removed.

        Does nothing behind `kill` and `release`.
        """
        if self._stdout.closed:
            return
        if not self.wait_ended(0):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            self.wait_ended(seconds)
        self.kill()

    def kill(self) -> None:
        """End it at once. `leftover` is removed. Does nothing the second time."""
        self._stdin.close()
        self._shell.wait()
        self._stdout.close()

    def keep(self) -> None:
        """Leave `leftover` where it is from now on."""
        self._stdin.write(b"keep\n")
        self._stdin.flush()

    def release(self) -> None:
        """Let it run on when this process ends. `leftover` stays."""
        self._stdin.write(b"release\n")
        self.kill()


def command_of(pid: int) -> str:
    """The command line of a process, empty if there is none of this number or it has ended."""
    if Path("/proc/self").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return ""
    asked = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout


_SHELL = """
"$@" < /dev/null &
echo $!
exec >&-
while read -r word; do
    case $word in
        keep) OKA_LEFTOVER= ;;
        release) exit ;;
    esac
done
kill -KILL $! 2> /dev/null
wait
test -z "$OKA_LEFTOVER" || rm -rf -- "$OKA_LEFTOVER"
"""
