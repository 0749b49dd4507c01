"""A pipeline planned for a config: checked, chained, expanded to tasks, and placed on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine import broadcast, ways
from engine.config import JobConfig
from engine.driver.launcher import Launcher
from engine.errors import ConfigError, PlacementError
from engine.graph.assembly import logical_graph
from engine.graph.chaining import chain
from engine.graph.declaration import Executable
from engine.graph.execution import ExecutionGraph, expand
from engine.graph.logical import LogicalGraph
from engine.host.ports import check_ports
from engine.placement.nodes import Node
from engine.placement.place import Placement, place
from engine.placement.shortage import too_large
from engine.resources import SHARED_ANYWAY
from engine.system import IS_LINUX

Pipelines = Executable | Sequence[Executable]


@dataclass(frozen=True)
class Plan:
    """A pipeline planned for a config. It starts nothing."""

    config: JobConfig
    logical: LogicalGraph
    execution: ExecutionGraph

    @classmethod
    def of(cls, pipelines: Pipelines, config: JobConfig) -> Plan:
        """Plan without starting anything; raises GraphError and ConfigError."""
        logical = logical_graph(pipelines)
        logical.validate_ends(here=config.runtime == "local")
        if config.checkpoints is not None:
            logical.validate_positions()
            broadcast.check_given_again(logical)
        broadcast.check(logical.operators, config)
        _check_pickling(logical, config)
        plan = cls(config, logical, expand(chain(logical, config.parallelism, config.resources)))
        if "require" in {config.native, *(each.native for each in logical.operators)}:
            ways.check(logical, plan.ways, config.native)
        return plan

    def rescaled(self, parallelism: int, savepoint: str) -> Plan:
        """The same plan, to go on from a savepoint with another parallelism."""
        config = replace(self.config, parallelism=parallelism, resume=savepoint)
        job = chain(self.logical, parallelism, config.resources)
        return replace(self, config=config, execution=expand(job))

    @property
    def ways(self) -> Mapping[int, str]:
        """How operators' functions of records run, by the operators' ids; see `engine.ways`."""
        return ways.ways(self.logical, self.execution, self.config.native)

    @property
    def resources(self) -> Mapping[str, float]:
        """The resources that all its tasks take together, by name."""
        total: dict[str, float] = {}
        for vertex in self.execution.job.vertices:
            for name, amount in vertex.resources.items():
                total[name] = total.get(name, 0.0) + vertex.parallelism * amount
        return total

    @property
    def in_vain(self) -> str | None:
        """A note on resources that tasks ask for and this runtime does not give."""
        asked = [
            name for name, amount in self.resources.items() if amount and name not in SHARED_ANYWAY
        ]
        if self.config.runtime != "local" or not asked:
            return None
        return (
            f"runtime 'local' gives out no {', '.join(asked)}, which operators ask for: all tasks "
            "share what this machine has"
        )

    def place(self, launcher: Launcher) -> Placement:
        """Give every task a node of the launcher's; raises PlacementError."""
        return self.place_on(launcher.nodes(self.resources))

    def check_place(self, launcher: Launcher) -> None:
        """Raise PlacementError if no wait could give every task a node of the launcher's."""
        nodes = [node.whole for node in launcher.nodes(self.resources)]
        try:
            self.place_on(nodes)
        except PlacementError as error:
            kinds = launcher.kinds(self.resources)
            if kinds is None or not self.config.start_timeout_seconds:
                raise
            larger = too_large(self.execution, nodes, kinds)
            if larger is not None:
                raise larger from error

    def place_on(self, nodes: Sequence[Node]) -> Placement:
        """Give every task one of the nodes; raises PlacementError."""
        if self.config.transport == "shm" and not IS_LINUX:
            raise ConfigError(
                "transport is 'shm', and channels in shared memory need Linux",
                "'auto' takes ipc on one node here, and tcp between nodes",
            )
        placement = place(
            self.execution, nodes, self.config.placement, self.config.strict_placement
        )
        if self.config.transport in ("shm", "ipc"):
            used = {node.id for node in placement.nodes.values()}
            if len(used) > 1:
                raise ConfigError(
                    f"transport is {self.config.transport!r} and the tasks are on {len(used)} "
                    "nodes, expected one node",
                    "'auto' takes shm on one node and tcp between nodes",
                )
        check_ports(self.execution, placement, self.config)
        if self.in_vain is not None:
            placement = replace(placement, notes=(*placement.notes, self.in_vain))
        return placement


def _check_pickling(logical: LogicalGraph, config: JobConfig) -> None:
    for operator in logical.operators:
        if operator.pickle and not config.is_private:
            raise ConfigError(
                f"operator {operator.name!r} has .with_pickle() and encryption is off, expected "
                "channels that strangers cannot write to",
                "leave encryption on, or take transport='shm' on one node: whoever can write a "
                "pickle can run code",
            )
