"""The clients: Debian's `wrk` for the closed loop, `oka-load` at a rate and for disconnects."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ConfigError
from engine.network import LatencyHistogram
from engine.programs import built


@dataclass(frozen=True)
class Closed:
    """The measurement of clients that send the next request as soon as they have an answer."""

    requests: int
    seconds: float
    histogram: bytes
    """HDR V2, ns."""

    @classmethod
    def of(cls, output: str) -> Closed:
        """The output of `wrk.lua`. Raises RuntimeError if a request failed."""
        found = json.loads(output.strip().splitlines()[-1])
        errors = {name: count for name, count in found["errors"].items() if count}
        if errors or not found["requests"]:
            raise RuntimeError(f"wrk had {found['requests']} answers and errors {errors}")
        latencies = LatencyHistogram()
        for microseconds, count in found["latencies_us"]:
            latencies.record_many([0] * count, microseconds * 1000)
        return cls(found["requests"], found["duration_us"] / 1e6, latencies.to_bytes())


@dataclass(frozen=True)
class Class:
    """The requests that ended in one way."""

    count: int
    per_second: float
    p99_ms: float
    histogram: bytes
    """HDR V2, ns."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Class:
        """As `oka-load` has written it."""
        histogram = base64.b64decode(found["histogram"])
        return cls(found["count"], found["per_second"], found["p99_ms"], histogram)


@dataclass(frozen=True)
class Open:
    """The measurement of requests that arrived at a rate."""

    arrived: int
    not_sent: int
    answered: Class
    refused: Class
    other: Class
    errors: Class

    @classmethod
    def of(cls, output: str) -> Open:
        """The output of `oka-load`."""
        found = json.loads(output)
        classes = (Class.of(found["classes"][name]) for name in ("2xx", "503", "other", "errors"))
        return cls(found["arrived"], found["not_sent"], *classes)


def closed(url: str, clients: int, seconds: float) -> Closed:
    """So many clients, for whole seconds. `{n}` in the URL differs from client to client."""
    rounded = max(1, round(seconds))
    command = [_wrk(), "-t1", f"-c{clients}", f"-d{rounded}", "--timeout", "30", "-s", str(_SCRIPT)]
    path = url[url.index("/", len("http://")) :]
    return Closed.of(_run([*command, url, *(["--", path] if "{n}" in path else [])]))


def at_rate(url: str, rate: float, clients: int, seconds: float, seed: int) -> Open:
    """Requests at a rate over so many connections; a request waits for a free one."""
    options = {"rate": rate, "connections": clients, "seconds": seconds, "seed": seed}
    return Open.of(_load(url, options | {"waiting": _MOST_WAITING, "drain": _DRAIN_SECONDS}))


def disconnects(url: str, number: int, clients: int, seed: int) -> float:
    """Clients that disconnect without an answer, so many at a time; how many a second."""
    options = {"disconnect": number, "connections": clients, "seed": seed}
    found = json.loads(_load(url, options))
    if found["failed"]:
        raise RuntimeError(f"{found['failed']} of {number} clients could not connect or send")
    return float(number / found["seconds"])


def check() -> None:
    """Raise ConfigError if a client is missing."""
    _wrk()
    _program()


def _wrk() -> str:
    found = shutil.which("wrk")
    if found is None:
        raise ConfigError("there is no wrk, which asks in a closed loop", "apt-get install wrk")
    return found


def _program() -> Path:
    path = _ROOT / "target" / "release" / "oka-load"
    return built("the client at a rate", "OKA_LOAD", path, "`make load` builds it in a checkout")


def _load(url: str, options: Mapping[str, float]) -> str:
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return _run([str(_program()), url, *words])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout}")
    return done.stdout


_ROOT = Path(__file__).parents[2]
_MOST_WAITING = 1_000_000
"""None is left out, as long as there is memory: it would have been a slow one."""
_DRAIN_SECONDS = 30
_SCRIPT = Path(__file__).parent / "wrk.lua"
