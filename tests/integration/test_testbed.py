"""The testbed: real hosts with real rates, Ray between them, and nothing left of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measurement import Case, Run
from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.job import measure
from benchmarks.testbed.network import Host, Network, exists, remove
from benchmarks.testbed.rate import parse_rate, show_rate
from engine.errors import ConfigError, StartError
from tests.hosts import NAME, needs_hosts
from tests.integration import checkpointed
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
NAMED = ("--name", NAME)
OTHER = f"{NAME}b"
"""A second testbed, beside that which the tests of Ray share."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from engine.cli.main import main; main()", *arguments]


def oka(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def traces(name: str) -> list[str]:
    """What there is of a testbed: namespaces, folders, and processes that were started in it."""
    found = [str(path) for path in Path("/run/netns").glob(f"oka-{name}-*")]
    found += [str(path) for path in Path("/run/oka-testbed").glob(name)]
    found += [str(path) for path in Path("/dev/shm").glob(f"testbed-{name}-*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (process / "mountinfo").read_text()
        except OSError:  # it just ended
            continue
        if f"/oka-testbed/{name}/" in mounts:
            found.append(str(process))
    return found


@pytest.fixture
def other() -> Iterator[str]:
    """A name whose testbed is removed at the end, whatever the test did."""
    yield OTHER
    remove(OTHER)


@pytest.mark.parametrize(
    ("text", "bits"),
    [("1gbit", 10**9), ("2.5gbit", 25 * 10**8), ("100mbit", 10**8), ("unlimited", None)],
)
def test_rates_are_read_and_shown(text: str, bits: int | None) -> None:
    assert parse_rate(text) == bits
    assert show_rate(bits) == text


@pytest.mark.parametrize("text", ["", "1", "gbit", "-1gbit", "0gbit", "1gb", "1kbit", "1e3mbit"])
def test_no_rates(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"rate is {text!r}, expected")):
        parse_rate(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("testbed", "up", "--nodes", "0"), "nodes is 0, expected 1 to"),
        (("testbed", "up", "--cpus", "0"), "cpus is 0, expected at least 1"),
        (("testbed", "up", "--rate", "fast"), "rate is 'fast', expected"),
        (("testbed", "up", "--name", "../x"), "the name is '../x', expected"),
        (("testbed", "exec", *NAMED, "true"), "no testbed"),
        (("testbed", "status", *NAMED), "no testbed"),
        (("bench", "testbed", "--nodes", "3"), "nodes is 3, expected an even number"),
        (("bench", "testbed", "--rate", "1gbit,x"), "rate is 'x', expected"),
    ],
)
def test_wrong_use_says_what_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    done = oka(*arguments)
    assert (done.returncode, message in done.stderr, "hint: " in done.stderr) == (2, True, True)
    assert "Traceback" not in done.stderr


def test_without_root_it_says_so() -> None:
    program = "import os; os.geteuid = lambda: 1000\nfrom engine.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "testbed", "up", *NAMED],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no testbed can be made here: network namespaces need root" in done.stderr
    assert "hint: run it as root" in done.stderr


def test_without_tools_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for tool in ("ip", "mount", "unshare"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="the tool 'tc' is not installed"):
        Network.create(NAME)


RECEIVE = """
import socket, sys
with socket.create_server((sys.argv[1], 5000)) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    received = 0
    while data := connection.recv(1 << 16):
        received += len(data)
    connection.sendall(received.to_bytes(8, "big"))
"""
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5000)) as connection:
    started = time.monotonic()
    connection.sendall(bytes(int(sys.argv[2])))
    connection.shutdown(socket.SHUT_WR)
    received = int.from_bytes(connection.recv(8), "big")
print(received, time.monotonic() - started)
"""


def transfer(sender: Host, receiver: Host, size: int) -> float:
    """Seconds that so many bytes take from one host to the other."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    with receiver.start(sys.executable, "-c", RECEIVE, receiver.address, **pipes) as server:
        assert server.stdout.readline() == "listening\n"
        with sender.start(
            *(sys.executable, "-c", SEND, receiver.address, str(size)), **pipes
        ) as client:
            received, seconds = client.stdout.readline().split()
    assert int(received) == size
    return float(seconds)


@needs_hosts
def test_a_rate_holds_in_both_directions(other: str) -> None:
    """Only lower bounds, and a ratio: a busy machine may take longer. 100 Mbit/s are 12.5 MB/s."""
    with Network.create(other, hosts=2, rate=100_000_000) as network:
        free, also_free = network.add_host(), network.add_host()
        limited, _also_limited, *_ = network.hosts
        assert [host.rate() for host in network.hosts] == [100_000_000] * 2 + [None] * 2
        before = network.counters()
        out, back = transfer(limited, free, 5_000_000), transfer(free, limited, 5_000_000)
        assert min(out, back) >= 0.38
        crossed = network.counters()[limited.number] - before[limited.number]
        # With headers, and acknowledgements of the other direction.
        assert 5_000_000 < crossed.sent_bytes < 6_000_000
        assert 5_000_000 < crossed.received_bytes < 6_000_000
        assert crossed.sent_packets > 50
        # At the same rate, ten times as much would take ten times as long.
        assert transfer(free, also_free, 50_000_000) < 5 * min(out, back)
    assert traces(other) == []


@needs_hosts
def test_a_host_that_is_cut_off_is_not_heard(other: str) -> None:
    with Network.create(other, hosts=2) as network:
        first, second = network.hosts
        second.cut_off()
        program = "import socket, sys; socket.create_connection((sys.argv[1], 5000), timeout=0.3)"
        options: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True}
        with first.start(sys.executable, "-c", program, second.address, **options) as client:
            _, errors = client.communicate(timeout=300)
        assert "TimeoutError" in errors or "No route to host" in errors
        second.plug_in()
        transfer(first, second, 1000)


@needs_hosts
def test_hosts_share_no_memory_and_the_machine_does_not_see_them(other: str) -> None:
    interfaces = socket.if_nameindex()
    with Network.create(other, hosts=2) as network:
        assert socket.if_nameindex() == interfaces
        first, second = network.hosts
        first.start("touch", "/dev/shm/mine", "/tmp/ray/mine").wait()
        assert second.start("ls", "/dev/shm/mine", stderr=subprocess.DEVNULL).wait() != 0
        assert second.start("ls", "/tmp/ray/mine", stderr=subprocess.DEVNULL).wait() != 0
        assert not Path("/dev/shm/mine").exists()
        assert not Path("/tmp/ray/mine").exists()


@needs_hosts
def test_a_second_one_is_refused_and_the_first_has_no_ray(other: str) -> None:
    with Network.create(other, hosts=1):
        with pytest.raises(ConfigError, match="is up, or remains of it are there") as caught:
            Network.create(other)
        assert f"tear it down with `oka testbed down --name {other}`" in str(caught.value)
        assert exists(other)
        status = oka("testbed", "status", "--name", other)
        assert status.returncode == 1
        assert re.search(r"10\.213\.0\.1\s+unlimited\s+dead", status.stdout)
        assert "does not answer: no process of it is there" in status.stderr
    assert not exists(other)


@needs_hosts
def test_down_removes_what_a_killed_process_left(other: str) -> None:
    program = f"""
import sys, time
from benchmarks.testbed.network import Network
with Network.create({other!r}, hosts=2) as network:
    for host in network.hosts:
        host.start("sh", "-c", "trap '' TERM INT; setsid sleep 600 & sleep 600")
    print("up", flush=True)
    time.sleep(600)
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "up\n"
        network = Network.open(other)
        wait_until(lambda: all(len(host.processes()) == 3 for host in network.hosts))
        holder.kill()
    shutil.rmtree(Path("/run/oka-testbed") / other)  # what it would have known it by
    assert len(traces(other)) >= 3
    assert oka("testbed", "down", "--name", other).stdout == f"the testbed {other!r} is removed\n"
    assert traces(other) == []
    assert oka("testbed", "down", "--name", other).stdout == f"no testbed {other!r} is up\n"


@pytest.mark.table(2)
@needs_hosts
@pytest.mark.ray
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_up_that_ends_half_way(other: str, number: signal.Signals) -> None:
    program = """
import time
from benchmarks.testbed.cluster import Cluster
from engine.cli.main import main
Cluster.nodes = lambda *_, **__: time.sleep(60)  # nodes have not joined when the signal comes
main()
"""
    up = subprocess.Popen(
        [sys.executable, "-c", program, "testbed", "up", "--name", other],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with up:
        # Ray has started its first daemon.
        wait_until(
            lambda: exists(other) and list(Path("/run/oka-testbed").glob(f"{other}/1/s*")), 30.0
        )
        up.send_signal(number)
        _, errors = up.communicate(timeout=300)
    if number == signal.SIGKILL:
        assert traces(other) != []
        assert oka("testbed", "down", "--name", other).returncode == 0
    else:
        assert up.returncode == 128 + number
        assert "Traceback" not in errors
    assert traces(other) == []


@needs_hosts
@pytest.mark.ray
def test_a_node_that_does_not_join_shows_its_log(other: str) -> None:
    with Network.create(other, hosts=1) as network:
        cluster = Cluster(network, object_store_bytes=1)
        with pytest.raises(StartError, match=r"host 1 \(10.213.0.1\) did not join") as caught:
            cluster.start()
    assert "last log lines:" in str(caught.value)
    assert "object store" in str(caught.value)


@pytest.mark.again_on_ray
@needs_hosts
@pytest.mark.ray
def test_the_nodes_are_as_they_were_asked_for(other: str) -> None:
    with running_cluster(1, name=other, cpus=3, resources={1: {"slot": 2.0}}) as cluster:
        nodes = cluster.nodes()
        assert nodes.keys() == {cluster.head.address}
        resources = nodes[cluster.head.address]
        assert (resources["CPU"], resources["slot"]) == (3, 2)
    assert traces(other) == []


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two hosts with a Ray node of one CPU on each, made and removed by the command line."""
    up = oka("testbed", "up", *NAMED, "--nodes", "2", "--rate", "1gbit", "--cpus", "1")
    assert up.returncode == 0, up.stderr
    assert "2 hosts, links 1gbit, Ray at 10.213.0.1:6379" in up.stdout
    yield Cluster(Network.open(NAME))
    assert oka("testbed", "down", *NAMED).returncode == 0
    assert traces(NAME) == []


@needs_hosts
@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_status_and_exec() -> None:
    again = oka("testbed", "up", *NAMED)
    assert (again.returncode, "hint: tear it down" in again.stderr) == (2, True)

    status = oka("testbed", "status", *NAMED)
    assert status.returncode == 0, status.stderr
    first, second = re.findall(
        r"(10\.213\.0\.\d)\s+1gbit\s+alive\s+1\s+\d+\s+([\d,]+)\s+[\d,]+\s+([\d,]+)", status.stdout
    )
    assert (first[0], second[0]) == ("10.213.0.1", "10.213.0.2")
    assert min(int(count.replace(",", "")) for count in (*first[1:], *second[1:])) > 1000

    run = ("testbed", "exec", *NAMED)
    told = oka(*run, "--node", "2", "--", "sh", "-c", "echo $RAY_ADDRESS; exit 7")
    assert (told.returncode, told.stdout) == (7, "10.213.0.1:6379\n")
    assert "the hosts are 1, 2" in oka(*run, "--node", "3", "true").stderr
    # The tests have a folder of their own for Ray: the testbed keeps out of it, and in its own.
    remembered = oka(*run, "--", "cat", "/tmp/ray/ray_current_cluster")
    assert remembered.stdout == "10.213.0.1:6379"
    of_the_machine = Path(os.environ["RAY_TMPDIR"]) / "ray" / "ray_current_cluster"
    assert not of_the_machine.exists() or of_the_machine.read_text() != "10.213.0.1:6379"
    waiting = subprocess.Popen(
        command(*run, "--", "sh", "-c", "echo started; exec sleep 60"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "started\n"
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=300) == -signal.SIGINT


@pytest.mark.table(2)
@needs_hosts
@pytest.mark.ray
@pytest.mark.parametrize("encryption", [True, False])
def test_words_cross_the_switch_and_every_one_is_counted(
    cluster: Cluster, encryption: bool
) -> None:
    case = Case("oka", "native", "ray", "auto", 256, 1000, 1, "closed", encryption)
    measurement = measure(cluster, case, Run(1.0, 0.2, None, 0))
    links = measurement.links
    assert links is not None
    assert measurement.records > 0
    words = measurement.records * 256
    # All from the first host, where the source is, to the second: both say so.
    assert links["1"].sent_bytes >= words
    assert links["2"].received_bytes >= words
    assert links["2"].sent_bytes < words


@needs_hosts
@pytest.mark.parametrize(
    ("emitted", "message"),
    [
        (1000, r"only [\d,]+ bytes crossed the switch, expected at least .* 32,000: they took"),
        (1001, "the source emitted 1001 words, the sink counted 1000"),
    ],
)
def test_a_run_that_proves_nothing_is_a_failure(
    other: str, emitted: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job runs here: this is what one says that sent its words another way, or lost some."""
    answer = {"emitted": emitted, "counted": 1000}
    monkeypatch.setattr("benchmarks.testbed.job.drive", lambda *_arguments: answer)
    case = Case("oka", "native", "ray", "auto", 32, 1000, 1, "closed")
    with Network.create(other, hosts=2) as network, pytest.raises(StartError, match=message):
        measure(Cluster(network), case, Run(0.3, 0.1, None, 0))


JOB = """
import json
import engine
from pipelines.word_count import random_word_count
from tests.waiting import wait_until

handle = engine.submit(
    random_word_count(3, 32, api="native"), runtime="ray", strict_placement=True, progress="none"
)
wait_until(lambda: handle.statistics().records)
print("running", flush=True)
result = handle.wait_finished()
print(json.dumps({
    "emitted": result.statistics.source_records,
    "counted": sum(result.output.values()),
    "reconnects": result.statistics.reconnects,
    "interruption_ms": result.statistics.longest_interruption_ms,
}), flush=True)
"""


@pytest.mark.again_on_ray
@needs_hosts
@pytest.mark.ray
def test_a_job_outlives_a_link_that_is_cut(cluster: Cluster) -> None:
    driver = cluster.head.start(
        *(sys.executable, "-c", JOB),
        env=cluster.environment(), cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    second = cluster.network.hosts[1]
    deadline = threading.Timer(60, driver.kill)
    deadline.start()
    with driver:
        assert driver.stdout.readline() == "running\n", driver.stderr.read()
        second.cut_off()
        time.sleep(1)
        second.plug_in()
        line = driver.stdout.readline()
        errors = driver.stderr.read()
    deadline.cancel()
    assert line, errors
    outcome = json.loads(line)
    assert outcome["counted"] == outcome["emitted"] > 0
    assert outcome["interruption_ms"] >= 900
    assert cluster.nodes().keys() == {host.address for host in cluster.network.hosts}


@pytest.mark.again_on_ray
@needs_hosts
@pytest.mark.ray
@pytest.mark.timeout(900)
@pytest.mark.parametrize("patience", [60.0, 1.0], ids=["reconnects", "restarts"])
def test_a_job_with_checkpoints_outlives_a_link_that_is_cut(
    cluster: Cluster, patience: float, tmp_path: Path
) -> None:
    settings = {
        "runtime": "ray",
        "parallelism": 1,
        "strict_placement": True,
        "reconnect_timeout_seconds": patience,
        "progress": "line",
    }
    program = [sys.executable, "-m", checkpointed.__name__]
    second = cluster.network.hosts[1]
    told = tmp_path / "told"
    with (
        checkpointed.held(tmp_path),
        told.open("w") as stderr,
        cluster.head.start(
            *(*program, str(tmp_path), str(RECORDS), json.dumps(settings)),
            env=cluster.environment(),
            cwd=ROOT,
            stderr=stderr,
        ) as job,
    ):
        try:
            wait_until(lambda: checkpointed.newest(tmp_path) >= 2)
            second.cut_off()
            time.sleep(SECONDS_CUT)
            second.plug_in()
            before = checkpointed.newest(tmp_path)
            wait_until(lambda: checkpointed.newest(tmp_path) >= before + 2, seconds=250)
            (tmp_path / checkpointed.HOLD).unlink()
            assert job.wait(60) == 0, told.read_text()
        finally:
            job.kill()
    if SECONDS_CUT < 10:  # behind a longer cut, Ray's own connections break
        assert ("restart 1 of" in told.read_text()) == (patience < SECONDS_CUT)
    assert checkpointed.found(tmp_path / "out") == checkpointed.expected(RECORDS)
    assert checkpointed.left_over(tmp_path / "out") == []


RECORDS = 4000
SECONDS_CUT = 30.0 if "CHAOS_SEEDS" in os.environ else 3.0


@pytest.mark.again_on_ray
@needs_hosts
@pytest.mark.ray
def test_a_short_benchmark_writes_its_rows(other: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = oka(
        *("bench", "testbed", "--nodes", "2", "--rate", "100mbit", "--api", "native"),
        *("--payload", "1024", "--seconds", "1", "--warmup", "0.2", "--repeats", "1"),
        *("--json", str(file), "--name", other),
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text())
    assert (written["schema"], written["benchmark"]) == ("oka.bench/1", "testbed")
    (row,) = written["rows"]
    assert (row["nodes"], row["rate_bits_per_second"]) == (2, 100_000_000)
    assert row["failures"] == []
    assert row["bridge_bytes"]["1"]["sent"] >= row["records"] * 1024
    assert row["bridge_packets"]["2"]["received"] > 0
    # The link carries no more than its rate: 12,200 words of 1024 bytes a second.
    assert 0 < row["throughput"]["median"] < 14_000
    assert row["cpu_seconds_per_million"]["median"] > 0
    assert traces(other) == []
