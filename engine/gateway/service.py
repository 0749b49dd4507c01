"""The gateway as a service of workers: a server where requests begin, and ways back to it."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigError, GraphError
from engine.gateway.columns import REQUEST
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
    """The part of one task: a gateway of its own, if it begins with requests, and ways to all."""

    number: int = 0
    """Of its own gateway."""
    settings: GatewaySettings | None = None
    """Of its own gateway, if it has one."""
    shares_port: bool = False
    """Whether other gateways of its node may listen on its port."""
    near: tuple[tuple[int, int], ...] = ()
    """Gateways of its node: their numbers and tasks."""
    far: tuple[tuple[int, int], ...] = ()
    """Gateways of other nodes."""
    answering: tuple[int, ...] = ()
    """Tasks of other nodes that answer requests of its own gateway."""
    timeout_seconds: float = 0.0
    """The longest that a request of the job may take."""

    @property
    def peers(self) -> tuple[int, ...]:
        """The tasks that it has to know."""
        return (*(task for _, task in (*self.near, *self.far)), *self.answering)

    @property
    def listeners(self) -> int:
        """Answers of other nodes come to a port of their own."""
        return 1 if self.answering else 0

    def bind(self, site: Site) -> Gateway:
        """Listen."""
        return Gateway(self, site)


def plan_gateways(graph: ExecutionGraph, placement: Placement) -> dict[int, GatewayPlan]:
    """The part of each task of a job with requests. Raises GraphError."""
    found = {each.id: settings for each in graph.vertices if (settings := _settings(each))}
    answers = any(
        each.operator.properties.answers
        for vertex in graph.vertices
        for each in vertex.job_vertex.operators
    )
    if bool(found) != answers:
        raise GraphError(
            "requests come in that nothing answers, expected a respond()"
            if found
            else "respond() has nothing to answer, expected a source(HttpSource(…)) in the job"
        )
    if not found:
        return {}
    numbers = {task: number for number, task in enumerate(found)}
    timeout_seconds = max(settings.timeout_seconds for settings in found.values())

    def plan(task: int) -> GatewayPlan:  # of any: each may fail on a request
        node = placement.nodes[task].id
        is_near = {other: placement.nodes[other].id == node for other in placement.nodes}
        return GatewayPlan(
            numbers.get(task, 0),
            found.get(task),
            graph.vertices[task].job_vertex.parallelism > 1,
            tuple((number, other) for other, number in numbers.items() if is_near[other]),
            tuple((number, other) for other, number in numbers.items() if not is_near[other]),
            tuple(other for other in sorted(is_near) if task in found and not is_near[other]),
            timeout_seconds,
        )

    return {vertex.id: plan(vertex.id) for vertex in graph.vertices}


def _settings(vertex: ExecutionVertex) -> GatewaySettings | None:
    found: GatewaySettings | None = vertex.job_vertex.operators[0].operator.properties.gateway
    return found


class Gateway(Service):
    """The gateway of one task, and its ways to those of others."""

    def __init__(self, plan: GatewayPlan, site: Site) -> None:
        self._plan = plan
        self._config = site.config
        self._is_cancelled = False
        self._abandoned = 0
        """Requests of this node that had ended without an answer when it last looked."""
        self._wary_until = 0.0
        """Until when some of those may still come by."""
        self._ways = HttpReplies(site.config.encryption and bool(plan.far))
        self.server: HttpGateway | None = None
        self._local = f"{site.folder}/{site.task}.http"
        self._remote: str | None = None
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
                _IN_USE_HINT if f"os error {errno.EADDRINUSE}" in str(error) else None,
            ) from None
        if plan.answering:
            server = self.server
            self._remote = site.listen_on(lambda tcp: server.listen(tcp, site.config.encryption))
        scheme = "http" if settings.certificate is None else "https"
        logger.warning(f"task {site.name} serves {scheme}://{self.server.address}{settings.path}")

    @property
    def endpoints(self) -> Mapping[str, str]:
        """Where answers of other tasks come in, and the key of answers from here."""
        found = {_KEY: self._ways.key.hex()}
        if self.server is not None:
            found[_LOCAL] = self._local
        if self._remote is not None:
            found[_TCP] = self._remote
        return found

    def connect(self, peers: Mapping[int, Peer]) -> None:
        """Connect to all gateways, its own too: what is streamed goes that way."""
        plan, patience = self._plan, self._config.connect_timeout_seconds
        if self.server is not None:
            keys = [bytes.fromhex(peers[task].endpoints[_KEY]) for task in plan.answering]
            self.server.admit([key for key in keys if key])
        for gateways, kind in ((plan.near, _LOCAL), (plan.far, _TCP)):
            for number, task in gateways:
                self._ways.connect(number, peers[task].endpoints[kind], patience)

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
        own, others = [], []
        is_own = self._plan.number if self.server is not None else -1
        for each in responses:
            if type(each) is not Response:
                raise TypeError(
                    f"respond() got {type(each).__name__} {each!r:.80}, expected what "
                    "request.reply(…) makes"
                )
            if type(each.body) is not bytes:
                thread = threading.Thread(target=self._stream, args=(each, each.body), daemon=True)
                thread.start()
            elif each.id >> _GATEWAY_SHIFT == is_own:
                own.append(each)
            else:
                others.append(each)
        if own and self.server is not None:
            self.server.reply(own)
        if others:
            self._ways.reply(others)

    def _stream(self, response: Response, body: Iterator[bytes]) -> None:
        """Send an answer piece by piece; in a thread of its own, while its client reads."""
        name, stream = f"request {response.id:x}", None
        try:
            for piece in body:
                try:
                    if stream is None:
                        stream = self._ways.stream(response.id, response.status, response.head)
                    stream.write(piece)
                except OSError:
                    return  # the client has gone, or the job has ended
            if stream is None:
                stream = self._ways.stream(response.id, response.status, response.head)
            stream.finish()
        except Exception as error:  # noqa: BLE001 - of a function of the user
            logger.error(f"{name} failed: {type(error).__name__}: {error}")
            if stream is None:
                self.reply([Response(response.id, 500, b"", f"{name} failed\n".encode())])
        finally:
            if isinstance(body, Generator):
                body.close()

    has_rescue = True

    def wanted(self, records: Sequence[Any]) -> Sequence[Any]:
        """Leave out what belongs to a request that nobody waits for any more.

        Looks at each only where there may be some: while requests live after one was abandoned,
        and where the first is too late.
        """
        if not records:
            return records
        now = time.time()
        if (abandoned := self._ways.abandoned()) != self._abandoned:
            self._abandoned = abandoned
            self._wary_until = now + self._plan.timeout_seconds
        first = _request_of(records[0])
        if now > self._wary_until and (first is None or first.deadline > now):
            return records
        return [each for each in records if not self._is_abandoned(_request_of(each), now)]

    def _is_abandoned(self, request: Request | None, now: float) -> bool:
        if request is None:
            return False
        is_abandoned = self._ways.is_abandoned(request.id)
        return request.deadline < now if is_abandoned is None else is_abandoned

    def rescue(self, records: Sequence[Any], error: str) -> bool:
        """Answer requests that a function has failed on with 500, where all of these are some."""
        requests = [_request_of(record) for record in records]
        found = [each for each in requests if each and self._ways.reaches(each.id)]
        if len(found) < len(records):
            return False
        for request in found:
            target = f" to {request.target:.80}" if request.target else ""
            logger.error(f"request {request.id:x}{target} failed: {error}")
        self.reply([each.reply(f"request {each.id:x} failed\n", 500) for each in found])
        return True

    def end_source(self) -> None:
        """Refuse requests from now on, also those that the source has not taken."""
        if self.server is not None:
            self.server.drain()

    def finish(self) -> None:
        """Wait until each request has ended."""
        if self.server is not None:
            self.server.drain()  # the source may have ended by itself
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
    if isinstance(record, dict) and type(name := record.get(REQUEST)) is int:  # a row of columns
        return Request(name, "", "", b"", b"", float("inf"))
    items = record.values() if isinstance(record, dict) else record
    if not isinstance(record, dict | list | tuple):
        return None
    return next((each for each in items if isinstance(each, Request)), None)


_IN_USE_HINT = "another port may be free; port=0 takes any that is"
_of_thread = threading.local()
_LOCAL, _TCP, _KEY = "http", "http-tcp", "http-key"
_GATEWAY_SHIFT = 48  # as in rust/http/src/slots.rs
_LOOK_SECONDS = 0.01
