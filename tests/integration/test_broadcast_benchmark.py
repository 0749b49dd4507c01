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


@needs_hosts
@pytest.mark.ray
def test_a_tiny_model_by_every_way(tmp_path: Path) -> None:
    arguments = (
        *("bench", "broadcast", "--size", "2MB", "--rate", "100mbit", "--cases", "1,3-2"),
        *("--repeats", "1", "--json", str(tmp_path / "rows.json"), "--name", OWN),
        *("--plots", str(tmp_path / "plots")),
    )
    try:
        done = oka(*arguments)
        assert done.returncode == 0, done.stderr
        assert not exists(OWN)
        rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
        assert [(row["case"], row["api"], row["encryption"]) for row in rows] == [
            (case, api, encryption)
            for case in ("1", "3-2")
            for api, encryption in (
                ("channels", False),
                ("channels", True),
                ("plasma", False),
                ("s3", False),
            )
        ]
        assert len({checksum for row in rows for checksum in row["checksums"]}) == 1
        for row in rows:
            assert row["failures"] == []
            # 2 MB at 100 Mbit/s are 0.16 s; within a host no link is in the way.
            crosses = row["case"] == "1" or row["api"] == "s3"
            assert row["usable_seconds"]["min"] > (0.1 if crosses else 0)
            assert row["loaded_seconds"]["min"] >= row["usable_seconds"]["min"]
            assert row["cpu_seconds_per_gib"]["median"] >= 0
            assert row["peak_memory_bytes"].keys() >= {"1"}
            received = row["link_bytes"]["2" if row["case"] == "1" else "1"]["received"]
            assert (received >= 2_000_000) == crosses
            if row["api"] == "s3":
                assert row["link_bytes"]["3"]["sent"] >= 2_000_000 * len(row["loaders"])
        assert [path.name for path in (tmp_path / "plots").iterdir()] == [
            "timeline_2000000_100mbit.png"
        ]
        again = oka(*arguments)
        assert (again.returncode, "8 rows are in" in again.stderr) == (0, True)
    finally:
        remove(OWN)


def oka(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from engine.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True,
        timeout=115, check=False,
    )  # fmt: skip
