"""Ports that tasks listen on: those of the range, whichever is free, and what if none is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

import engine
from engine.config import JobConfig
from engine.errors import ConfigError, StartError
from engine.host.ports import check_ports, listen
from engine.network import Network
from engine.placement.nodes import Node
from engine.placement.place import Placement
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from pipelines.model_broadcast import model_broadcast
from pipelines.word_count import word_count
from tests.integration.test_word_count import expected_counts


@pytest.fixture
def free() -> range:
    """Ten ports in a row that were free a moment ago, below those that the system hands out.

    Above 20999: jobs of the manifests for Kubernetes, which other tests run, listen below.
    """
    for first in range(21000, 30000, 10):
        with ExitStack() as sockets:
            try:
                for port in range(first, first + 10):
                    sockets.enter_context(taken(port))
            except OSError:
                continue
            return range(first, first + 10)
    raise AssertionError("no ten free ports in a row")


@pytest.fixture
def networks() -> Iterator[list[Network]]:
    opened: list[Network] = []
    yield opened
    for network in opened:
        network.close()


def taken(port: int) -> socket.socket:
    taker = socket.socket()
    try:
        taker.bind(("127.0.0.1", port))
        taker.listen()
    except OSError:
        taker.close()
        raise
    return taker


def text(found: range) -> str:
    return f"{found[0]}-{found[-1]}"


def port_of(network: Network) -> int:
    return int(network.endpoints[0].rpartition(":")[2])


def test_a_range_has_both_ends() -> None:
    assert list(JobConfig(port_range="20000-20002").ports or ()) == [20000, 20001, 20002]
    assert JobConfig().ports is None


def test_without_a_range_the_system_picks() -> None:
    assert listen("127.0.0.1", None, 7, str) == "tcp://127.0.0.1:0"


def test_tasks_that_listen_share_the_range_until_it_is_used_up(
    free: range, networks: list[Network]
) -> None:
    for task in range(10):
        networks.append(listen("127.0.0.1", free, task, lambda tcp: Network([tcp])))
    assert sorted(port_of(network) for network in networks) == list(free)
    with pytest.raises(StartError, match=r"all 10 of its ports on 127\.0\.0\.1 are") as caught:
        listen("127.0.0.1", free, 3, lambda tcp: Network([tcp]))
    assert text(free) in str(caught.value)
    assert "widen port_range" in str(caught.value.hint)


def test_a_port_that_someone_else_has_is_passed_over(free: range, networks: list[Network]) -> None:
    with taken(free[4]):
        networks.append(listen("127.0.0.1", free, 2, lambda tcp: Network([tcp])))
    assert port_of(networks[0]) == free[5]


def test_another_failure_to_listen_is_not_retried(free: range) -> None:
    tried = []

    def fail(tcp: str) -> None:
        tried.append(tcp)
        raise OSError("no such address")

    with pytest.raises(OSError, match="no such address"):
        listen("127.0.0.1", free, 0, fail)
    assert len(tried) == 1


def test_a_job_over_tcp_listens_within_its_range(free: range) -> None:
    counts = engine.execute(
        word_count(), parallelism=2, transport="tcp", port_range=text(free)
    ).output
    assert counts == expected_counts()


@pytest.fixture
def launcher() -> Iterator[ThreadLauncher]:
    launcher = ThreadLauncher()
    yield launcher
    launcher.shutdown()


def test_a_range_that_is_too_small_is_refused_before_anything_starts(
    launcher: ThreadLauncher,
) -> None:
    for transport, port_range in (("tcp", "20000-20002"), ("auto", "20000-20000")):
        with pytest.raises(ConfigError) as caught:
            Plan.of(
                word_count(),
                JobConfig(parallelism=2, transport=transport, port_range=port_range),  # type: ignore[arg-type]
            ).place(launcher)
        there_are = 3 if transport == "tcp" else 1
        assert caught.value.message == (
            f"port_range is '{port_range}', {there_are} ports, and the tasks on 127.0.0.1 listen "
            "on 4, expected at least as many"
        )
        assert f"by {4 - there_are} for each job" in str(caught.value.hint)


def test_only_what_listens_and_shares_a_host_needs_ports() -> None:
    config = JobConfig(parallelism=2, port_range="20000-20001")
    graph = Plan.of(word_count(), config).execution
    first, second = (Node(host, host, {}) for host in ("10.0.0.1", "10.0.0.2"))
    apart = Placement(dict(enumerate([first, first, second, second])))
    check_ports(graph, apart, config)
    same = Placement(dict(enumerate([first, replace(first, id="other"), first, second])))
    with pytest.raises(ConfigError, match=r"on 10\.0\.0\.1 listen on 3"):
        check_ports(graph, same, config)
    check_ports(graph, same, replace(config, transport="ipc"))
    check_ports(graph, same, replace(config, port_range=None))


def test_large_values_take_ports_of_the_same_range(free: range) -> None:
    pipeline = model_broadcast(model="memory:2MB", loaders=1)
    engine.execute(pipeline, port_range=text(free[:4]))  # two for each of two tasks
    with pytest.raises(ConfigError, match=r"3 ports, and the tasks on 127\.0\.0\.1 listen on 4"):
        engine.execute(pipeline, port_range=text(free[:3]))
