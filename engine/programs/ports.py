"""Free ports for programs that must be told one before they start."""

import random
import socket
from contextlib import suppress
from pathlib import Path

_FIRST_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUALLY = 32768


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody has now.

    They lie below those that the system gives to connections: one of these could take such a port
    before the program does.
    """
    given = int(_FIRST_GIVEN.read_text().split()[0]) if _FIRST_GIVEN.exists() else _USUALLY
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(given // 2, given)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]
