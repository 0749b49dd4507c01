"""What answers requests: Oka's pipelines, and other servers with the same handlers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from benchmarks.measurement import Case
from benchmarks.peers.peer import Peer


@dataclass(frozen=True)
class ServeCase(Case):
    """A handler, in one way of one system, with so many clients.

    `payload_bytes` are those of the answer's body.
    """

    handler: str = "noop"
    clients: int = 64
    unit: ClassVar[str] = "requests/s"

    @property
    def label(self) -> str:
        """The case in words."""
        load = "" if self.load == "closed" else f", load {self.load}"
        return f"{self.handler} {self.system} {self.api}, {self.clients} clients{load}"


@dataclass(frozen=True)
class System:
    """One way of one system to answer requests."""

    system: str
    api: str
    handlers: tuple[str, ...]
    command: Callable[[str, int], list[str]]
    """Starts it, for a handler at a port."""
    peer: Peer | None = None
    """Where its environment is another one than Oka's."""
    environment: Callable[[int, Path], dict[str, str]] = field(default=lambda _port, _folder: {})
    """What it is told for a port, with a folder of its own."""
    start_seconds: float = 60.0
    """Longest until it answers."""

    def missing(self) -> str | None:
        """Why it cannot run here, and what installs it; None if it can."""
        absent = self.peer.missing() if self.peer else None
        return f"{absent}; {self.peer.setup}" if absent and self.peer else None

    def case(self, handler: str, clients: int) -> ServeCase:
        """The case of a handler."""
        return ServeCase(
            *(self.system, self.api, "own", "own", len("ok"), 1, 1),
            handler=handler,
            clients=clients,
        )


def _oka(*pipelines: tuple[str, str]) -> Callable[[str, int], list[str]]:
    def command(handler: str, port: int) -> list[str]:
        pipeline, *arguments = dict(pipelines)[handler].split()
        start = [sys.executable, "-c", "from engine.cli import main; main()", "run"]
        return [*start, str(_ROOT / pipeline), f"port={port}", *arguments, "--progress", "none"]

    return command


def _peer(system: str, api: str, program: str) -> Peer:
    return Peer(system, api, "noop", "serve", program)


def _program(peer: Peer) -> Callable[[str, int], list[str]]:
    return lambda handler, port: [*peer.command, str(port), handler]


def _throughput(port: int, folder: Path) -> dict[str, str]:
    """Ray Serve as its manual says for throughput; replicas listen themselves."""
    return _ray(port, folder) | {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(port),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(port),
    }


def _proxied(_port: int, folder: Path) -> dict[str, str]:
    """The same with HAProxy in front of the replicas; it comes with Ray Serve."""
    proxy = folder / "haproxy"
    return _ray(_port, folder) | {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(proxy / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(proxy / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(proxy),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(proxy / "server-state"),
    }


def _ray(_port: int, _folder: Path) -> dict[str, str]:
    return {"RAY_USAGE_STATS_ENABLED": "0"}


def _ray_serve(
    mode: str, environment: Callable[[int, Path], dict[str, str]], *handlers: str
) -> System:
    peer = _peer("ray_serve", mode, "serve_ray.py")
    return System(
        *("ray_serve", mode, handlers, _program(peer), peer, environment), start_seconds=120.0
    )


def _server(system: str, api: str, program: str) -> System:
    peer = _peer(system, api, program)
    return System(system, api, ("noop",), _program(peer), peer)


_ROOT = Path(__file__).parents[2]
ALONE = System(
    "oka",
    "one_task",
    ("noop", "hops", "ensemble"),
    _oka(
        ("noop", "pipelines/serve.py"),
        ("hops", "pipelines/serve.py:hops"),
        ("ensemble", "pipelines/serve.py:ensemble"),
    ),
)
"""Handlers that are chained run in the gateway's process: of `noop` there is no other."""
APART = System(
    "oka",
    "two_processes",
    ("noop", "busy", "disconnects"),
    _oka(
        ("noop", "pipelines/serve.py apart=true"),
        ("busy", "benchmarks/serve/busy.py"),
        ("disconnects", "pipelines/serve.py apart=true"),
    ),
)
"""The gateway in one process, the handler in another."""
DEFAULT = _ray_serve("default", _ray, "noop", "hops", "ensemble")
PROXIED = _ray_serve("haproxy", _proxied, "noop", "hops", "ensemble")
DIRECT = _ray_serve("direct_ingress", _throughput, "noop")
UVICORN = _server("uvicorn", "asgi", "serve_asgi.py")
FASTAPI = _server("fastapi", "uvicorn", "serve_fastapi.py")
SYSTEMS = (ALONE, APART, DEFAULT, PROXIED, DIRECT, UVICORN, FASTAPI)


def system_of(case: Case) -> System:
    """The system of a case."""
    (found,) = (each for each in SYSTEMS if (each.system, each.api) == (case.system, case.api))
    return found
