"""Helpers of a peer's program that reads or writes a topic of Kafka: settings, clocks, result.

A run lasts from the making of the client to the last message, all of it in this process.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """One run; the program's first argument has it in JSON."""

    servers: str
    topic: str
    messages: int
    batch_size: int
    json: bool
    """Whether values are decoded as JSON."""
    result: str
    """The file of `Told.write`."""

    @classmethod
    def of_arguments(cls) -> Settings:
        """The settings in the first command line argument."""
        return cls(**json.loads(sys.argv[1]))


class Told:
    """The clocks of a run, which begin with it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._began = time.monotonic(), time.process_time()

    def write(self, messages: int) -> None:
        """Write the result."""
        began, cpu_before = self._began
        found = {
            "seconds": time.monotonic() - began,
            "cpu_seconds": time.process_time() - cpu_before,
            "rows": messages,
        }
        partial = Path(f"{self._settings.result}.partial")
        partial.write_text(json.dumps(found))
        partial.replace(self._settings.result)
