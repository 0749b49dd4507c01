"""The services of a job: which there are, and all those of one worker as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from engine.broadcast.service import plan_models
from engine.deployment.folders import plan_folders
from engine.gateway.service import plan_gateways
from engine.graph.execution import ExecutionGraph
from engine.placement.place import Placement
from engine.service import Peer, Service, ServicePlan, Site


def plan_services(
    graph: ExecutionGraph, placement: Placement
) -> dict[int, tuple[ServicePlan, ...]]:
    """The parts of each task in the services of the job, by the task's id. Raises GraphError."""
    planned: dict[int, tuple[ServicePlan, ...]] = {}
    for plan in _PLANNERS:
        for task, part in plan(graph, placement).items():
            planned[task] = (*planned.get(task, ()), part)
    return planned


class Services:
    """The services of one worker, in the order in which they were planned; false if it has none."""

    def __init__(self) -> None:
        self._plans: Sequence[ServicePlan] = ()
        self._services: list[Service] = []

    def __bool__(self) -> bool:
        return bool(self._services)

    def bind(self, plans: Sequence[ServicePlan], site: Site) -> dict[str, str]:
        """Bind each; all their endpoints."""
        self._plans = plans
        endpoints: dict[str, str] = {}
        for plan in plans:
            self._services.append(plan.bind(site))
            endpoints |= self._services[-1].endpoints
        return endpoints

    def connect(self, peers: Mapping[int, Peer]) -> None:
        """Connect each to those of these peers that its plan says."""
        for plan, service in zip(self._plans, self._services, strict=True):
            service.connect({task: peers[task] for task in plan.peers})

    def ready(self) -> None:
        """Tell each that the task takes records; from any thread."""
        for service in self._services:
            service.ready()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have all work for the task in this thread as long as the block runs."""
        with ExitStack() as stack:
            for service in self._services:
                stack.enter_context(service.entered())
            yield

    def end_source(self) -> None:
        """Tell each that the task's source is to end."""
        for service in self._services:
            service.end_source()

    def finish(self) -> None:
        """Wait until others have what the task gave to each."""
        for service in self._services:
            service.finish()

    @property
    def has_rescue(self) -> bool:
        """Whether one of them may deal with records that functions fail on."""
        return any(service.has_rescue for service in self._services)

    def wanted(self, records: Sequence[Any]) -> Sequence[Any]:
        """The records that all services still want to be processed."""
        for service in self._services:
            records = service.wanted(records)
        return records

    def rescue(self, records: Sequence[Any], error: str) -> bool:
        """Have one service deal with records that a function failed on; True if one did."""
        return any(service.rescue(records, error) for service in self._services)

    def metrics(self) -> list[Mapping[str, Any]]:
        """The measurements of each service."""
        return [service.metrics() for service in self._services]

    def named(self, message: str) -> str:
        """The message with tasks in the place of their endpoints."""
        for service in self._services:
            message = service.named(message)
        return message

    def cancel(self) -> None:
        """Make what waits in any of them raise Cancelled."""
        for service in self._services:
            service.cancel()

    def close(self) -> None:
        """Close all."""
        for service in self._services:
            service.close()


_PLANNERS = (plan_models, plan_gateways, plan_folders)
