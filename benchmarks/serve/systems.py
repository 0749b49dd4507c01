"""The servers: Oka's pipelines, and others with the same handlers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from benchmarks.measurement import Case
from benchmarks.peers.peer import Peer
from engine.units import counted


@dataclass(frozen=True)
class ServeCase(Case):
    """A handler in one system and mode, with so many clients.

    `payload_bytes` is the size of the answer's body.
    """

    handler: str = "noop"
    clients: int = 64
    unit: ClassVar[str] = "requests/s"

    @property
    def label(self) -> str:
        """The case in words."""
        load = "" if self.load == "closed" else f", load {self.load}"
        return f"{self.handler} {self.system} {self.api}, {counted(self.clients, 'client')}{load}"


@dataclass(frozen=True)
class System:
    """One system in one mode."""

    system: str
    api: str
    handlers: tuple[str, ...]
    command: Callable[[str, int], list[str]]
    """The command that starts it, for a handler at a port."""
    peer: Peer | None = None
    """Its virtual environment, if it is not Oka's."""
    environment: Callable[[int, Path], dict[str, str]] = field(default=lambda _port, _folder: {})
    """Its environment variables, for a port and a folder."""
    start_seconds: float = 60.0
    """Longest until it answers."""

    def missing(self) -> str | None:
        """The reason why it cannot run here, and how to install it; None if it can."""
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
        start = [sys.executable, "-c", "from engine.cli.main import main; main()", "run"]
        return [*start, str(_ROOT / pipeline), f"port={port}", *arguments, "--progress", "none"]

    return command


def _peer(system: str, api: str, program: str) -> Peer:
    return Peer(system, api, "noop", "serve", program)


def _program(peer: Peer, port_offset: int = 0) -> Callable[[str, int], list[str]]:
    return lambda handler, port: [*peer.command, str(port + port_offset), handler]


def _ray(_port: int, _folder: Path) -> dict[str, str]:
    return {"RAY_USAGE_STATS_ENABLED": "0"}


def _direct(port: int, folder: Path) -> dict[str, str]:
    """Ray Serve with its manual's settings for throughput; the replica listens at the port."""
    return _ray(port, folder) | {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(port),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(port + 10),
    }


def _proxied(port: int, folder: Path) -> dict[str, str]:
    """The same with the HAProxy that comes with Ray Serve. Names of sockets have to be short."""
    return _ray(port, folder) | {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "c"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "s"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "state"),
    }


def _ray_serve(
    mode: str,
    environment: Callable[[int, Path], dict[str, str]],
    *handlers: str,
    proxy_offset: int = 0,
) -> System:
    """A mode; its proxy listens so many ports above that of the requests."""
    peer = _peer("ray_serve", mode, "serving/serve_ray.py")
    command = _program(peer, proxy_offset)
    return System("ray_serve", mode, handlers, command, peer, environment, start_seconds=120.0)


def _server(system: str, api: str, program: str) -> System:
    peer = _peer(system, api, program)
    return System(system, api, ("noop",), _program(peer), peer)


HANDLERS = ("noop", "hops", "ensemble", "busy", "model", "swaps", "disconnects")
_ROOT = Path(__file__).parents[2]
ONE_TASK = System("oka", "one_task", ("noop",), _oka(("noop", "pipelines/serve.py")))
TWO_PROCESSES = System(
    "oka",
    "two_processes",
    ("noop", "busy", "model", "swaps", "disconnects"),
    _oka(
        ("noop", "pipelines/serve.py apart=true"),
        ("model", "benchmarks/serve/model.py"),
        ("swaps", "benchmarks/serve/model.py every=0.5"),
        ("busy", "benchmarks/serve/busy.py"),
        ("disconnects", "pipelines/serve.py apart=true"),
    ),
)
"""The gateway in one, the handler in the other."""
TASKS = System(
    "oka",
    "process_each",
    ("hops", "ensemble"),
    _oka(("hops", "pipelines/serve.py:hops"), ("ensemble", "pipelines/serve.py:ensemble")),
)
"""Each operator in a process of its own."""
DEFAULT = _ray_serve("default", _ray, "noop", "hops", "ensemble")
PROXIED = _ray_serve("haproxy", _proxied, "noop", "hops", "ensemble")
DIRECT = _ray_serve("direct_ingress", _direct, "noop", proxy_offset=20)
UVICORN = _server("uvicorn", "asgi", "serving/serve_asgi.py")
FASTAPI = _server("fastapi", "uvicorn", "serving/serve_fastapi.py")
SYSTEMS = (ONE_TASK, TWO_PROCESSES, TASKS, DEFAULT, PROXIED, DIRECT, UVICORN, FASTAPI)


def system_of(case: Case) -> System:
    """The system of a case."""
    (found,) = (each for each in SYSTEMS if (each.system, each.api) == (case.system, case.api))
    return found
