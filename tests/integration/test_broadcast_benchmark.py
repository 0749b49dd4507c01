"""`oka bench broadcast` on hosts: a tiny model, every way, and nothing left of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.testbed.network import exists, remove
from tests.hosts import NAME, needs_hosts

ROOT = Path(__file__).parents[2]
OWN = f"{NAME}c"


@pytest.mark.again_on_ray
@needs_hosts
@pytest.mark.ray
def test_a_tiny_model_by_every_way(tmp_path: Path) -> None:
    arguments = (
        *("bench", "broadcast", "--size", "2MB", "--rate", "100mbit", "--cases", "1"),
        *("--no-encryption", "--repeats", "1", "--json", str(tmp_path / "rows.json")),
        *("--name", OWN, "--plots", str(tmp_path / "plots")),
    )
    try:
        done = oka(*arguments)
        assert done.returncode == 0, done.stderr
        assert not exists(OWN)
        rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
        assert [row["api"] for row in rows] == ["channels", "plasma", "s3"]
        assert len({checksum for row in rows for checksum in row["checksums"]}) == 1
        for row in rows:
            assert row["failures"] == []
            assert row["usable_seconds"]["min"] > 0.1  # 2 MB at 100 Mbit/s are 0.16 s
            assert row["loaded_seconds"]["min"] >= row["usable_seconds"]["min"]
            assert row["cpu_seconds_per_gib"]["median"] > 0
            assert row["peak_memory_bytes"].keys() >= {"1", "2"}
            links = row["link_bytes"]
            assert links["2"]["received"] >= 2_000_000
            assert links["3" if row["api"] == "s3" else "1"]["sent"] >= 2_000_000
            (loader,) = row["loaders"]
            assert loader["host"] == 2
        assert [path.name for path in (tmp_path / "plots").iterdir()] == [
            "timeline_2000000_100mbit.png"
        ]
        again = oka(*arguments)
        assert (again.returncode, "has 3 rows of these already: kept" in again.stderr) == (0, True)
    finally:
        remove(OWN)


def oka(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from engine.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
