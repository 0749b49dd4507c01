"""What a worker runs beside the channels of its task, such as its models.

A service is planned on the driver for the tasks that have a part in it; each part travels in the
description of its task. The worker binds, connects, finishes and closes all services alike, and
knows none of them by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from engine.config import JobConfig

Opened = TypeVar("Opened")


@dataclass(frozen=True)
class Site:
    """Where a service runs: a task, and the worker that hosts it."""

    task: int
    name: str
    """The name of the task."""
    node: str
    """The name of its node, for messages."""
    config: JobConfig
    folder: str
    """The job's folder on this node, for local sockets."""
    address: str
    """The address to listen on over TCP."""
    listen_on: Callable[[Callable[[str], Opened]], Opened]
    """What the function given opens at `tcp://address:port`, at a port that the job may use."""
    say: Callable[[str], None] = lambda _what: None
    """Writes a line to the job's log, on the driver."""


@dataclass(frozen=True)
class Peer:
    """Another task, once its worker has bound everything."""

    name: str
    """What to call it in a message."""
    endpoints: Mapping[str, str]
    """Where its worker listens, by kind: channels and all services."""


class ServicePlan(Protocol):
    """The part of one task in a service: plain data that can be pickled."""

    @property
    def peers(self) -> tuple[int, ...]:
        """The tasks that it has to know when it connects."""

    @property
    def listeners(self) -> int:
        """How many TCP ports it listens on."""

    def bind(self, site: Site) -> Service:
        """Open what it needs at the worker."""


class Service(ABC):
    """A part at work.

    The order is `connect`, `entered`, `ready`, `finish`, `close`; `close` may come at any time. It,
    with `cancel`, `end_source`, `ready` and `metrics`, comes from any thread, the others from the
    task's.
    """

    @property
    def endpoints(self) -> Mapping[str, str]:
        """Where it listens, by a kind that no other service has."""
        return {}

    def connect(self, peers: Mapping[int, Peer]) -> None:  # noqa: B027 - it may have none
        """Connect to the peers of its plan. Then its local sockets need no names any more."""

    def ready(self) -> None:  # noqa: B027 - nobody may want to know
        """Take in that the task takes records: its operators are open, and have their models.

        From any thread; idempotent.
        """

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Work for the task in this thread as long as the block runs."""
        yield

    def end_source(self) -> None:  # noqa: B027 - it may have nothing to do with it
        """Take nothing more in: the task's source is to end. From any thread; idempotent."""

    def finish(self) -> None:  # noqa: B027 - it may owe nothing
        """Wait until others have what the task gave it: its operators have ended."""

    def metrics(self) -> Mapping[str, Any]:
        """What it has measured up to now, by the names of `Metrics`; from any thread."""
        return {}

    has_rescue = False
    """Whether it has a `rescue` and a `wanted`."""

    def wanted(self, records: Sequence[Any]) -> Sequence[Any]:
        """The records that are still worth work. Called in the task's thread, before a function."""
        return records

    def rescue(self, records: Sequence[Any], error: str) -> bool:  # noqa: ARG002 - as above
        """Handle records on which an operator's function has failed, so that the job goes on.

        Called in the task's thread. False where this service does not handle them.
        """
        return False

    def named(self, message: str) -> str:
        """The message with tasks in the place of their endpoints."""
        return message

    def cancel(self) -> None:  # noqa: B027 - it may never wait
        """Make what waits raise Cancelled; idempotent."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; idempotent."""
