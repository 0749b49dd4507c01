"""The counts of a task up to the checkpoint that it goes on from.

A record counts once: records behind the checkpoint come again, and are counted then. So counts of a
job that went on after failures are those of one without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.checkpoint import TaskSnapshot
from engine.deployment.description import OperatorStatistics, TaskDescription
from engine.metric import METRICS

Counts = Mapping[str, Mapping[str, Any]]
"""See `TaskSnapshot.counts`."""


@dataclass(frozen=True)
class Counted:
    """Counts of a task's operators, in their order, and its metrics that go on."""

    operators: tuple[OperatorStatistics, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kept: Sequence[TaskSnapshot], description: TaskDescription) -> Counted:
        """The counts of the tasks, one or several, whose place this one takes."""
        index, parallelism = description.index, description.parallelism
        ours = [each for each in kept if each.index % parallelism == index]
        operators = []
        for operator in description.operators:
            total = OperatorStatistics(operator.name, 0, 0)
            for each in ours:
                if operator.identity in each.counts:
                    total += OperatorStatistics(operator.name, **each.counts[operator.identity])
            operators.append(total)
        first = description.operators[0].identity
        alike = [each.counts.get("", {}) for each in ours if each.chain[:1] == (first,)]
        names = {name for counts in alike for name in counts if name in METRICS}
        metrics = {name: sum(counts.get(name, 0) for counts in alike) for name in names}
        return cls(tuple(operators), metrics)

    def with_operators(self, since: list[OperatorStatistics]) -> list[OperatorStatistics]:
        """The counts, with what the operators have counted since."""
        if not self.operators:
            return since
        return [now + before for now, before in zip(since, self.operators, strict=True)]

    def with_metrics(self, since: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics, with what the task has measured since."""
        return {name: value + self.metrics.get(name, 0) for name, value in since.items()}


def counts_of(
    description: TaskDescription,
    operators: Sequence[OperatorStatistics],
    metrics: Mapping[str, Any],
) -> Counts:
    """The counts of a task, for its snapshot."""
    found: dict[str, dict[str, Any]] = {}
    for operator, told in zip(description.operators, operators, strict=True):
        found[operator.identity] = {
            name: value for name, value in asdict(told).items() if value and name != "name"
        } | {"records_in": told.records_in, "records_out": told.records_out}
    found[""] = {name: value for name, value in metrics.items() if METRICS[name].goes_on and value}
    return found
