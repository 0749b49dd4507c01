"""`oka bench serve` against real servers, for a second each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.schema import results_file
from benchmarks.serve import clients, measure
from benchmarks.serve import command as serve
from benchmarks.serve.systems import UVICORN
from engine.errors import ConfigError

pytestmark = pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk, of Debian")


@pytest.fixture(autouse=True)
def load() -> None:
    try:
        clients.check()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.timeout(900)
def test_oka_and_what_else_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measure, "DISCONNECTS", 300)
    file = tmp_path / "serve.json"
    handlers = ["--handler", "noop,hops,busy,disconnects", "--system", "oka,uvicorn"]
    shortly = ["--clients", "32", "--seconds", "1", "--warmup", "0", "--repeats", "1"]
    ended = CliRunner().invoke(serve.command, [*handlers, *shortly, "--json", str(file)])
    assert ended.exit_code == 0, f"{ended.output}\n{ended.exception}"
    rows = results_file.read(file)["rows"]
    ways = {(row["handler"], row["system"], row["api"], row["load"]) for row in rows}
    assert ways >= {
        *(("noop", "oka", way, load) for way in ("one_task", "two_processes") for load in LOADS),
        *(("hops", "oka", "process_each", load) for load in LOADS),
        ("busy", "oka", "two_processes", "4"),
        ("disconnects", "oka", "two_processes", "closed"),
    }
    assert (("noop", "uvicorn", "asgi", "closed") in ways) == (UVICORN.missing() is None)
    for row in rows:
        assert row["records"] > 0
        assert row["latency_us"]["p50"] <= row["latency_us"]["p999"]
        # Three hundred clients that go may take less CPU than the system counts.
        is_counted = row["handler"] != "disconnects"
        assert row["cpu_seconds_per_million"]["median"] > 0 or not is_counted
    (overload,) = (row for row in rows if row["load"] == "4")
    assert overload["refused_per_second"]["median"] > 0
    assert "noop, two_processes, half load, p99" in ended.output
    assert "clients that go: descriptors" in ended.output


LOADS = ("closed", "0.5")
