"""A network on this machine: hosts as network namespaces, joined by one switch.

The switch is a bridge in a namespace of its own, so that nothing of the machine's own network
changes. A host has its own address, its own `/dev/shm` and its own `/tmp/ray`; processor, clock,
process ids and all other files are the machine's.

    with Network.create("mine", hosts=2, rate=parse_rate("1gbit")) as network:
        first, second = network.hosts
        first.start("ping", "-c", "1", second.address).wait()
        print(network.counters())

The names of all parts of a network follow from its name: `remove` needs only the name, also after
the process that made the network was killed. It needs root, and the tools of iproute2 and
util-linux.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measurement import Traffic
from engine.errors import ConfigError, StartError

USUAL_NAME = "tb"
"""Of a network that nobody has named."""
RAY_FOLDER = Path("/tmp/ray")  # noqa: S108 - a host sees its own there
"""Ray's folder for sockets, logs and the address of its cluster, in `RAY_TMPDIR`."""


def missing() -> str | None:
    """The reason why no network can be made here; None if one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "mount", "unshare"):
        if shutil.which(tool) is None:
            return f"the tool {tool!r} is not installed"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no network namespaces: {tried.stderr.strip()}"


@dataclass(frozen=True)
class Host:
    """A network namespace at one port of the switch."""

    network: str
    number: int
    """From 1 on."""

    @property
    def namespace(self) -> str:
        """Its name for `ip netns`."""
        return f"{_prefix(self.network)}{self.number}"

    @property
    def address(self) -> str:
        """Its address in the network."""
        return address(self.number)

    @property
    def folder(self) -> Path:
        """The folder that its processes see as `/tmp/ray`."""
        return _folder(self.network) / f"{self.number}"

    def command(self, *arguments: str) -> list[str]:
        """A command that replaces itself by this one on the host, so that signals reach it."""
        mounts = " && ".join(f'mount --bind "{own}" "{path}"' for path, own in self._own().items())
        inside = ("sh", "-c", f'{mounts} && exec "$@"', "sh")
        return ["ip", "netns", "exec", self.namespace, *inside, *arguments]

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a process on the host; `options` are those of `subprocess.Popen`."""
        return subprocess.Popen(self.command(*arguments), **options)

    def processes(self) -> list[int]:
        """Ids of all processes that run on the host."""
        return [int(found) for found in _run("ip", "netns", "pids", self.namespace).split()]

    def rate(self) -> int | None:
        """Bits per second that its link carries in each direction; None is no limit."""
        found = json.loads(_run("tc", "-n", self.namespace, "-j", "qdisc", "show", "dev", "eth0"))
        limits = (each for each in found if each["kind"] == "tbf")
        return next((8 * each["options"]["rate"] for each in limits), None)

    def cut_off(self) -> None:
        """Cut the host off: its packets are dropped, its own interface stays up."""
        _run("ip", "-n", _switch(self.network), "link", "set", self._port, "nomaster")

    def plug_in(self) -> None:
        """Let packets pass again."""
        _run("ip", "-n", _switch(self.network), "link", "set", self._port, "master", "bridge")

    @property
    def _port(self) -> str:
        return f"port{self.number}"

    def _own(self) -> dict[str, Path]:
        """The host's own folders, and where they are."""
        shared_memory = f"testbed-{self.network}-{self.number}"
        return {str(RAY_FOLDER): self.folder, str(_SHARED_MEMORY): _SHARED_MEMORY / shared_memory}

    def _make(self, rate: int | None) -> None:
        for path, own in self._own().items():
            if not Path(path).exists():
                Path(path).mkdir()
                Path(path).chmod(0o777)  # the mode of Ray's folder, which other users use, too
            own.mkdir(mode=0o700)
        switch = _switch(self.network)
        _run("ip", "netns", "add", self.namespace)
        _run("ip", "-n", switch, "link", "add", self._port, "type", "veth",
             "peer", "name", "eth0", "netns", self.namespace)  # fmt: skip
        _run("ip", "-n", switch, "link", "set", self._port, "master", "bridge", "up")
        ip = ("ip", "-n", self.namespace)
        _run(*ip, "address", "add", f"{self.address}/24", "dev", "eth0")
        _run(*ip, "link", "set", "lo", "up")
        _run(*ip, "link", "set", "eth0", "up")
        # Programs look up the route to an outside address to find their own.
        _run(*ip, "route", "add", "default", "dev", "eth0")
        if rate is not None:
            for namespace, device in ((switch, self._port), (self.namespace, "eth0")):
                burst = max(_LEAST_BURST_BYTES, int(rate / 8 * _BURST_SECONDS))
                _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf",
                     "rate", f"{rate}bit", "burst", f"{burst}b", "latency", "50ms")  # fmt: skip


class Network:
    """Hosts and the switch between them; as a context it is removed at the end."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def create(cls, name: str = USUAL_NAME, *, hosts: int = 0, rate: int | None = None) -> Network:
        """Make the network with so many hosts, each with a link of so many bits per second.

        Raises ConfigError if it cannot be made here, or exists already.
        """
        check_name(name)
        if not 0 <= hosts <= MOST_HOSTS:
            raise ConfigError(f"{hosts} hosts, expected at most {MOST_HOSTS}")
        if (reason := missing()) is not None:
            raise ConfigError(
                f"no testbed can be made here: {reason}",
                "run it as root, with iproute2 and util-linux installed, on a kernel with network "
                "namespaces; in a container it needs the capability SYS_ADMIN",
            )
        if exists(name):
            raise ConfigError(
                f"the testbed {name!r} is up, or remains of it are there",
                f"tear it down with `oka testbed down{named(name)}`",
            )
        network = cls(name)
        try:
            _folder(name).mkdir(mode=0o700, parents=True)
            _run("ip", "netns", "add", _switch(name))
            _run("ip", "-n", _switch(name), "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", _switch(name), "link", "set", "bridge", "up")
            for _ in range(hosts):
                network.add_host(rate)
        except BaseException:
            remove(name)
            raise
        return network

    @classmethod
    def open(cls, name: str = USUAL_NAME) -> Network:
        """The existing network of that name. Raises ConfigError if there is none."""
        check_name(name)
        if _switch(name) not in _namespaces(name):
            raise ConfigError(
                f"no testbed {name!r} is up", f"make one: oka testbed up{named(name)}"
            )
        return cls(name)

    @property
    def hosts(self) -> list[Host]:
        """Its hosts by number."""
        numbers = (each.removeprefix(_prefix(self.name)) for each in _namespaces(self.name))
        return [
            Host(self.name, number) for number in sorted(int(n) for n in numbers if n.isdigit())
        ]

    def add_host(self, rate: int | None = None) -> Host:
        """Make one more host."""
        hosts = self.hosts
        host = Host(self.name, hosts[-1].number + 1 if hosts else 1)
        host._make(rate)
        return host

    def counters(self) -> dict[int, Traffic]:
        """The traffic on the link of each host, by the host's number."""
        found = json.loads(_run("ip", "-n", _switch(self.name), "-s", "-j", "link"))
        counters = {}
        for link in found:
            if port := re.fullmatch(r"port(\d+)", link["ifname"]):
                # The switch receives at the port what the host sends.
                sent, received = link["stats64"]["rx"], link["stats64"]["tx"]
                counters[int(port[1])] = Traffic(
                    sent["bytes"], sent["packets"], received["bytes"], received["packets"]
                )
        return counters

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        remove(self.name)


def remove(name: str) -> bool:
    """Kill all processes on the hosts of a network, and remove all its parts.

    Returns whether any existed. Ctrl-C and SIGTERM wait for its end.
    """
    check_name(name)
    if not exists(name):
        return False
    with _undisturbed():
        _kill_all(name)
        for namespace in _namespaces(name):
            _run("ip", "netns", "delete", namespace)
        for folder in _folders(name):
            shutil.rmtree(folder)
        with suppress(OSError):  # another network exists
            _STATE.rmdir()
            RAY_FOLDER.rmdir()
    return True


def exists(name: str) -> bool:
    """Whether a namespace or folder of the network exists."""
    return bool(_namespaces(name) or _folders(name))


def address(number: int) -> str:
    """The address of the host of that number, which need not exist."""
    return f"{_SUBNET}.{number}"


def check_name(name: str) -> None:
    """Raise ConfigError if no network can have this name."""
    if not re.fullmatch(r"[a-z0-9]{1,20}", name):
        raise ConfigError(
            f"the name is {name!r}, expected 1 to 20 small letters and digits",
            "it becomes part of the names of namespaces and folders, such as --name mine",
        )


def named(name: str) -> str:
    """The option of `oka testbed` that names the network, empty for the usual name."""
    return "" if name == USUAL_NAME else f" --name {name}"


def _kill_all(name: str) -> None:
    deadline = time.monotonic() + _KILL_SECONDS
    while pids := [
        int(pid)
        for namespace in _namespaces(name)
        for pid in _run("ip", "netns", "pids", namespace).split()
    ]:
        if time.monotonic() > deadline:
            raise StartError(
                f"processes {pids} of the testbed {name!r} do not end after SIGKILL",
                "they hang in the kernel; try again",
            )
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM to the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _prefix(name: str) -> str:
    return f"oka-{name}-"


def _switch(name: str) -> str:
    return f"{_prefix(name)}switch"


def _namespaces(name: str) -> list[str]:
    found = Path("/run/netns").glob(f"{_prefix(name)}*")
    return sorted(path.name for path in found)


def _folder(name: str) -> Path:
    return _STATE / name


def _folders(name: str) -> list[Path]:
    shared = _SHARED_MEMORY.glob(f"testbed-{name}-*")
    return [path for path in (_folder(name), *shared) if path.is_dir()]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


MOST_HOSTS = 250
_SUBNET = "10.213.0"
_STATE = Path("/run/oka-testbed")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - folders there are made with mode 0700
_KILL_SECONDS = 10.0
_BURST_SECONDS = 0.002
_LEAST_BURST_BYTES = 70_000
"""A packet of 64 KiB with its headers: the kernel has to split packets above the burst."""
