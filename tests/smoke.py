"""A wheel in a fresh environment without Rust, as a newcomer takes it.

    python tests/smoke.py WHEEL

It installs the wheel, makes a project, and waits for the first windows of its job on the terminal
and for its page. It says how long each took, and fails if that was longer than `--seconds` allows.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

CHECK = """
import sys
import oka, engine, operators
assert oka.execute is engine.execute and oka.source is operators.source
assert oka.sinks.Collect and oka.testing.run
for name in ("pipelines", "benchmarks", "k8s"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    sys.exit(f"{name} is installed")
"""


def main() -> None:
    """Do all steps; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="makes the environment")
    parser.add_argument("--seconds", type=float, default=60.0, help="to the first windows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oka-smoke-") as folder:
        Smoke(Path(folder).resolve(), options.python).run(options.wheel.resolve(), options.seconds)


class Smoke:
    """An environment in a folder, and what is done in it."""

    def __init__(self, folder: Path, python: str) -> None:
        self._folder = folder
        self._python = python
        self._bin = folder / "venv" / "bin"
        self._began = time.monotonic()

    def run(self, wheel: Path, seconds: float) -> None:
        """Install the wheel and do what a newcomer does."""
        self._do(self._python, "-m", "venv", str(self._folder / "venv"))
        self._do("python", "-m", "pip", "install", "--quiet", str(wheel), told="installed")
        self._do("oka", "new", "clicks")
        self._first_job(self._folder / "clicks", seconds)
        self._do("python", "-c", CHECK)
        self._do("oka", "doctor", told="oka doctor finds nothing that fails")
        for command in ("bench", "k8s"):
            told = self._do("oka", command, status=2).stderr
            assert "clone Oka's repository" in told, told
        self._do("python", "-m", "pip", "install", "--quiet", "pytest")
        self._do("python", "-m", "pytest", "-q", at="clicks", told="the project's tests pass")

    def _first_job(self, project: Path, seconds: float) -> None:
        command = [
            "oka",
            "run",
            "clicks.py",
            "--config",
            "oka.toml",
            "--ui",
            "--history",
            "clicks.oka",
        ]
        job = subprocess.Popen(
            [str(self._bin / command[0]), *command[1:]],
            cwd=project,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert job.stdout is not None
        assert job.stderr is not None
        try:
            link = re.search(r"http://\S+", job.stderr.readline())
            first = job.stdout.readline()
            took = self._tell(f"first windows: {first.strip()}")
            assert " clicks, " in first, first + job.stderr.read()
            assert link is not None
            cookies = urllib.request.HTTPCookieProcessor()  # the link gives one
            with urllib.request.build_opener(cookies).open(link[0], timeout=30) as page:
                assert b"<title>" in page.read()
            self._tell("its page")
            job.send_signal(signal.SIGINT)
            out, told = job.communicate(timeout=60)
        finally:
            job.kill()
        assert job.returncode == 130, told
        assert "records at the sinks" in out, told
        if took > seconds:
            sys.exit(f"the first windows took {took:.0f} s, expected at most {seconds:.0f}")

    def _do(
        self, program: str, *arguments: str, status: int = 0, at: str = ".", told: str = ""
    ) -> subprocess.CompletedProcess[str]:
        own = self._bin / program
        done = subprocess.run(
            [str(own) if own.exists() else program, *arguments],
            cwd=self._folder / at,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode != status:
            sys.exit(
                f"{program} {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
            )
        if told:
            self._tell(told)
        return done

    def _tell(self, what: str) -> float:
        took = time.monotonic() - self._began
        print(f"{took:6.1f} s  {what}", flush=True)
        return took

    def _environment(self) -> Mapping[str, str]:
        """Without the environment of a developer, and without Rust."""
        kept = {name: value for name, value in os.environ.items() if not _OWN.match(name)}
        path = os.pathsep.join(
            each
            for each in (str(self._bin), *os.environ["PATH"].split(os.pathsep))
            if shutil.which("cargo", path=each) is None
        )
        return {**kept, "PATH": path, "HOME": str(self._folder)}


_OWN = re.compile("VIRTUAL_ENV|PYTHON|CARGO|RUST|PIP_CONSTRAINT|PIP_NO_COMPILE|OKA_|XDG_")
"""Variables of developers."""

if __name__ == "__main__":
    main()
