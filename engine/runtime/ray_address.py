"""Whether a Ray cluster answers where Ray would look for one: asked before Ray waits for minutes.

Ray remembers addresses: in RAY_ADDRESS, and in a file of its temporary folder. Those of clusters
that have died it tries for a quarter of an hour.
"""

from __future__ import annotations

import os
import queue
import socket
import ssl
import threading
from dataclasses import dataclass

import ray
from ray._common.utils import get_ray_address_file
from ray._private import services

from engine.errors import ConfigError, StartError


def check_ray_address(setting: str | None) -> None:
    """Raise StartError unless a cluster answers where `ray.init(address=setting)` would connect to.

    It takes at most `_PATIENCE_SECONDS`. Where Ray would start a cluster of its own, or look for
    one by ways of its own (`module://…`), there is nothing to ask. A process that is connected
    stays with its cluster: ConfigError if the setting names another.
    """
    found = _connected(setting) if ray.is_initialized() else _found(setting)
    if found is None:
        return
    host, port = _host_and_port(found)
    told: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    # In a thread, since nothing else bounds how long it takes to look up a name.
    threading.Thread(
        target=lambda: told.put(_problem(host, port, found.is_client)),
        name="oka-ray-address",
        daemon=True,
    ).start()
    try:
        problem = told.get(timeout=_PATIENCE_SECONDS)
    except queue.Empty:
        problem = _NOTHING
    if problem is not None:
        raise StartError(
            f"no Ray cluster answers at {found.address}, {found.origin}: {problem}", found.hint
        )


def by_client() -> bool:
    """Whether this process is connected by Ray's client, and so is no driver of the cluster."""
    return bool(ray.util.client.ray.is_connected())  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Found:
    """An address, where it comes from, and what to do if no cluster is there."""

    address: str
    origin: str
    hint: str

    @property
    def is_client(self) -> bool:
        """Whether it is that of a server for Ray's clients, and not of the cluster's GCS."""
        return self.address.startswith(_CLIENT)


def _found(setting: str | None) -> _Found | None:
    """What `ray.init` would connect to, found in the order that it documents."""
    address = setting
    origin, hint = "the address in the setting ray_address", _HINT_SETTING
    if address in (None, "auto") and (environment := os.environ.get("RAY_ADDRESS")):
        address = environment
        origin, hint = "the address in the environment variable RAY_ADDRESS", _HINT_ENVIRONMENT
    if address in (None, "auto"):
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
    return _Found(address, origin, hint)


def _connected(setting: str | None) -> _Found | None:
    """The cluster that this process is connected to; None if it is by Ray's client."""
    if by_client():
        return None
    address: str = ray.get_runtime_context().gcs_address
    if setting not in (None, "auto", address) and _canonical(setting) != address:
        raise ConfigError(
            f"ray_address is {setting!r}, and this process is connected to {address} already",
            "leave ray_address out, or call ray.shutdown() before",
        )
    return _Found(
        address,
        "which this process is connected to",
        "call ray.shutdown(), and connect to a cluster that runs",
    )


def _canonical(address: str) -> str | None:
    """As Ray writes it, with the number of a host and not a name."""
    try:
        found = services.canonicalize_bootstrap_address(address)
        host, _, port = (found or "").rpartition(":")
        return f"{socket.gethostbyname(host)}:{port}"
    except (OSError, ValueError):
        return None


def _host_and_port(found: _Found) -> tuple[str, int]:
    host, _, port = found.address.removeprefix(_CLIENT).partition("/")[0].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise StartError(
            f"{found.address!r} is {found.origin}, expected host:port, ray://host:port, 'auto' or "
            "'local'",
            found.hint,
        )
    return host.strip("[]"), int(port)


def _problem(host: str, port: int, is_client: bool) -> str | None:
    """Why no cluster is there; None if there is one.

    Both kinds of server speak gRPC, over HTTP/2: they tell their settings when they are greeted. A
    GCS is asked what its clients ask first, too.
    """
    try:
        with socket.create_connection((host, port), _PATIENCE_SECONDS) as plain:
            connection = _secured(plain) if _uses_tls() else plain
            connection.sendall(_GREETING if is_client else _GREETING + _QUESTION)
            return _judged(connection, is_client)
    except TimeoutError:
        return _NOTHING
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:  # a name that cannot be one
        return str(error)


def _judged(connection: socket.socket, is_client: bool) -> str | None:
    """What is wrong with the answer. Tokens and versions are not: Ray has words for them."""
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
            if is_client:
                return None
            if stream == 1:
                unknown = _UNIMPLEMENTED in received[_HEAD_BYTES:end]
                return "another server with gRPC listens there" if unknown else None
            received = received[end:]
        more = connection.recv(65536)
        if not more:
            said = f", which says {received[:20]!r}" if received and not settings else ""
            return f"something else listens there{said} and closes the connection"
        received += more


def _uses_tls() -> bool:
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


def _secured(plain: socket.socket) -> socket.socket:
    """The connection with TLS, by the variables that Ray documents. Ray itself checks who it is."""
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


def _text(text: bytes) -> bytes:
    """A string literal of HPACK (RFC 7541, section 5.2)."""
    return bytes([len(text)]) + text


_PATIENCE_SECONDS = 4.0
_NOTHING = f"nothing was heard for {_PATIENCE_SECONDS:g} s"
_CLIENT = "ray://"
_HEAD_BYTES, _DATA, _HEADERS, _SETTINGS = 9, 0, 1, 4
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b"")
_QUESTION = _frame(
    _HEADERS,
    4,  # END_HEADERS
    1,
    b"\x83\x86"  # :method POST, :scheme http
    + (b"\x04" + _text(b"/ray.rpc.NodeInfoGcsService/GetClusterId"))  # :path
    + (b"\x01" + _text(b"gcs"))  # :authority
    + (b"\x00" + _text(b"te") + _text(b"trailers"))
    + (b"\x0f\x10" + _text(b"application/grpc")),  # content-type
) + _frame(_DATA, 1, 1, bytes(5))  # END_STREAM; an empty message
_UNIMPLEMENTED = _text(b"grpc-status") + _text(b"12")

_HINT_START = "start one with `ray start --head`, or leave ray_address out for a local one"
_HINT_SETTING = f"is it still running, and reachable from here? {_HINT_START}"
_HINT_ENVIRONMENT = "unset RAY_ADDRESS, or let it name a cluster that runs"
_HINT_FILE = (
    "the cluster that wrote it has ended: `ray stop` or `rm {file}` forgets it; `ray start --head` "
    "starts another, ray_address='local' one for this job alone"
)
