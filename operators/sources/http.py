"""A source of requests over HTTP."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import GraphError
from engine.gateway import (
    Gateway,
    GatewaySettings,
    Request,
    columns_of_requests,
    gateway_in_use,
    is_schema,
    row_of,
)
from engine.graph.checks import check_integer
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator, SourceReader
from engine.installation.distribution import install_hint

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import TypeAdapter


class HttpSource(SourceOperator[Any]):
    """Requests to a path of an HTTP server, which `respond()` answers.

    A task takes up to `batch_size` waiting requests at once. With `max_wait_ms` it waits this long
    after the first for more, if larger batches pay off, as for a model. Requests that are not
    answered within `timeout` seconds get a 504, those above `max_in_flight` at once a 503 and
    bodies above `max_body_bytes` a 413.

    Bodies under way and answers that clients have not read take `max_in_flight_bytes` in all; above
    that there are 503s. None is four of the largest bodies, and 64 MiB at least. A client that
    takes longer than `client_timeout` seconds for its next step (TLS, a request, its body, reading
    on) is cut off. So are the idlest clients if there are more than `max_connections`, or more than
    the process has descriptors for.

    It listens on this machine alone unless `host` says otherwise; clients then have to show
    `token`, as `Authorization: Bearer …`. With `certificate`, files in PEM of a certificate with
    its chain and of its key, it speaks HTTPS.

    With a `schema` records are pairs of a request and its JSON body: a dict for a dict of names and
    types (`schema={"text": str, "top": int}`), else a dataclass, a TypedDict or a pydantic model.
    Bodies that do not fit are answered with 422 and each wrong field. With a `pyarrow.Schema`
    records are columns: its fields, which each body must have, and `_request`, by which `respond()`
    answers each row with its other columns.

    `with_parallelism(2).on_nodes(0, 1)` makes a gateway on each of two nodes; gateways of one node
    share its port.

    It never ends by itself. After a failure, requests under way are answered with 503.
    """

    def __init__(
        self,
        port: int = 8000,
        path: str = "/",
        host: str = "127.0.0.1",
        *,
        token: str | None = None,
        certificate: tuple[str, str] | None = None,
        max_in_flight: int = 1024,
        max_body_bytes: int = 16 << 20,
        max_in_flight_bytes: int | None = None,
        max_connections: int = 4096,
        max_wait_ms: float = 0.0,
        timeout: float = 30.0,
        client_timeout: float = 10.0,
        schema: Any = None,
    ) -> None:
        check_integer("port", port, 0)
        check_integer("max_in_flight", max_in_flight, 1)
        check_integer("max_body_bytes", max_body_bytes, 0)
        check_integer("max_connections", max_connections, 1)
        if max_in_flight_bytes is None:
            max_in_flight_bytes = max(_LEAST_BYTES, 4 * max_body_bytes)
        check_integer("max_in_flight_bytes", max_in_flight_bytes, max_body_bytes)
        if port > _LAST_PORT:
            raise GraphError(f"port is {port}, expected at most {_LAST_PORT}")
        if not path.startswith("/"):
            raise GraphError(f"path is {path!r}, expected one that begins with /")
        if host not in _OF_THIS_MACHINE and not token:
            raise GraphError(
                f"host is {host!r} and token is {token!r}, expected a token where others can come",
                hint="HttpSource(token=…); clients send it as `Authorization: Bearer …`",
            )
        for name, value, least in (
            ("max_wait_ms", max_wait_ms, 0.0),
            ("timeout", timeout, 0.001),
            ("client_timeout", client_timeout, 0.001),
        ):
            if not least <= value < float("inf"):
                raise GraphError(f"{name} is {value!r}, expected a number >= {least:g}")
        self.max_wait_ms = max_wait_ms
        self.schema = schema
        # Made here, since names in a script's annotations are known where the script runs.
        self._adapter = None if schema is None or is_schema(schema) else _adapter(schema)
        self.settings = GatewaySettings(
            host,
            port,
            path,
            token,
            certificate,
            max_in_flight,
            max_body_bytes,
            max_in_flight_bytes,
            max_connections,
            timeout,
            client_timeout,
        )

    @property
    def properties(self) -> Properties:
        """Its endpoint; one task by default."""
        return Properties(
            parallelism=1, services=(self.settings,), emits_columns=is_schema(self.schema)
        )

    def open(self, context: TaskContext) -> SourceReader:
        """The requests of this task's gateway."""
        gateway, linger_seconds = gateway_in_use(), self.max_wait_ms / 1e3
        if self.schema is None:
            return _Requests(gateway, context.batch_size, linger_seconds)
        if self._adapter is None:
            return _Columns(gateway, context.batch_size, linger_seconds, self.schema)
        return _Typed(gateway, context.batch_size, linger_seconds, self._adapter)


class _Requests(SourceReader):
    position = ()
    """It has no position."""

    def __init__(self, gateway: Gateway, limit: int, linger_seconds: float) -> None:
        assert gateway.server is not None
        self._gateway = gateway
        self._server = gateway.server
        self._limit = limit
        self._linger_seconds = linger_seconds

    def restore(self, position: tuple[()]) -> None:
        """Nothing: earlier requests were answered with 503."""

    def _refuse(self, request: Request, wrong: Sequence[Any]) -> None:
        """Answer the request with the errors of its body."""
        said = {"detail": wrong, "request": f"{request.id:x}"}
        self._server.reply([request.reply(said, 422)])

    def __iter__(self) -> Iterator[list[Any]]:
        take, limit, linger = self._server.take, self._limit, self._linger_seconds
        while (batch := take(limit, _LOOK_SECONDS, linger, Request)) is not None:
            yield batch


class _Typed(_Requests):
    def __init__(
        self, gateway: Gateway, limit: int, linger_seconds: float, adapter: "TypeAdapter[Any]"
    ) -> None:
        super().__init__(gateway, limit, linger_seconds)
        self._adapter = adapter

    def __iter__(self) -> Iterator[list[Any]]:
        from pydantic import ValidationError

        validate = self._adapter.validate_json
        for batch in super().__iter__():
            pairs = []
            for request in batch:
                try:
                    try:
                        pairs.append((request, validate(request.body)))
                    except ValidationError as error:
                        wrong = error.errors(
                            include_url=False, include_context=False, include_input=False
                        )
                        self._refuse(request, wrong)
                except BaseException as error:  # noqa: BLE001 - a validator's, of this body alone
                    self._gateway.fail(request, error)
            yield pairs


class _Columns(_Requests):
    def __init__(
        self, gateway: Gateway, limit: int, linger_seconds: float, schema: "pa.Schema"
    ) -> None:
        super().__init__(gateway, limit, linger_seconds)
        self._schema = schema

    def __iter__(self) -> Iterator[Any]:
        schema = self._schema
        for batch in super().__iter__():
            requests, rows = [], []
            for request in batch:
                row, wrong = row_of(request.body, schema)
                if wrong:
                    self._refuse(request, wrong)
                else:
                    requests.append(request)
                    rows.append(row)
            yield from self._columns(requests, rows)

    def _columns(
        self, requests: Sequence[Request], rows: Sequence[dict[str, Any]]
    ) -> Iterator[Any]:
        """One batch, or several if one cannot take all: a dictionary's size is limited."""
        if not rows:
            yield []
            return
        try:
            batch = columns_of_requests([each.id for each in requests], rows, self._schema)
        except Exception as error:  # noqa: BLE001 - of what is in these bodies
            if len(rows) == 1:
                self._gateway.fail(requests[0], error)
                return
            half = len(rows) // 2
            yield from self._columns(requests[:half], rows[:half])
            yield from self._columns(requests[half:], rows[half:])
        else:
            yield batch


def _adapter(schema: Any) -> "TypeAdapter[Any]":
    try:
        from pydantic import PydanticUserError, TypeAdapter
        from typing_extensions import TypedDict  # which pydantic brings; it wants no other
    except ModuleNotFoundError:
        raise GraphError(
            "HttpSource(schema=…) needs the package pydantic, which is not installed",
            hint=install_hint("serve"),
        ) from None
    try:
        if isinstance(schema, dict):
            return TypeAdapter(TypedDict("schema", schema))  # type: ignore[operator]
        return TypeAdapter(schema)
    except (PydanticUserError, TypeError) as error:
        raise GraphError(
            f"schema is {schema!r:.80}, expected a dict of names and types, a dataclass, a "
            f"TypedDict or a pydantic model: {str(error).splitlines()[0]}"
        ) from None


_OF_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
_LAST_PORT = 65535
_LEAST_BYTES = 64 << 20
_LOOK_SECONDS = 0.1
"""Seconds between the task's checks whether it has ended."""
