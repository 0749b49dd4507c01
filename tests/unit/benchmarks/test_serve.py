"""`oka bench serve`: what clients write, what is a failure, rows, floors, figures."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import plots
from benchmarks.measurement import Case, Measurement, Run, row
from benchmarks.peers.peer import Peer
from benchmarks.peers.processes import Processes, Usage
from benchmarks.report.rows_table import Table
from benchmarks.schema import results_file
from benchmarks.serve import clients
from benchmarks.serve import command as serve
from benchmarks.serve import measure as serve_measure
from benchmarks.serve.clients import Class, Closed, Open
from benchmarks.serve.floors import OVERLOAD, floors
from benchmarks.serve.server import Server
from benchmarks.serve.systems import (
    DEFAULT,
    ONE_TASK,
    PROXIED,
    SYSTEMS,
    TASKS,
    TWO_PROCESSES,
    UVICORN,
    ServeCase,
    System,
    system_of,
)
from engine.cli.main import commands
from engine.errors import ConfigError
from engine.network import LatencyHistogram
from tests.waiting import wait_until

RUN = Run(1.0, 0.0, None, 0)


def histogram(*latencies_us: int) -> bytes:
    found = LatencyHistogram()
    for each in latencies_us:
        found.record_many([0], each * 1000)
    return found.to_bytes()


def ended(count: int = 0, p99_ms: float = 0.0) -> Class:
    return Class(count, float(count), p99_ms, histogram(*[1000] * count))


def opened(answered: int, refused: int = 0, other: int = 0, errors: int = 0) -> Open:
    arrived = answered + refused + other + errors
    return Open(arrived, 0, ended(answered), ended(refused, 2.5), ended(other), ended(errors))


# What clients write


def test_what_wrk_saw() -> None:
    told = '"errors": {"status": 0}, "latencies_us": [[80, 2], [900, 1]]'
    line = f'{{"requests": 3, "duration_us": 1500000, {told}}}'
    found = Closed.of(f"Running 1s test @ http://127.0.0.1:8000/\nRequests/sec: 3\n\n{line}\n")
    assert (found.requests, found.seconds) == (3, 1.5)
    latencies = LatencyHistogram.from_bytes(found.histogram)
    assert latencies.count == 3
    assert latencies.percentile(50) == pytest.approx(80, rel=0.01)
    assert latencies.max == pytest.approx(900, rel=0.01)


@pytest.mark.parametrize(
    ("requests", "errors", "told"),
    [(0, "{}", "had 0 answers"), (9, '{"status": 4}', "'status': 4")],
)
def test_a_failed_request_of_the_closed_loop_is_a_failure(
    requests: int, errors: str, told: str
) -> None:
    fields = f'"requests": {requests}, "duration_us": 1, "latencies_us": []'
    with pytest.raises(RuntimeError, match=told):
        Closed.of(f'{{{fields}, "errors": {errors}}}')


def test_what_came_of_requests_at_a_rate() -> None:
    text = base64.b64encode(histogram(100, 200)).decode()
    one = {"count": 2, "per_second": 1.5, "p99_ms": 0.2, "histogram": text}
    classes = dict.fromkeys(("2xx", "503", "other", "errors"), one)
    found = Open.of(json.dumps({"arrived": 9, "not_sent": 1, "classes": classes}))
    assert (found.arrived, found.not_sent) == (9, 1)
    assert found.answered == found.errors == Class(2, 1.5, 0.2, histogram(100, 200))


def test_clients_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="there is no wrk"):
        clients.check()
    (tmp_path / "wrk").write_text("")
    (tmp_path / "wrk").chmod(0o755)
    monkeypatch.setenv("OKA_LOAD", str(tmp_path / "oka-load"))
    with pytest.raises(ConfigError, match="make load"):
        clients.check()


# Runs


def test_oka_has_the_processes_that_a_way_is_named_for() -> None:
    runner = CliRunner()
    for system, handler, tasks in (
        (ONE_TASK, "noop", "1 task,"),
        (TWO_PROCESSES, "noop", "2 tasks,"),
        (TWO_PROCESSES, "busy", "2 tasks,"),
    ):
        command = system.command(handler, 8000)
        words = command[command.index("run") + 1 : command.index("--progress")]
        planned = runner.invoke(commands, ["plan", *words], catch_exceptions=False)
        assert f"execution graph: {tasks}" in planned.output


class Standing:
    """A server that stands still; each look at it finds more used."""

    url = "http://127.0.0.1:1/"

    def __init__(self, *_: object) -> None:
        self._looks = 0

    def __enter__(self) -> Standing:
        return self

    def __exit__(self, *_: object) -> None: ...

    def usage(self) -> Usage:
        self._looks += 1
        return Usage(self._looks * 0.5, self._looks * 1000, 7)


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(serve_measure, "Server", Standing)
    return monkeypatch


def at_load(load: str, found: Open, monkeypatch: pytest.MonkeyPatch) -> Measurement:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(clients, "at_rate", lambda *each: asked.append(each) or found)
    case = system_of(TWO_PROCESSES.case("noop", 8)).case("noop", 8)
    loaded = ServeCase(**{**vars(case), "load": load})
    measured = serve_measure.measure(loaded, Run(1.0, 0.0, 100.0, 5))
    assert asked == [(Standing.url, 100.0, 8 if load == "0.5" else 32, 1.0, 5)]
    return measured


def test_at_half_load_every_request_is_answered(standing: pytest.MonkeyPatch) -> None:
    measured = at_load("0.5", opened(50), standing)
    assert (measured.throughput, measured.records) == (50.0, 50)
    assert measured.cpu_seconds_per_million == 0.5 / 50 * 1e6
    assert measured.figures == {}
    for failed in (opened(49, refused=1), opened(49, other=1), opened(49, errors=1), opened(0)):
        with pytest.raises(RuntimeError, match=f"of {failed.arrived} requests"):
            at_load("0.5", failed, standing)


def test_too_much_load_may_be_refused(standing: pytest.MonkeyPatch) -> None:
    measured = at_load(OVERLOAD, opened(50, refused=150), standing)
    assert (measured.throughput, measured.records) == (50.0, 50)
    assert measured.cpu_seconds_per_million == 0.5 / 200 * 1e6
    assert measured.figures["refused_per_second"] == 150
    assert measured.figures["refused_p99_ms"] == 2.5
    assert measured.figures["memory_bytes_after"] == 2 * measured.figures["memory_bytes_before"]
    with pytest.raises(RuntimeError, match="1 no answer"):
        at_load(OVERLOAD, opened(50, refused=150, errors=1), standing)


def test_clients_that_go_leave_a_server_that_answers(standing: pytest.MonkeyPatch) -> None:
    standing.setattr(clients, "disconnects", lambda *_: 2000.0)
    standing.setattr(clients, "closed", lambda *_: Closed(3, 1.0, histogram(80)))
    measured = serve_measure.measure(TWO_PROCESSES.case("disconnects", 8), RUN)
    assert measured.throughput == 2000.0
    assert measured.figures["descriptors_after"] == measured.figures["descriptors_before"] == 7


def test_a_server_that_ends_tells_why_and_leaves_nothing(tmp_path: Path) -> None:
    program = "import subprocess, sys; subprocess.Popen(['sleep', '600']); sys.exit('no such port')"
    system = System("broken", "way", ("noop",), lambda *_: [sys.executable, "-c", program])
    server = Server(system, "noop")
    with pytest.raises(RuntimeError, match=r"(?s)broken way ended with status 1.*no such port"):
        server.__enter__()
    assert server.usage() == Usage(0.0, 0, 0)


def test_processes_are_found_by_their_mark() -> None:
    processes = Processes("test_processes_are_found_by_their_mark")
    assert processes.living() == []
    command = ["sh", "-c", "sleep 600 & sleep 600 & wait"]

    def are_all() -> bool:
        return sorted(each.name() for each in processes.living()) == ["sh", "sleep", "sleep"]

    with subprocess.Popen(command, env=processes.environment | {"PATH": "/usr/bin:/bin"}):
        wait_until(are_all)  # no mark is seen while one starts
        assert processes.usage().memory_bytes > 0
        processes.kill()
    assert processes.living() == []


# Rows, floors, figures


def measured_row(
    system: System, handler: str, throughput: float, clients: int = 64, **changes: Any
) -> dict[str, Any]:
    case = system.case(handler, clients)
    load = changes.pop("load", "closed")
    us = changes.pop("us", 100)
    run = Measurement(throughput, 8.0, histogram(us), 1000, figures=changes)
    return row(ServeCase(**{**vars(case), "load": load}), [run], [])


def test_floors_are_those_of_rows_that_are_there() -> None:
    assert floors([]) == []
    rows = [
        measured_row(ONE_TASK, "noop", 90_000.0),
        measured_row(ONE_TASK, "noop", 9_000.0, clients=1, us=200),
        measured_row(TWO_PROCESSES, "noop", 30_000.0),
        measured_row(TWO_PROCESSES, "noop", 15_000.0, load="0.5", us=1500),
        measured_row(UVICORN, "noop", 45_000.0),
        measured_row(DEFAULT, "noop", 700.0),
        measured_row(PROXIED, "noop", 10_000.0),
        measured_row(TASKS, "hops", 6_000.0, clients=16),
        measured_row(DEFAULT, "hops", 60.0, clients=16),
        measured_row(TWO_PROCESSES, "busy", 900.0),
        measured_row(
            *(TWO_PROCESSES, "busy", 810.0),
            load=OVERLOAD,
            refused_p99_ms=12.0,
            memory_bytes_before=100.0,
            memory_bytes_after=105.0,
        ),
    ]
    found = [(each.name, each.found, each.reached) for each in floors(rows)]
    near = pytest.approx
    assert found == [
        ("noop, one_task", 90_000, True),
        ("noop, one_task, of Ray Serve's best mode", near(9), True),
        ("noop, one_task, of a bare uvicorn", near(2), True),
        ("noop, two_processes", 30_000, False),
        ("noop, two_processes, of Ray Serve's best mode", near(3), False),
        ("noop, one_task, 1 client, p50", near(0.2, rel=0.01), False),
        ("hops", 6_000, True),
        ("hops, of Ray Serve's default", near(100), True),
        ("noop, two_processes, half load, p99", near(1.5, rel=0.01), True),
        ("4× overload: goodput, of the capacity", near(0.9), True),
        ("4× overload: p99 of refusals", 12.0, False),
        ("4× overload: memory, of that before", near(1.05), True),
    ]
    told = "reached: noop, one_task: 90k requests/s, expected at least 60k"
    assert str(floors(rows)[0]) == told


class Machine:
    """Counts what it is asked to measure; the system `broken` fails."""

    def __init__(self, broken: str = "") -> None:
        self.asked: list[str] = []
        self._broken = broken

    def measure(self, case: Case, run: Run) -> Measurement:
        assert isinstance(case, ServeCase)
        self.asked.append(case.label)
        if case.system == self._broken:
            raise RuntimeError(f"{case.system} is broken")
        throughput = run.rate or 1000.0
        figures = {"refused_p99_ms": 1.0, "memory_bytes_before": 1e6, "memory_bytes_after": 1e6}
        tells = case.load == OVERLOAD or case.handler == "disconnects"
        counts = {"descriptors_before": 9.0, "descriptors_after": 9.0} if tells else {}
        more = figures | counts if tells else {}
        return Measurement(throughput, 8.0, histogram(100), 1000, figures=more)


def bench(machine: Machine, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Any:
    monkeypatch.setattr(serve, "measure", machine.measure)
    monkeypatch.setattr(clients, "check", lambda: None)
    monkeypatch.setattr(Peer, "missing", lambda _: None)
    return CliRunner().invoke(serve.command, ["--repeats", "1", *map(str, arguments)])


def test_every_case_is_a_row_and_every_server_a_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine, file = Machine(), tmp_path / "serve.json"
    ended = bench(machine, monkeypatch, "--json", file)
    assert ended.exit_code == 0, ended.output
    result = results_file.read(file)
    assert len(result["rows"]) == len(machine.asked) == len(set(machine.asked))
    assert "noop oka one_task, 1 client" in machine.asked
    assert "hops ray_serve haproxy, 16 clients, load 0.5" in machine.asked
    assert "busy oka two_processes, 64 clients, load 4" in machine.asked
    assert "ensemble uvicorn asgi, 16 clients" not in machine.asked
    assert "reached: 4× overload: goodput, of the capacity: 4 ×" in ended.output
    drawings = {drawing.name: drawing for drawing in plots.draw(result)}
    assert list(drawings) == [
        *("serve_noop_64_closed", "serve_noop_64_half", "serve_noop_1_closed"),
        *("serve_hops_16_closed", "serve_hops_16_half"),
        *("serve_ensemble_16_closed", "serve_ensemble_16_half"),
    ]
    able = [each for each in SYSTEMS if "noop" in each.handlers]
    closed, half = drawings["serve_noop_64_closed"].figure, drawings["serve_noop_64_half"].figure
    assert [len(panel.patches) for panel in (*closed.axes, *half.axes)] == [len(able)] * 6
    assert closed.axes[0].get_xlabel() == "requests/s"
    assert half.axes[2].get_title() == "p99.9 (less is better)"
    # Of others there are figures of another day.
    assert sum(line.get_marker() == "|" for line in closed.axes[0].get_lines()) >= 5
    columns = Table.of(result).columns
    assert "p99 of refusals, ms" in columns
    assert "descriptors after" in columns
    # What is finished is not measured again.
    assert "rows of these already" in bench(machine, monkeypatch, "--json", file).output
    assert len(machine.asked) == len(result["rows"])


def test_a_server_that_fails_is_a_row_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "serve.json"
    ended = bench(Machine("uvicorn"), monkeypatch, "--handler", "noop", "--json", file)
    assert ended.exit_code != 0
    assert "uvicorn is broken" in str(ended.exception)
    rows = results_file.read(file)["rows"]
    assert {row["system"] for row in rows if row["throughput"] is None} == {"uvicorn"}
    assert "of a bare uvicorn" not in ended.output


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(serve, "measure", machine.measure)
    monkeypatch.setattr(clients, "check", lambda: None)
    monkeypatch.setattr(Peer, "missing", lambda peer: f"{peer.system} is not here")
    arguments = ["--repeats", "1", "--handler", "noop", "--system", "oka,fastapi"]
    ended = CliRunner().invoke(serve.command, arguments)
    assert ended.exit_code == 0, ended.output
    assert "left out: fastapi uvicorn: fastapi is not here; make peers-serve" in ended.output
    assert "left out: uvicorn" not in ended.output
    assert all(" oka " in each for each in machine.asked)
