"""The settings of a peer's program that reads or writes a topic of Kafka.

A run lasts from the making of the client to the last message, all of it in this process.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass


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
    """The file of `Clocks.write`."""

    @classmethod
    def of_arguments(cls) -> Settings:
        """The settings in the first command line argument."""
        return cls(**json.loads(sys.argv[1]))
