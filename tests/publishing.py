"""An operator that says how it publishes and does nothing else, for tests of planning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.graph import BatchOperator, Properties, TaskContext


@dataclass(frozen=True)
class Publishing(BatchOperator):
    via: str | None

    @property
    def properties(self) -> Properties:
        return Properties(publishes=self.via, relays=self.via in ("channels", "s3"))

    def open(self, context: TaskContext) -> Any:
        raise NotImplementedError
