"""A check that a Ray cluster answers where Ray would look for one, before Ray waits for minutes.

Ray remembers addresses: in RAY_ADDRESS, and in a file of its temporary folder. It tries the address
of a dead cluster for a quarter of an hour.
"""

from __future__ import annotations

import os
import queue
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any

import ray
from ray._common.utils import get_ray_address_file
from ray._private import services
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError

from engine.errors import ConfigError, StartError


def check_ray_address(setting: str | None) -> bool:
    """Raise StartError unless a cluster answers where `ray.init(address=setting)` would connect to.

    It takes at most `_PATIENCE_SECONDS`. Nothing is asked where Ray would start a cluster, or would
    find one in another way (`module://…`). A process that is connected stays with its cluster:
    ConfigError if the setting names another. Returns whether there is a cluster to connect to; else
    Ray would start one.
    """
    found = _connected(setting) if ray.is_initialized() else _found(setting)
    if found is None:
        return ray.is_initialized() or "://" in (setting or os.environ.get("RAY_ADDRESS") or "")
    host, port = _host_and_port(found)
    token = _token(found)
    told: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    # In a thread, since nothing else bounds how long it takes to look up a name.
    threading.Thread(
        target=lambda: told.put(_problem(host, port, found.is_client, token)),
        name="oka-ray-address",
        daemon=True,
    ).start()
    try:
        problem = told.get(timeout=_PATIENCE_SECONDS)
    except queue.Empty:
        problem = _NOTHING
    if problem == _REFUSED:
        does = "refused the token of this process" if token else "asks for a token"
        raise StartError(
            f"the Ray cluster at {found.address}, {found.origin}, {does}: {_token_origin(token)}",
            HOW_TO_BE_LET_IN,
        )
    if problem is not None:
        raise StartError(
            f"no Ray cluster answers at {found.address}, {found.origin}: {problem}", found.hint
        )
    return True


def by_client() -> bool:
    """Whether this process is connected by Ray's client, and so is no driver of the cluster."""
    return bool(ray.util.client.ray.is_connected())  # type: ignore[no-untyped-call]


def client() -> Any:
    """Ray's client, by which this process is connected."""
    return ray.util.client.ray.get_context().client_worker  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Found:
    """An address, where it comes from, and what to do if no cluster is there."""

    address: str
    origin: str
    hint: str
    is_named: bool = True
    """Whether the user named the address. To a cluster that Ray finds by itself it sends any
    token."""

    @property
    def is_client(self) -> bool:
        """Whether a server for Ray's clients has this address, rather than the cluster's GCS."""
        return self.address.startswith(_CLIENT)


def _found(setting: str | None) -> _Found | None:
    """What `ray.init` would connect to, found in the order that it documents."""
    address, is_named = setting, True
    origin, hint = "the address in the setting ray_address", _HINT_SETTING
    if address in (None, "auto") and (environment := os.environ.get("RAY_ADDRESS")):
        address = environment
        origin, hint = "the address in the environment variable RAY_ADDRESS", _HINT_ENVIRONMENT
    if address in (None, "auto"):
        is_named = False
        file = get_ray_address_file(None)
        services.find_gcs_addresses.cache_clear()  # type: ignore[attr-defined]  # as ray.init does
        try:
            remembered = services.find_bootstrap_address(None)
            address = services.get_ray_address_from_environment(address, None)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            raise StartError(f"no Ray cluster was found: {error}", _HINT_START) from error
        origin, hint = f"the address in the file {file}", _HINT_FILE.format(file=file)
        if address != remembered:
            origin, hint = "that of a GCS process of this machine", _HINT_START
    if address in (None, "local"):
        return None
    if "://" in address and not address.startswith(_CLIENT):
        return None
    return _Found(address, origin, hint, is_named)


def _connected(setting: str | None) -> _Found | None:
    """The cluster that this process is connected to; None if Ray's client connects it."""
    address: str
    if by_client():
        address = _CLIENT + client()._conn_str
        named = (setting or "").partition("?")[0].rstrip("/")
    else:
        address = ray.get_runtime_context().gcs_address
        named = setting or ""
    if named not in ("", "auto", address) and _canonical(named) != _canonical(address):
        raise ConfigError(
            f"ray_address is {setting!r}, and this process is connected to {address} already",
            "leave ray_address out; or leave that cluster before, by ray.shutdown() and, if jobs "
            "run there, by waiting for their end",
        )
    if by_client():
        return None
    return _Found(
        address,
        "which this process is connected to",
        "call ray.shutdown(), and connect to a cluster that runs",
    )


def _canonical(address: str) -> str:
    """The address as Ray writes it, with the host's number in place of its name."""
    scheme = _CLIENT if address.startswith(_CLIENT) else ""
    try:
        found = services.canonicalize_bootstrap_address(address.removeprefix(scheme))
        host, _, port = (found or "").rpartition(":")
        return f"{scheme}{socket.gethostbyname(host)}:{port}"
    except (OSError, ValueError):
        return address


def _token(found: _Found) -> str:
    """The token that Ray will send there; empty if none."""
    found_by_itself = not found.is_named and "RAY_AUTH_MODE" not in os.environ
    try:
        loader = AuthenticationTokenLoader.instance()
        token: str = loader.get_raw_token(ignore_auth_mode=found_by_itself)
    except AuthenticationError:  # there is none
        return ""
    return token


def _token_origin(token: str) -> str:
    """Where the token is from, or why there is none."""
    mode = os.environ.get("RAY_AUTH_MODE")
    if not token and (mode or "").lower() != "token":
        return "RAY_AUTH_MODE is " + ("not set here" if mode is None else f"{mode!r} here")
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        if os.environ.get(name):
            return f"see {name}"
    return "see ~/.ray/auth_token" if token else "none was found here"


def _host_and_port(found: _Found) -> tuple[str, int]:
    host, _, port = found.address.removeprefix(_CLIENT).partition("/")[0].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise StartError(
            f"{found.address!r} is {found.origin}, expected host:port, ray://host:port, 'auto' or "
            "'local'",
            found.hint,
        )
    return host.strip("[]"), int(port)


def _problem(host: str, port: int, is_client: bool, token: str) -> str | None:
    """Why no cluster is there; None if there is one.

    Both kinds of server speak gRPC over HTTP/2 and answer a greeting with their settings. A GCS
    also gets the first question of its clients. A server for clients is asked for the log of no
    client: its settings are enough, but a wrong token gets an error.
    """
    try:
        with socket.create_connection((host, port), _PATIENCE_SECONDS) as plain:
            if is_client:  # its settings are enough
                plain.settimeout(_PATIENCE_SECONDS / 2)
            connection = _secured(plain) if _uses_tls() else plain
            connection.sendall(
                _GREETING + _question(_OF_CLIENTS if is_client else _OF_A_GCS, token)
            )
            return _judged(connection, is_client)
    except TimeoutError:
        return _NOTHING
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:  # a name that cannot be one
        return str(error)


def _judged(connection: socket.socket, is_client: bool) -> str | None:
    """What is wrong with the answer. Versions are not checked: Ray itself has an error for them."""
    received = b""
    settings = False
    while True:
        while len(received) >= _HEAD_BYTES:
            end = _HEAD_BYTES + int.from_bytes(received[:3], "big")
            kind, stream = received[3], int.from_bytes(received[5:_HEAD_BYTES], "big")
            if not settings and (kind != _SETTINGS or stream != 0):
                return f"something else listens there, which says {received[:20]!r}"
            if len(received) < end:
                break
            settings = True
            if stream == 1:
                return _answered(received[_HEAD_BYTES:end], is_client)
            received = received[end:]
        try:
            more = connection.recv(65536)
        except TimeoutError:
            if settings and is_client:
                return None
            raise
        if not more:
            if settings and is_client:
                return None
            said = f", which says {received[:20]!r}" if received and not settings else ""
            return f"something else listens there{said} and closes the connection"
        received += more


def _answered(answer: bytes, is_client: bool) -> str | None:
    """What is wrong with the answer to the question."""
    if _UNAUTHENTICATED in answer:
        return _REFUSED
    if _UNIMPLEMENTED in answer and not is_client:
        return "another server with gRPC listens there"
    return None


def _uses_tls() -> bool:
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


def _secured(plain: socket.socket) -> socket.socket:
    """The connection with TLS, by Ray's documented variables. Ray itself checks the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    certificate = os.environ.get("RAY_TLS_SERVER_CERT")
    if certificate is not None:
        context.load_cert_chain(certificate, os.environ.get("RAY_TLS_SERVER_KEY"))
    return context.wrap_socket(plain)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2 (RFC 9113, section 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def _question(path: bytes, token: str) -> bytes:
    """An empty message to a method, with the token if there is one."""
    bearer = b"\x0f\x08" + _text(f"Bearer {token}".encode()) if token else b""  # authorization
    method = b"\x04" + _text(path)  # :path
    headers = _frame(_HEADERS, 4, 1, _SCHEME + method + _OTHERS + bearer)  # END_HEADERS
    return headers + _frame(_DATA, 1, 1, bytes(5))  # END_STREAM


def _text(text: bytes) -> bytes:
    """A string literal of HPACK (RFC 7541, sections 5.1 and 5.2)."""
    if len(text) < 127:
        return bytes([len(text)]) + text
    length, left = b"\x7f", len(text) - 127
    while left > 127:
        length, left = length + bytes([left % 128 + 128]), left // 128
    return length + bytes([left]) + text


_PATIENCE_SECONDS = 4.0
_NOTHING = f"nothing was heard for {_PATIENCE_SECONDS:g} s"
_CLIENT = "ray://"
_HEAD_BYTES, _DATA, _HEADERS, _SETTINGS = 9, 0, 1, 4
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b"")
_OF_A_GCS = b"/ray.rpc.NodeInfoGcsService/GetClusterId"
_OF_CLIENTS = b"/ray.rpc.RayletLogStreamer/Logstream"
_SCHEME = b"\x83\x86"  # :method POST, :scheme http
_OTHERS = (
    b"\x01"  # :authority
    + _text(b"gcs")
    + (b"\x00" + _text(b"te") + _text(b"trailers"))
    + (b"\x0f\x10" + _text(b"application/grpc"))  # content-type
)
_UNIMPLEMENTED = _text(b"grpc-status") + _text(b"12")
_UNAUTHENTICATED = _text(b"grpc-status") + _text(b"16")
_REFUSED = "the token is not the cluster's"

HOW_TO_BE_LET_IN = (
    "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the cluster's token, or RAY_AUTH_TOKEN_PATH to "
    "a file that has it"
)
_HINT_START = "start one with `ray start --head`, or leave ray_address out for a local one"
_HINT_SETTING = f"is it still running, and reachable from here? {_HINT_START}"
_HINT_ENVIRONMENT = "unset RAY_ADDRESS, or let it name a cluster that runs"
_HINT_FILE = (
    "the cluster that wrote it has ended: `ray stop` or `rm {file}` forgets it; `ray start --head` "
    "starts another, ray_address='local' one for this job alone"
)
