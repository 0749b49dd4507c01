"""Programs in folders of their own: driver and workers find what lies beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import engine
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from pipelines.parts import tripled  # Oka has a package of that name, too

import helper
from package.inner import plus_one


def doubled(n):
    return helper.SCALE * n


numbers = source(Collection([1, 2, 3])).map(doubled).rebalance().map(plus_one).map(tripled)
pipeline = numbers.sink(Collect())

if __name__ == "__main__":
    import sys

    print(engine.execute(pipeline, runtime=sys.argv[1]).output)
"""
EXPECTED = "[9, 15, 21]"
OKA = str(Path(sys.executable).parent / "oka")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A program with modules beside it, in a folder whose name has a space."""
    folder = tmp_path / "my project"
    for name, text in {
        "program.py": PROGRAM,
        "helper.py": "SCALE = 2",
        "package/__init__.py": "",
        "package/inner.py": "from helper import SCALE\n\ndef plus_one(n): return n + SCALE - 1",
        "pipelines/parts.py": "def tripled(n): return 3 * n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(
    *command: str, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def address(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have drivers join the tests' cluster."""
    if runtime == "ray":
        import ray

        monkeypatch.setenv("RAY_ADDRESS", str(ray.get_runtime_context().gcs_address))


@pytest.mark.usefixtures("address")
def test_a_program_by_its_path(project: Path, tmp_path: Path, runtime: str) -> None:
    done = run(sys.executable, str(project / "program.py"), runtime, cwd=tmp_path)
    assert (done.stdout.splitlines()[-1:], done.returncode) == ([EXPECTED], 0), done.stderr


@pytest.mark.again_on_ray
@pytest.mark.usefixtures("address")
def test_a_program_by_its_modules_name(project: Path, runtime: str) -> None:
    done = run(sys.executable, "-m", "program", runtime, cwd=project)
    assert (done.stdout.splitlines()[-1:], done.returncode) == ([EXPECTED], 0), done.stderr


@pytest.mark.again_on_ray
@pytest.mark.usefixtures("address")
def test_a_file_that_oka_runs(project: Path, tmp_path: Path, runtime: str) -> None:
    (project / "random.py").write_text("raise ImportError('not Python\\'s own')")
    file = str(project / "program.py")
    done = run(OKA, "run", file, "--runtime", runtime, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-3:] == ["9", "15", "21"]


@pytest.mark.parametrize("path", ["{project}", "."])
def test_a_program_whose_modules_pythonpath_has(project: Path, path: str) -> None:
    environment = {"PYTHONPATH": path.format(project=project), "PYTHONSAFEPATH": "1"}
    done = run(sys.executable, "program.py", "local", cwd=project, environment=environment)
    assert (done.stdout.splitlines()[-1:], done.returncode) == ([EXPECTED], 0), done.stderr


@pytest.mark.parametrize("program", ["oka", "python"])
@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("oka.py", "oka"),
        ("engine.py", "engine"),
        ("operators.py", "operators"),
        ("operators/__init__.py", "operators"),
    ],
)
def test_a_file_that_hides_a_package_is_named(
    project: Path, tmp_path: Path, file: str, package: str, program: str
) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text("def execute(): pass\ndef source(): pass\n")
    command = {
        "oka": [OKA, "run", str(project / "program.py")],
        "python": [sys.executable, str(project / "program.py"), "local"],
    }[program]
    done = run(*command, cwd=tmp_path)
    assert done.returncode == {"oka": 2, "python": 1}[program]
    assert f"{project / file} hides Oka's package {package!r}" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hint: give it another name")
    assert ("Traceback" in done.stderr) == (program == "python")
