"""`oka testbed`: a cluster of several hosts on this machine, for as long as one likes.

It stores no state: `status`, `exec` and `down` find hosts, addresses and rates by the names of the
namespaces, also after `up` was killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console

from benchmarks.testbed.cluster import Cluster, check_nodes
from benchmarks.testbed.network import USUAL_NAME, Host, Network, named, remove
from benchmarks.testbed.rate import RateType, show_rate
from engine.cli.help import Group
from engine.errors import ConfigError, StartError
from engine.report.tables import table
from engine.units import counted

Command = TypeVar("Command", bound=Callable[..., Any])


def name_option(command: Command) -> Command:
    """`--name`, for several testbeds at a time."""
    return click.option(
        "--name", default=USUAL_NAME, help="Of the testbed: small letters and digits."
    )(command)


@click.group("testbed", cls=Group)
def command() -> None:
    """Hosts with links of a limited rate and a Ray node each, all on this machine. Needs root."""


@command.command()
@click.option("--nodes", default=2, help="Hosts; the Ray head is on the first.")
@click.option(
    "--rate",
    type=RateType(),
    default="unlimited",
    help="Of each host's link, in each direction: 1gbit, 100mbit, unlimited.",
)
@click.option("--cpus", default=2, help="CPUs that each Ray node offers.")
@name_option
def up(nodes: int, rate: int | None, cpus: int, name: str) -> None:
    """Make the hosts and start Ray on them."""
    check_nodes(nodes)
    if cpus < 1:
        raise ConfigError(
            f"cpus is {cpus}, expected at least 1", "a node without CPUs can run no task"
        )
    with _progress() as tell:
        tell(f"making {counted(nodes, 'host')}")
        network = Network.create(name, hosts=nodes, rate=rate)
        cluster = Cluster(network)
        try:
            cluster.start(cpus, tell=tell)
        except BaseException:
            tell("stopped: removing the hosts")
            remove(name)
            raise
    click.echo(
        f"{counted(nodes, 'host')}, links {show_rate(rate)}, Ray at {cluster.address} inside\n"
        f"use it:      oka testbed exec{named(name)} -- oka run FILE --runtime ray\n"
        f"end it:      oka testbed down{named(name)}"
    )


@command.command()
@name_option
def down(name: str) -> None:
    """End all processes on the hosts and remove the hosts, also after a crash."""
    removed = remove(name)
    click.echo(f"the testbed {name!r} is removed" if removed else f"no testbed {name!r} is up")


@command.command()
@name_option
def status(name: str) -> None:
    """Show the hosts, their rates, whether Ray lives, and the bytes on their links."""
    network = Network.open(name)
    with _progress() as tell:
        tell("asking Ray for its nodes")
        alive, problem = _nodes(network)
    counters = network.counters()
    rows = []
    for host in network.hosts:
        traffic, resources = counters[host.number], alive.get(host.address)
        rows.append(
            (
                f"{host.number}",
                host.address,
                show_rate(host.rate()),
                "dead" if resources is None else "alive",
                "" if resources is None else f"{resources.get('CPU', 0):g}",
                f"{len(host.processes())}",
                f"{traffic.sent_bytes:,}",
                f"{traffic.sent_packets:,}",
                f"{traffic.received_bytes:,}",
                f"{traffic.received_packets:,}",
            )
        )
    click.echo(table(_COLUMNS, rows))
    if problem:
        raise StartError(problem, f"start anew: oka testbed down{named(name)}, then up")


@command.command("exec", context_settings={"ignore_unknown_options": True})
@click.option("--node", default=1, help="Number of the host; 1 is the head's.")
@name_option
@click.argument("arguments", metavar="-- COMMAND...", nargs=-1, required=True)
def execute(node: int, name: str, arguments: tuple[str, ...]) -> None:
    """Run a command on a host, with RAY_ADDRESS set; its exit status is that of the command."""
    network = Network.open(name)
    host = _host(network, node)
    sys.stdout.flush()
    sys.stderr.flush()
    # This process becomes the command: Ctrl-C and the exit status are its own.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    line = host.command(*arguments)
    os.execvpe(line[0], line, Cluster(network).environment())  # noqa: S606 - no shell is wanted


def _host(network: Network, number: int) -> Host:
    hosts = network.hosts
    for host in hosts:
        if host.number == number:
            return host
    there_are = ", ".join(f"{host.number}" for host in hosts) or "none"
    raise ConfigError(f"node is {number}, the hosts are {there_are}", "see `oka testbed status`")


def _nodes(network: Network) -> tuple[dict[str, dict[str, float]], str]:
    """The living Ray nodes, and the reason if there are none."""
    if not network.hosts:
        return {}, "the testbed has no host"
    try:
        return Cluster(network).nodes(), ""
    except StartError as error:
        return {}, error.message


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A progress line on a terminal."""
    with Console(stderr=True).status("") as shown:
        yield shown.update


_COLUMNS = (
    "host",
    "address",
    "rate",
    "ray",
    "cpus",
    "processes",
    "bytes sent",
    "packets",
    "bytes received",
    "packets",
)
