"""A history survives its driver: whatever kills it, the file opens and has nearly all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.drivers import ROOT


def test_a_killed_driver_leaves_a_history_that_opens(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.history_job", str(tmp_path), "10", "41"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("killed after") == 10
