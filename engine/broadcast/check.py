"""What cannot work is refused before any worker starts."""

from __future__ import annotations

from collections.abc import Iterable

from engine.config import JobConfig
from engine.errors import ConfigError
from engine.graph.logical import LogicalOperator


def check(operators: Iterable[LogicalOperator], config: JobConfig) -> None:
    """Raise ConfigError if models cannot be moved in such a job as its operators say."""
    for operator in operators:
        if operator.operator.properties.publishes == "plasma" and config.runtime != "ray":
            raise ConfigError(
                f"operator {operator.name!r} broadcasts via 'plasma', Ray's object store, and "
                f"runtime is {config.runtime!r}, expected 'ray'",
                "runtime='ray', or broadcast(via='channels'), which needs no Ray",
            )
