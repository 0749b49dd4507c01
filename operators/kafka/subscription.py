"""What is read of Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

Start: TypeAlias = Literal["earliest", "latest"] | datetime | Mapping[str, int]
"""Where partitions begin: a place, the first message from a time on, or offsets by partition."""


@dataclass(frozen=True)
class Subscription:
    """The topics of a source, and how they are read."""

    topics: tuple[str, ...] | re.Pattern[str]
    settings: dict[str, Any]
    """The client's."""
    start: Start
    end: Literal["latest"] | None
    on_deleted: Literal["fail", "end"]
    values: bool
    """Whether records are the messages' bytes, not the messages."""
