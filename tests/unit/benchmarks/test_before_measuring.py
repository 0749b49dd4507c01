"""What a benchmark needs is looked at before it measures; what other commands left is not its."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from benchmarks.broadcast import command as broadcast_command
from benchmarks.broadcast import hot_swap
from benchmarks.guard import baseline, instructions
from benchmarks.guard import command as guard
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.peers import peer as peer_module
from benchmarks.s3 import command as s3
from benchmarks.systems import OKA
from benchmarks.testbed import word_count as testbed_word_count
from benchmarks.words import mesh
from benchmarks.words import peers as compare
from benchmarks.words import word_count as word_count_benchmark
from engine.errors import ConfigError, EngineError


class Machine:
    """Counts what it is asked to measure; the system `broken` fails."""

    def __init__(self, broken: str = "") -> None:
        self.asked: list[str] = []
        self._broken = broken

    def measure(self, case: Case, run: Run) -> Measurement:
        self.asked.append(case.system)
        if case.system == self._broken:
            raise RuntimeError(f"{case.system} is broken")
        return Measurement(1e6, 0.5, b"", 1000)


def run(command: click.Command, *arguments: object) -> str:
    done = CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refused(command: click.Command, *arguments: object) -> str:
    with pytest.raises(ConfigError) as raised:
        run(command, *arguments)
    return str(raised.value)


def peers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> click.Command:
    monkeypatch.setattr(compare, "measure", machine.measure)
    return compare.command


def test_failures_of_an_earlier_command_are_not_those_of_this_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "peers.json"
    one, other = "multiprocessing_pipe", "pyzmq_msgpack_pair"
    with pytest.raises(EngineError, match=f"{one} is broken"):
        run(peers(Machine(one), monkeypatch), "--peer", one, "--json", file)
    run(peers(Machine(), monkeypatch), "--peer", other, "--json", file)
    rows = json.loads(file.read_text())["rows"]
    assert [bool(row["failures"]) for row in rows if row["system"] != OKA] == [True, False]
    with pytest.raises(EngineError, match=f"{one} is broken"):
        run(peers(Machine(one), monkeypatch), "--peer", f"{other},{one}", "--json", file)


def test_a_peer_that_is_not_there_is_named_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_module, "ENVIRONMENTS", tmp_path)
    machine = Machine()
    message = refused(peers(machine, monkeypatch), "--peer", "multiprocessing_pipe,bytewax")
    assert message == (
        f"bytewax is not installed in {tmp_path}/bytewax\n\nhint: make peers-bytewax"
    )
    assert machine.asked == []
    # Without names it is left out, and the others are measured.
    run(peers(machine, monkeypatch), "--repeats", 1)
    assert "bytewax" not in machine.asked
    assert "multiprocessing_pipe" in machine.asked


def test_an_installation_that_was_broken_off_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_module, "ENVIRONMENTS", tmp_path)
    python = tmp_path / "bytewax" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert "bytewax is not installed" in refused(peers(Machine(), monkeypatch), "--peer", "bytewax")
    (tmp_path / "bytewax" / ".installed").touch()
    run(peers(Machine(), monkeypatch), "--peer", "bytewax", "--repeats", 1)


def test_peers_that_take_fewer_tasks_leave_nothing_to_measure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    assert "at most 64 tasks" in refused(
        peers(machine, monkeypatch), "--peer", "multiprocessing_pipe", "--parallelism", 65
    )


@pytest.mark.parametrize("module", [word_count_benchmark, guard])
def test_without_the_packages_of_the_pair_nothing_is_measured(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    monkeypatch.setattr(module, "measure", machine.measure)
    monkeypatch.setattr(instructions, "measure", lambda: pytest.fail("it measured"))
    monkeypatch.setitem(sys.modules, "zmq", None)
    real = peer_module.importlib.util.find_spec
    monkeypatch.setattr(
        peer_module.importlib.util,
        "find_spec",
        lambda name: None if name == "zmq" else real(name),
    )
    message = refused(module.command)
    assert "pyzmq_msgpack_pair needs zmq" in message
    assert "[bench]'" in message
    assert machine.asked == []


def test_the_guard_looks_at_its_baseline_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(instructions, "measure", lambda: pytest.fail("it measured"))
    file = tmp_path / "baseline.json"
    counts = instructions.Instructions("1.93.0", {"encode": 100.0})
    baseline.update(file, instructions=counts)
    assert "has no ratios" in refused(guard.command, "--baseline", file)
    file.write_text("{")
    assert "is not JSON" in refused(guard.command, "--baseline", file, "--update")
    assert "cannot be written" in refused(
        guard.command, "--baseline", tmp_path / "baseline.json" / "x", "--update"
    )


def test_where_the_outcome_goes_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    nowhere = tmp_path / "file" / "out"
    monkeypatch.setattr(hot_swap, "measure", lambda *_, **__: pytest.fail("it measured"))
    monkeypatch.setattr(broadcast_command, "_measure_all", lambda *_: pytest.fail("it measured"))
    assert "cannot be written" in refused(hot_swap.command, "--json", nowhere)
    assert "cannot be written" in refused(broadcast_command.command, "--plots", nowhere)


def test_without_what_draws_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "benchmarks.plots", raising=False)
    monkeypatch.delattr(sys.modules["benchmarks"], "plots", raising=False)
    monkeypatch.setattr(broadcast_command, "_measure_all", lambda *_: pytest.fail("it measured"))
    monkeypatch.setattr(s3, "run", lambda *_: pytest.fail("it measured"))
    assert "drawing needs the package" in refused(broadcast_command.command, "--plots", tmp_path)
    options = ("--bucket-url", "s3://b/p", "--keys-file", tmp_path / "k", "--serve", tmp_path)
    assert "drawing needs the package" in refused(
        s3.command, "write", *options, "--plot", tmp_path / "p.png"
    )


def test_a_testbed_too_large_is_said_before_the_small_one_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(testbed_word_count, "_sweep", lambda *_: pytest.fail("it measured"))
    assert "nodes is 1000" in refused(testbed_word_count.command, "--nodes", "2,1000")


def test_shared_memory_is_looked_at_for_all_testbeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        broadcast_command, "_measure_on_testbed", lambda *_: pytest.fail("it measured")
    )
    assert "shared memory has" in refused(
        broadcast_command.command, "--size", "64MB", "--cases", "2-1,3-1", "--size", "10000GB"
    )


def test_a_mesh_takes_whole_numbers() -> None:
    done = CliRunner().invoke(mesh.command, ["--sizes", "1,x"])
    assert done.exit_code == 2
    assert "'1,x' is not a list of whole numbers" in done.output
