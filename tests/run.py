"""Run all tests in several processes, and those few that failed once more, alone.

    python tests/run.py --numprocesses 3 --dist loadgroup --no-loadscope-reorder

On a machine with much to do besides, one of thousands of tests of real processes may fail by a
wait that was too short. It passes only if it passes alone, and the last line names it, since it is
a defect all the same: of the test, or of the product.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FEW = 10
"""The most failures that are looked at again: with more of them, something is broken."""
FAILED = Path(__file__).parents[1] / ".pytest_cache/v/cache/lastfailed"


def main() -> int:
    """The status of pytest: 0 if each test has passed, in the first or in the second run."""
    status = subprocess.call([sys.executable, "-m", "pytest", "--cache-clear", *sys.argv[1:]])
    if status != 1:  # pytest's status for "some tests failed"; others are of pytest itself
        return status
    failed = [name.rpartition("@")[0] or name for name in json.loads(FAILED.read_text())]
    if not 0 < len(failed) <= FEW:
        return status
    print(f"\nonce more, alone: {len(failed)} tests that failed among the others", flush=True)
    status = subprocess.call([sys.executable, "-m", "pytest", *failed])
    if status == 0:
        print("passed alone only, to be mended:", *failed, sep="\n  ")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
