"""The gateway as a service of workers: a server where requests begin, and ways back to it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ConfigError, GraphError
from engine.gateway.request import Request, Response
from engine.graph.execution import ExecutionGraph, ExecutionVertex
from engine.network import HttpGateway, HttpReplies
from engine.placement import Placement
from engine.service import Peer, Service, Site

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GatewaySettings:
    """What a gateway serves, where, and to whom."""

    host: str
    port: int
    path: str
    token: str | None
    certificate: tuple[str, str] | None
    """Files in PEM: the certificate with its chain, and its key."""
    max_in_flight: int
    max_body_bytes: int
    timeout_seconds: float
    header_seconds: float


@dataclass(frozen=True)
class GatewayPlan:
    """The part of one task: a gateway of its own, those that it answers, or both."""

    number: int = 0
    """Of its own gateway."""
    settings: GatewaySettings | None = None
    """Of its own gateway, if it has one."""
    shares_port: bool = False
    """Whether other gateways listen on its port."""
    gateways: tuple[tuple[int, int], ...] = ()
    """Those of other tasks that it answers: their numbers and tasks."""

    @property
    def peers(self) -> tuple[int, ...]:
        """The tasks whose gateways it answers."""
        return tuple(task for _, task in self.gateways)

    @property
    def listeners(self) -> int:
        """Clients come to the port that the program says, none of the job's."""
        return 0

    def bind(self, site: Site) -> Gateway:
        """Listen."""
        return Gateway(self, site)


def plan_gateways(graph: ExecutionGraph, placement: Placement) -> dict[int, GatewayPlan]:
    """The part of each task that begins with requests or answers them. Raises GraphError."""
    found = [(each, settings) for each in graph.vertices if (settings := _settings(each))]
    numbers = {vertex.id: number for number, (vertex, _) in enumerate(found)}
    plans = {
        vertex.id: GatewayPlan(numbers[vertex.id], settings, vertex.job_vertex.parallelism > 1)
        for vertex, settings in found
    }
    answering = [
        vertex
        for vertex in graph.vertices
        if any(each.operator.properties.answers for each in vertex.job_vertex.operators)
    ]
    if bool(found) != bool(answering):
        raise GraphError(
            "requests come in that nothing answers, expected a respond()"
            if found
            else "respond() has nothing to answer, expected a source(HttpSource(…)) in the job"
        )
    for vertex in graph.vertices if found else ():  # any may fail on a request
        others = []
        for task, number in numbers.items():
            if placement.nodes[task].id == placement.nodes[vertex.id].id:
                others += [(number, task)] if task != vertex.id else []
            elif vertex in answering:
                raise GraphError(
                    f"{vertex.name} answers requests of {graph.vertices[task].name} on another "
                    "node, expected the same",
                    hint="pin both with .on_nodes(0)",
                )
        plans[vertex.id] = replace(plans.get(vertex.id, GatewayPlan()), gateways=tuple(others))
    return plans


def _settings(vertex: ExecutionVertex) -> GatewaySettings | None:
    return vertex.job_vertex.operators[0].operator.properties.gateway


class Gateway(Service):
    """The gateway of one task, and its ways to those of others."""

    def __init__(self, plan: GatewayPlan, site: Site) -> None:
        self._plan = plan
        self._is_cancelled = False
        self._ways: dict[int, HttpGateway | HttpReplies] = {}
        """To the gateways, by their numbers."""
        self.server: HttpGateway | None = None
        self._local = f"{site.folder}/{site.task}.http"
        if (settings := plan.settings) is None:
            return
        try:
            self.server = HttpGateway(
                plan.number,
                settings.host,
                settings.port,
                settings.path,
                token=settings.token,
                max_in_flight=settings.max_in_flight,
                max_body_bytes=settings.max_body_bytes,
                timeout_seconds=settings.timeout_seconds,
                header_seconds=settings.header_seconds,
                shares_port=plan.shares_port,
                certificate=settings.certificate,
                replies=self._local,
            )
        except OSError as error:
            raise ConfigError(
                f"task {site.name} cannot serve http://{settings.host}:{settings.port}: {error}",
                "another port may be free; port=0 takes any that is",
            ) from None
        self._ways[plan.number] = self.server
        scheme = "http" if settings.certificate is None else "https"
        logger.warning(f"task {site.name} serves {scheme}://{self.server.address}{settings.path}")

    @property
    def endpoints(self) -> Mapping[str, str]:
        """Where replies of other tasks come in."""
        return {} if self.server is None else {_KIND: self._local}

    def connect(self, peers: Mapping[int, Peer]) -> None:
        """Connect to the gateways of others."""
        for number, task in self._plan.gateways:
            self._ways[number] = HttpReplies(peers[task].endpoints[_KIND])

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Operators that are opened in this thread use this gateway."""
        _of_thread.gateway = self
        try:
            yield
        finally:
            _of_thread.gateway = None

    def reply(self, responses: Sequence[Response]) -> None:
        """Answer requests, each at the gateway that it came in by."""
        for each in responses:
            if type(each) is not Response:
                raise TypeError(
                    f"respond() got {type(each).__name__} {each!r:.80}, expected what "
                    "request.reply(…) makes"
                )
        if len(self._ways) == 1:
            (way,) = self._ways.values()
            way.reply(list(responses))
            return
        by_gateway: dict[int, list[Response]] = {}
        for response in responses:
            by_gateway.setdefault(response.id >> _GATEWAY_SHIFT, []).append(response)
        for number, group in by_gateway.items():
            self._ways[number].reply(group)

    has_rescue = True

    def rescue(self, records: Sequence[Any], error: str) -> bool:
        """Answer requests that a function has failed on with 500, where all of these are some."""
        requests = [_request_of(record) for record in records]
        found = [each for each in requests if each and each.id >> _GATEWAY_SHIFT in self._ways]
        if len(found) < len(records):
            return False
        for request in found:
            logger.error(f"request {request.id:x} to {request.target:.80} failed: {error}")
        self.reply([each.reply(f"request {each.id:x} failed\n", 500) for each in found])
        return True

    def finish(self) -> None:
        """Wait until each request has ended; no more are taken."""
        if self.server is not None:
            self.server.drain()
            while self.server.in_flight and not self._is_cancelled:
                time.sleep(_LOOK_SECONDS)

    def metrics(self) -> Mapping[str, Any]:
        """How requests have ended."""
        if self.server is None:
            return {}
        names = ("answered", "expired", "disconnected", "refused")
        return {
            f"requests_{name}": count
            for name, count in zip(names, self.server.counts(), strict=True)
        }

    def cancel(self) -> None:
        """End all requests, and the source that waits for some."""
        self._is_cancelled = True
        self.close()

    def close(self) -> None:
        """End all requests, and the server."""
        if self.server is not None:
            self.server.close()


def gateway_in_use() -> Gateway:
    """The gateway of the task whose operators are opened in this thread."""
    gateway: Gateway | None = getattr(_of_thread, "gateway", None)
    assert gateway is not None, "the job has planned none for this task"
    return gateway


def _request_of(record: Any) -> Request | None:
    """The request that a record is, or has among its items."""
    if isinstance(record, Request):
        return record
    items = record.values() if isinstance(record, dict) else record
    if not isinstance(record, dict | list | tuple):
        return None
    return next((each for each in items if isinstance(each, Request)), None)


_of_thread = threading.local()
_KIND = "http"
_GATEWAY_SHIFT = 48  # as in rust/http/src/slots.rs
_LOOK_SECONDS = 0.01
