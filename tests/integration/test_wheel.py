"""The wheel that `make wheel` has built: what is in it, and that a newcomer can work with it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAG = f"-cp{sys.version_info.major}{sys.version_info.minor}-"
BUILT = sorted((ROOT / "dist").glob(f"*{TAG}*.whl"), key=lambda path: path.stat().st_mtime)
WHEEL = BUILT[-1] if BUILT else Path()
MOST_BYTES = 25_000_000

needs_a_wheel = pytest.mark.skipif(
    not BUILT, reason="there is no wheel for this Python in dist: make wheel"
)


def test_an_sdist_has_what_a_wheel_is_built_of(tmp_path: Path) -> None:
    made = [str(Path(sys.executable).with_name("maturin")), "sdist", "--out", str(tmp_path)]
    subprocess.run(made, cwd=ROOT, capture_output=True, check=True)
    (path,) = tmp_path.iterdir()
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    parts = {"Cargo.lock", "rust", "engine", "operators", "oka", "pyproject.toml", "LICENSE"}
    assert {name.split("/")[0] for name in names} == {*parts, "Cargo.toml", "README.md", "PKG-INFO"}
    assert {"oka/starter/AGENTS.md", "rust/native/src/lib.rs", "engine/ui/static/app.js"} <= names


@needs_a_wheel
def test_it_has_what_jobs_need_and_no_more() -> None:
    assert WHEEL.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(WHEEL) as wheel:
        names = wheel.namelist()
        about = next(name for name in names if name.endswith("dist-info/METADATA")).split("/")[0]
        required = wheel.read(f"{about}/METADATA").decode()
    assert {name.split("/")[0] for name in names} == {"oka", "engine", "operators", about}
    assert {"oka/py.typed", "engine/py.typed", "operators/py.typed"} <= set(names)
    assert {f"oka/starter/{each.name}" for each in (ROOT / "oka/starter").glob("*.*")} <= set(names)
    assert any(
        name.startswith("engine/_native.") and TAG[1:-1] in name.replace("cpython-", "cp")
        for name in names
    )
    assert {"engine/ui/static/index.html", "engine/monitoring/dashboard.json"} <= set(names)
    assert any(
        name.startswith(f"{about}/sboms/") and name.endswith(".cyclonedx.json") for name in names
    )
    assert "Requires-Dist: click>=8.1" in required
    assert not any("__pycache__" in name for name in names)


@needs_a_wheel
def test_a_newcomer_sees_windows_and_a_page() -> None:
    done = subprocess.run(
        [sys.executable, "tests/smoke.py", str(WHEEL), "--seconds", "300"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
