"""An operator that says how it publishes and does nothing else, for tests of planning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine import broadcast
from engine.graph import BatchOperator, Properties, TaskContext


@dataclass(frozen=True)
class Publisher(BatchOperator):
    via: str | None

    @property
    def properties(self) -> Properties:
        if self.via is None:
            return Properties()
        relays = self.via in ("channels", "s3")
        return Properties(services=(broadcast.Publisher(self.via, relays),))

    def open(self, context: TaskContext) -> Any:
        raise NotImplementedError
