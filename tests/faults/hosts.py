"""Two hosts on one machine: network namespaces joined by a cable, and clocks of their own.

Needs root, and the tools of iproute2 and util-linux.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


def missing() -> str | None:
    """Why there can be no hosts here; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            return f"the tool {tool!r} is not installed"
    tried = subprocess.run(["unshare", "--net", "--time", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else f"no namespaces: {tried.stderr.decode().strip()}"


needs_hosts = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@dataclass(frozen=True)
class Host:
    """One end of the cable: a network namespace with an address."""

    namespace: str
    address: str

    def start(self, program: str, *arguments: str, clock_ahead: int = 0) -> subprocess.Popen[str]:
        """Run Python source on the host, whose monotonic clock is `clock_ahead` seconds ahead."""
        clock = ["unshare", "--time", "--monotonic", str(clock_ahead)] if clock_ahead else []
        python = [sys.executable, "-c", program, self.address, *arguments]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, *clock, *python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )


class Cable:
    """What joins the two hosts; whatever is on it while it is out is lost."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def pull_out(self) -> None:
        """Neither host hears of it: packets vanish."""
        self._set("down")

    def plug_in(self) -> None:
        """Packets pass again."""
        self._set("up")

    def _set(self, state: str) -> None:
        _ip("-n", self._namespace, "link", "set", "middle", state)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host, Cable]]:
    """Two hosts and the cable between them, which is a bridge in a namespace of its own.

    The cable goes out in the middle, so that both hosts' own interfaces stay up, as with a switch
    that fails. Everything is removed at the end.
    """
    number = next(_NUMBERS)
    names = [f"oka-{os.getpid()}-{number}-{role}" for role in ("switch", "a", "b")]
    switch, *ends = names
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("-n", switch, "link", "add", "middle", "type", "bridge")
        hosts = []
        for host, end in enumerate(ends):
            port = f"port{host}"
            _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0",
                "netns", end)  # fmt: skip
            _ip("-n", switch, "link", "set", port, "master", "middle", "up")
            address = f"10.213.0.{host + 1}"
            _ip("-n", end, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", end, "link", "set", "eth0", "up")
            _ip("-n", end, "link", "set", "lo", "up")
            hosts.append(Host(end, address))
        _ip("-n", switch, "link", "set", "middle", "up")
        yield hosts[0], hosts[1], Cable(switch)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=True)


_NUMBERS = itertools.count()
