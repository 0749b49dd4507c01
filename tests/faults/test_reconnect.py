"""Channels between hosts: one that is cut off under load, and clocks that differ."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.testbed.network import Host, Network, missing
from tests.hosts import NAME, needs_hosts

pytestmark = needs_hosts

SOURCE = """
import json, sys, time
from engine.partitioner import Hash
from engine.network import Network, open_output_gate

address, seconds, timeout = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
network = Network([f"tcp://{address}:0"], reconnect_timeout_seconds=timeout)
print(network.endpoints[0], flush=True)
network.connect([(0, input())], [])
gate = open_output_gate(network, Hash(None), [0])
words = [f"word-{number % 100}" for number in range(500)]
emitted, started = 0, time.monotonic()
print("running", flush=True)
try:
    while time.monotonic() - started < seconds:
        gate.emit(words, [time.monotonic_ns()])
        emitted += 1
    network.finish()
    output = network.statistics().outputs[0]
    print(json.dumps({
        "emitted": emitted,
        "reconnects": output.reconnects,
        "retransmitted": output.retransmitted_frames,
        "interruption": output.longest_interruption_seconds,
        "offset": output.clock_offset_seconds,
        "uncertainty": output.clock_uncertainty_seconds,
    }), flush=True)
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
network.close()
"""

SINK = """
import json, sys, time
from collections import Counter
from engine.network import LatencyHistogram, Network

network = Network([f"tcp://{sys.argv[1]}:0"], reconnect_timeout_seconds=float(sys.argv[3]))
print(network.endpoints[0], flush=True)
network.connect([], [(0, input())])
print("running", flush=True)
counts, latency = Counter(), LatencyHistogram()
try:
    while (batch := network.receive()) is not None:
        counts.update(batch.to_list())
        latency.record_many(batch.markers, time.monotonic_ns())
    print(json.dumps({
        "counts": sorted(set(counts.values())), "words": len(counts),
        "least_us": latency.percentile(0), "p50_us": latency.percentile(50), "max_us": latency.max,
    }), flush=True)
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
network.close()
"""


class Pair:
    """A source and a sink of words, each on a host of its own."""

    def __init__(self, source: subprocess.Popen[str], sink: subprocess.Popen[str]) -> None:
        self._ends = (source, sink)
        endpoints = [self._line(end) for end in self._ends]
        for end, peer in zip(self._ends, reversed(endpoints), strict=True):
            assert end.stdin is not None
            end.stdin.write(f"{peer}\n")
            end.stdin.flush()
        for end in self._ends:
            assert self._line(end) == "running"

    def wait_ended(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both say at their end."""
        source, sink = (json.loads(self._line(end)) for end in self._ends)
        return source, sink

    @staticmethod
    def _line(end: subprocess.Popen[str]) -> str:
        assert end.stdout is not None
        if line := end.stdout.readline():
            return line.strip()
        assert end.stderr is not None
        raise AssertionError(end.stderr.read())


@contextmanager
def running_pair(
    source: Host, sink: Host, *, seconds: float, timeout: float = 10.0, sink_clock_ahead: int = 0
) -> Iterator[Pair]:
    """Emit for so many seconds; whatever happens, both processes are gone at the end."""
    arguments = (str(seconds), str(timeout))
    ends = [
        start(source, SOURCE, *arguments),
        start(sink, SINK, *arguments, clock_ahead=sink_clock_ahead),
    ]
    try:
        yield Pair(*ends)
    finally:
        for end in ends:
            with end:
                end.kill()


def start(host: Host, program: str, *arguments: str, clock_ahead: int = 0) -> subprocess.Popen[str]:
    """Run Python source on the host, with a monotonic clock that is so many seconds ahead."""
    clock = ["unshare", "--time", "--monotonic", str(clock_ahead)] if clock_ahead else []
    return host.start(
        *clock,
        *(sys.executable, "-c", program, host.address, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with Network.create(NAME, hosts=2) as network:
        first, second = network.hosts
        yield first, second


@pytest.mark.parametrize("outage_seconds", [0.5, 3.0])
def test_counts_are_exact_after_an_outage(hosts: tuple[Host, Host], outage_seconds: float) -> None:
    source, sink = hosts
    with running_pair(source, sink, seconds=outage_seconds + 5) as pair:
        time.sleep(1)
        sink.cut_off()
        time.sleep(outage_seconds)
        sink.plug_in()
        sent, arrived = pair.wait_ended()
    assert arrived["words"] == 100
    assert arrived["counts"] == [5 * sent["emitted"]]
    assert sent["interruption"] >= outage_seconds * 0.9
    if outage_seconds > 2:
        assert sent["reconnects"] >= 1
    assert arrived["max_us"] >= outage_seconds * 0.9e6


def test_an_outage_that_lasts_is_a_lost_channel(hosts: tuple[Host, Host]) -> None:
    source, sink = hosts
    with running_pair(source, sink, seconds=60, timeout=2.0) as pair:
        time.sleep(0.5)
        sink.cut_off()
        ends = pair.wait_ended()
    for end, peer in zip(ends, (sink, source), strict=True):
        assert end["error"] == "ChannelLost"
        assert f"channel 0 to tcp://{peer.address}" in end["message"]
        assert "hint: is the host of its other end up" in end["message"]


def no_time_namespace() -> str | None:
    """Why no process can have a clock of its own here; None if it can."""
    if (reason := missing()) is not None:
        return reason
    tried = subprocess.run(["unshare", "--time", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else f"no time namespaces: {tried.stderr.decode().strip()}"


@pytest.mark.skipif(no_time_namespace() is not None, reason=str(no_time_namespace()))
@pytest.mark.parametrize("ahead", [0, 1_000_000, -100])
def test_clocks_of_hosts_are_known(hosts: tuple[Host, Host], ahead: int) -> None:
    source, sink = hosts
    with running_pair(source, sink, seconds=2, sink_clock_ahead=ahead) as pair:
        sent, arrived = pair.wait_ended()
    assert abs(sent["offset"] - ahead) <= sent["uncertainty"]
    assert (sent["uncertainty"] == 0) == (ahead == 0)
    assert sent["uncertainty"] < 0.1
    assert arrived["p50_us"] < 10e6
    assert arrived["counts"] == [5 * sent["emitted"]]
