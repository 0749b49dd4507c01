"""The gateway as a service of workers: a server where requests begin, and ways back to it."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigError, GraphError
from engine.gateway.request import IDS, REQUEST, Request, Response, request_of, response
from engine.graph.execution import ExecutionGraph, ExecutionVertex
from engine.graph.operator import Properties
from engine.network import HttpGateway, HttpReplies
from engine.placement.place import Placement
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
    max_in_flight_bytes: int
    """The most bytes of bodies under way and of unread answers."""
    max_connections: int
    timeout_seconds: float
    client_seconds: float
    """How long a client may take for what it has to do next."""


@dataclass(frozen=True)
class Responder:
    """What an operator declares whose tasks answer requests."""


@dataclass(frozen=True)
class GatewayPlan:
    """The part of one task: a gateway of its own, if it begins with requests, and ways to all."""

    number: int = 0
    """The number of its own gateway."""
    settings: GatewaySettings | None = None
    """The settings of its own gateway, if it has one."""
    shares_port: bool = False
    """Whether other gateways of its node may listen on its port."""
    beside: tuple[int, ...] = ()
    """The other tasks of its node whose gateways do."""
    near: tuple[tuple[int, int], ...] = ()
    """Gateways of its node: their numbers and tasks."""
    far: tuple[tuple[int, int], ...] = ()
    """Gateways of other nodes."""
    answering: tuple[int, ...] = ()
    """Tasks of other nodes that answer requests of its own gateway."""
    timeout_seconds: float = 0.0
    """The longest that a request of the job may take."""
    tasks: int = 0
    """How many the job has, each of which tells all gateways when it works."""
    is_of_requests: bool = False
    """Whether requests alone lead to it, so that each of its records comes from one."""

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
        each.operator.properties.wanted(Responder) is not None
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
    of_requests = _of_requests(graph)

    def plan(task: int) -> GatewayPlan:  # of any: each may fail on a request
        node = placement.nodes[task].id
        is_near = {other: placement.nodes[other].id == node for other in placement.nodes}
        vertex = graph.vertices[task].job_vertex
        beside = (each for each in found if each != task and is_near[each])
        return GatewayPlan(
            numbers.get(task, 0),
            found.get(task),
            vertex.parallelism > 1,
            tuple(each for each in beside if graph.vertices[each].job_vertex is vertex),
            tuple((number, other) for other, number in numbers.items() if is_near[other]),
            tuple((number, other) for other, number in numbers.items() if not is_near[other]),
            tuple(other for other in sorted(is_near) if task in found and not is_near[other]),
            timeout_seconds,
            len(graph.vertices),
            graph.vertices[task].job_vertex.id in of_requests,
        )

    return {vertex.id: plan(vertex.id) for vertex in graph.vertices}


def _of_requests(graph: ExecutionGraph) -> set[int]:
    """The job's vertices to whose records no source leads but gateways."""
    found: set[int] = set()
    for vertex in graph.job.vertices:  # in topological order
        first = vertex.operators[0].operator.properties
        inputs = graph.job.inputs(vertex)
        of_records = [each for each in inputs if not (first.side_input and each.input)]
        if first.wanted(GatewaySettings) or (
            of_records and all(each.source in found for each in of_records)
        ):
            found.add(vertex.id)
    return found


def _settings(vertex: ExecutionVertex) -> GatewaySettings | None:
    first: Properties = vertex.job_vertex.operators[0].operator.properties
    return first.wanted(GatewaySettings)


class Gateway(Service):
    """The gateway of one task, and its ways to those of others."""

    def __init__(self, plan: GatewayPlan, site: Site) -> None:
        self._plan = plan
        self._config = site.config
        self._is_cancelled = False
        self._works = False
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
                max_in_flight_bytes=settings.max_in_flight_bytes,
                max_connections=settings.max_connections,
                timeout_seconds=settings.timeout_seconds,
                client_seconds=settings.client_seconds,
                tasks=plan.tasks,
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
            self.server.share_with([peers[task].endpoints[_LOCAL] for task in plan.beside])
        for gateways, kind in ((plan.near, _LOCAL), (plan.far, _TCP)):
            for number, task in gateways:
                self._ways.connect(number, peers[task].endpoints[kind], patience)

    def ready(self) -> None:
        """Tell all gateways: each says that it is ready when all tasks work."""
        if not self._works:
            self._works = True
            with suppress(OSError):  # one is gone, and the job knows
                self._ways.tell_work()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Operators that are opened in this thread use this gateway."""
        _of_thread.gateway = self
        try:
            yield
        finally:
            _of_thread.gateway = None

    def reply(self, responses: Sequence[Response]) -> None:
        """Answer requests, each at the gateway that it came in by.

        A value that is no answer is logged; its request, if it has one, gets a 500. Raises OSError
        where a gateway is gone.
        """
        own, others = [], []
        is_own = self._plan.number if self.server is not None else -1
        for each in responses:
            if type(each) is not Response:
                self._refuse(each)
            elif not isinstance(each.body, bytes):
                self._begin_stream(each, each.body)
            elif type(each.id) is int and each.id >> _GATEWAY_SHIFT == is_own:
                own.append(each)
            else:
                others.append(each)
        if own and self.server is not None:
            self._send(self.server.reply, own)
        if others:
            self._send(self._reply_elsewhere, others)

    def fail(self, request: Request, error: BaseException) -> None:
        """Answer a request with 500 and its id, which the log has with the error."""
        self.rescue([request], _told(error))

    def _send(self, send: Callable[[list[Response]], None], replies: list[Response]) -> None:
        """Send them; where they cannot be, one by one, so that each fails for itself."""
        try:
            send(replies)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - of a response that a function has made
            if len(replies) > 1:
                for each in replies:
                    self._send(send, [each])
                return
            name = replies[0].id
            if type(name) is int and self._ways.reaches(name & IDS):
                self.rescue([{REQUEST: name}], f"respond(): {_told(error)}")
            else:
                logger.error(f"respond() got an answer to {_shown(name)}, expected a request's id")

    def _reply_elsewhere(self, replies: list[Response]) -> None:
        for each in replies:
            if not self._ways.reaches(each.id):
                raise ValueError("there is no such gateway")
        self._ways.reply(replies)

    def _refuse(self, answer: object) -> None:
        told = f"respond() got {_shown(answer)}, expected what request.reply(…) makes"
        if not self.rescue([answer], told):
            logger.error(told)

    def _begin_stream(self, response: Response, body: Iterator[bytes]) -> None:
        thread = threading.Thread(target=self._stream, args=(response, body), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # there are too many
            self.rescue([{REQUEST: response.id}], f"{error}")

    def _stream(self, response: Response, body: Iterator[bytes]) -> None:
        """Send an answer piece by piece; in a thread of its own, while its client reads."""
        stream = None
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
        except BaseException as error:  # noqa: BLE001 - of a function of the user
            told = _told(error)
            if stream is None:
                with suppress(Exception):  # the job has ended
                    self.rescue([{REQUEST: response.id}], told)
            else:
                logger.error(f"request {response.id:x} failed: {told}")
        finally:
            if isinstance(body, Generator):
                try:
                    body.close()
                except BaseException as error:  # noqa: BLE001 - as above
                    logger.error(f"request {response.id:x}: closing its answer: {_told(error)}")

    has_rescue = True

    def wanted(self, records: Sequence[Any]) -> Sequence[Any]:
        """Leave out records of requests that nobody waits for any more.

        Looks at each only where there may be some: while requests live after one was abandoned,
        and where the first is too late.
        """
        if not records:
            return records
        now = time.time()
        if (abandoned := self._ways.abandoned()) != self._abandoned:
            self._abandoned = abandoned
            self._wary_until = now + self._plan.timeout_seconds
        first = request_of(records[0])
        if now > self._wary_until and (first is None or first.deadline > now):
            return records
        return [each for each in records if not self._is_abandoned(request_of(each), now)]

    def _is_abandoned(self, request: Request | None, now: float) -> bool:
        if request is None:
            return False
        is_abandoned = self._ways.is_abandoned(request.id)
        return request.deadline < now if is_abandoned is None else is_abandoned

    def rescue(self, records: Sequence[Any], error: str) -> bool:
        """Answer requests that a function failed on with 500, if all of these records have one.

        If the task gets requests alone, a record that has lost its request is logged and left out.
        """
        requests = [request_of(record) for record in records]
        found = [each for each in requests if each and self._ways.reaches(each.id)]
        lost = len(records) - len(found)
        if lost and not self._plan.is_of_requests:
            return False
        if lost:
            logger.error(f"{lost} records without their requests are left out: {error}")
        for request in found:
            target = f" to {request.target:.80}" if request.target else ""
            logger.error(f"request {request.id:x}{target} failed: {error}")
        if found:
            self.reply([response(each.id, f"request {each.id:x} failed\n", 500) for each in found])
        return True

    def end_source(self) -> None:
        """Refuse new requests, and those that the source has not taken."""
        if self.server is not None:
            self.server.drain()

    def finish(self) -> None:
        """Wait until each request has ended."""
        if self.server is not None:
            self.server.drain()  # the source may have ended by itself
            while self.server.in_flight and not self._is_cancelled:
                time.sleep(_LOOK_SECONDS)

    def metrics(self) -> Mapping[str, Any]:
        """How requests have ended, and the statuses of answers."""
        if self.server is None:
            return {}
        names = ("answered", "expired", "disconnected", "refused")
        ends = zip(names, self.server.counts(), strict=True)
        codes = {str(code): count for code, count in self.server.codes().items()}
        return {"responses": codes, **{f"requests_{name}": count for name, count in ends}}

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


def _told(error: BaseException) -> str:
    """Its type and what it says; whatever that raises."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - of a class of the user
        return type(error).__name__


def _shown(value: object) -> str:
    """Its type and the beginning of what it says of itself; whatever that raises."""
    try:
        return f"{type(value).__name__} {value!r:.80}"
    except BaseException:  # noqa: BLE001 - of a class of the user
        return type(value).__name__


_IN_USE_HINT = "another port may be free; port=0 takes any that is"
_of_thread = threading.local()
_LOCAL, _TCP, _KEY = "http", "http-tcp", "http-key"
_GATEWAY_SHIFT = 48  # as in rust/http/src/slots.rs
_LOOK_SECONDS = 0.01
