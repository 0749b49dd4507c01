"""An operator that says how it publishes and does nothing else, for tests of planning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.graph import BatchOperator, TaskContext


@dataclass(frozen=True)
class Publishing(BatchOperator):
    publishes: str | None

    @property
    def relays(self) -> bool:
        return self.publishes in ("channels", "s3")

    def open(self, context: TaskContext) -> Any:
        raise NotImplementedError
