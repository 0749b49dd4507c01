"""A worker's TCP ports: any free port, or one of the job's `port_range`.

Everything of a worker that listens on TCP opens its port here. So a firewall or network policy has
to allow one range and nothing else.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from engine.config import JobConfig
from engine.deployment.services import plan_services
from engine.errors import ConfigError, StartError
from engine.graph.execution import ExecutionGraph
from engine.placement.place import Placement

Opened = TypeVar("Opened")


def listen(
    address: str, ports: range | None, task: int, open_at: Callable[[str], Opened]
) -> Opened:
    """The result of `open_at("tcp://address:port")` for the first free port of `ports`.

    It tries each port rather than looking it up, so that workers that start together never get the
    same one. Each worker begins at the place of its task, which is mostly free. Without ports the
    system picks one. Raises StartError if all ports are taken.
    """
    if ports is None:
        return open_at(f"tcp://{address}:0")
    for offset in range(len(ports)):
        port = ports[(_LISTENERS * task + offset) % len(ports)]
        try:
            return open_at(f"tcp://{address}:{port}")
        except Exception as error:
            if _IN_USE not in str(error):
                raise
    raise StartError(
        f"port_range is '{ports[0]}-{ports[-1]}' and all {len(ports)} of its ports on {address} "
        "are taken, expected a free one for each task of the node",
        "widen port_range, and the network policy that names it; two for each task of a node, "
        "times the jobs that run at the same time",
    )


def check_ports(graph: ExecutionGraph, placement: Placement, config: JobConfig) -> None:
    """Raise ConfigError if the tasks of a host need more ports than `port_range` has."""
    if config.ports is None:
        return
    needed: Counter[str] = Counter()
    for task, parts in plan_services(graph, placement).items():
        needed[placement.nodes[task].address] += sum(part.listeners for part in parts)
    if config.transport in ("auto", "tcp"):
        needed.update(placement.node(task).address for task in graph.vertices)
    there_are = len(config.ports)
    for address, count in needed.most_common(1):
        if count > there_are:
            raise ConfigError(
                f"port_range is {config.port_range!r}, {there_are} ports, and the tasks on "
                f"{address} listen on {count}, expected at least as many",
                f"widen port_range, and the network policy that names it, by {count - there_are} "
                "for each job that runs at the same time",
            )


_LISTENERS = 2
"""Ports that a worker usually opens: one for its channels, one for a service."""

_IN_USE = f"os error {errno.EADDRINUSE}"  # Rust's text for the error
