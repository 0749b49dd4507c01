"""The pages of the documentation, and their programs, run as their readers would run them.

All programs of a page run in turn, with the names of those before, in this process: jobs are
threads, on real channels. README's programs run as processes in `tests/integration/test_readme.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oka
from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Pipelines, Plan
from engine.programs.ports import free_port
from engine.report.result import JobResult
from engine.testing.threads import ThreadLauncher
from tests.first_hour import readme
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def name(page: Path) -> str:
    """As it is said of a page: its path in the folder of the documentation."""
    return page.relative_to(DOCS).as_posix()


def run(page: Path, folder: Path, here: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """What each program of the page promises to print, and what it prints.

    A page of a server has a command `curl -d BODY localhost:8000/PATH    # ANSWER`, which is done.
    """
    here.chdir(folder)
    port = free_port()
    curl = re.search(
        r"^    curl -d (\S+) localhost:8000(\S+) +# (.*)$", page.read_text(), re.MULTILINE
    )

    def execute(pipelines: Pipelines, config: Any = None, **settings: Any) -> JobResult:
        serves = curl and "HttpSource(" in program
        with started(pipelines, config, **settings) as job:
            if curl and serves:
                assert answer(f"http://127.0.0.1:{port}{curl[2]}", curl[1]) == curl[3]
                job.stop()
            return job.wait_finished()

    here.setattr(oka, "execute", execute)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, program in enumerate(readme.programs(page)):
        file = folder / f"{page.stem}_{number}.py"
        program = program.replace("port=8000", f"port={port}")
        file.write_text(program, encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(program, str(file), "exec"), names)
        yield promised(program), printed.getvalue().rstrip()


@contextlib.contextmanager
def started(pipelines: Pipelines, config: Any, **settings: Any) -> Iterator[JobHandle]:
    """The job, whose tasks are threads, for any runtime that the program says."""
    quiet: dict[str, Any] = {
        "progress": "none",
        "history": "off",
        "runtime": "local",
        "name": "docs",
    }
    if isinstance(config, JobConfig):
        config = dataclasses.replace(config, **quiet)
    else:
        config = JobConfig.of({**(config or settings), **quiet})
    job = JobHandle(Plan.of(pipelines, config), ThreadLauncher())
    try:
        yield job
    finally:
        job.cancel()
        job.wait_stopped()


def answer(address: str, body: str) -> str:
    """What a server says, once it listens."""

    def asked() -> str | None:
        try:
            with urllib.request.urlopen(address, body.encode(), timeout=10) as found:
                return str(found.read().decode())
        except urllib.error.URLError:
            return None

    return str(wait_until(asked, 30))


def promised(program: str) -> str:
    """The comments at the end of a line that prints, or below it."""
    found: list[str] = []
    printing = False
    for line in program.splitlines():
        code, _, comment = line.strip().partition("# ")
        if (code.startswith("print(") and comment) or (code == "" and comment and printing):
            found.append(comment)
        printing = code.startswith("print(") or (code == "" and bool(comment) and printing)
    return "\n".join(found)
