"""`oka run --watch`: the same command in a process of its own, begun anew after each change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from engine import console


def run_watched(program: Path, config: Path | None, resumes: bool) -> int:
    """Run the command without `--watch` until Ctrl-C; returns its last status.

    A change of the file `config`, of the program, or of a module beside it or in a package there
    stops the job as Ctrl-C does, and begins the next. With `resumes`, that one goes on from the
    last checkpoint.
    """
    words = [word for word in sys.argv[1:] if word != "--watch"]
    begin = [sys.executable, *([sys.argv[0]] if Path(sys.argv[0]).is_file() else ["-c", _MAIN])]
    while True:
        before = _states(program, config)
        job = subprocess.Popen([*begin, *words])
        try:
            _wait_changed(program, config, before, job)
        except KeyboardInterrupt:  # the job has got it, too
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return job.wait() if job.returncode is None else 130
        finally:
            _stop(job)
        if resumes and job.returncode != _NOT_STARTED:
            words += ["--resume", "latest"]
            resumes = False


def _wait_changed(
    program: Path, config: Path | None, before: States, job: subprocess.Popen[bytes]
) -> None:
    """Return when files have changed and been left alone for a moment."""
    last, now, runs = before, before, True
    while now == before or now != last:
        if runs and job.poll() is not None:
            runs = False
            console.write("waiting for a change; Ctrl-C ends\n")
        time.sleep(_EVERY_SECONDS)
        last, now = now, _states(program, config)
    changed = sorted({path for path, _ in set(before.items()) ^ set(now.items())})
    console.write(f"changed: {', '.join(map(os.path.relpath, changed))}\n")


def _states(program: Path, config: Path | None) -> States:
    """When each file was written last, and its size."""
    found = {}
    for path in (program, *_modules(_root(program)), *([] if config is None else [config])):
        try:
            about = path.stat()
        except OSError:  # an editor may just be replacing it
            continue
        found[path] = (about.st_mtime_ns, about.st_size)
    return found


def _root(program: Path) -> Path:
    """The folder of the program, or that of its package."""
    folder = program.resolve().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _modules(folder: Path) -> Iterator[Path]:
    yield from folder.glob("*.py")
    for package in folder.glob("*/__init__.py"):
        yield from _modules(package.parent)


def _stop(job: subprocess.Popen[bytes]) -> None:
    """End the job: emitted records go through, if that does not take too long."""
    for _ in range(2):
        if job.poll() is not None:
            return
        job.send_signal(signal.SIGINT)
        try:
            job.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    job.kill()
    job.wait()


States = dict[Path, tuple[int, int]]
_MAIN = "from engine.cli.main import main; main()"
_NOT_STARTED = 2
"""The status of a command with wrong usage, and of a program that cannot be loaded."""
_EVERY_SECONDS = 0.3
_STOP_SECONDS = 10.0
