"""What the program of a peer tells of a run in its own process: time, CPU time and rows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Clocks:
    """The clocks of a run, which begin with it."""

    def __init__(self, result: str) -> None:
        """`result` is the file that `write` makes."""
        self._result = result
        self._began, self._cpu_before = time.monotonic(), time.process_time()

    def write(self, rows: int, **more: Any) -> None:
        """Write the result."""
        found = {
            "seconds": time.monotonic() - self._began,
            "cpu_seconds": time.process_time() - self._cpu_before,
            "rows": rows,
            **more,
        }
        partial = Path(f"{self._result}.partial")
        partial.write_text(json.dumps(found))
        partial.replace(self._result)
