"""`oka bench recovery` without killing anything: turns, rows, ratios, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.peers.flink import FLINK
from benchmarks.peers.jvm import JvmPeer
from benchmarks.recovery import command as recovery
from benchmarks.recovery.command import FLINK_SETTINGS, RecoveryCase
from benchmarks.schema import results_file
from benchmarks.systems import OKA

SETTINGS = ["", *FLINK_SETTINGS]
"""Of the cases, in their order."""


class Systems:
    """What is killed in place of processes: Oka goes on after a second, Flink after four."""

    def __init__(self, broken: str = "nothing") -> None:
        self.killed: list[str] = []
        self.phases: list[float] = []
        self._broken = broken

    def measure(self, case: RecoveryCase, phase: float) -> float:
        self.killed.append(case.settings)
        self.phases.append(phase)
        if case.settings == self._broken:
            raise RuntimeError("nothing new was committed")
        return (1.0 if case.system == OKA else 4.0) + phase


@pytest.fixture
def systems(monkeypatch: pytest.MonkeyPatch) -> Systems:
    found = Systems()
    monkeypatch.setattr(recovery, "measure", found.measure)
    monkeypatch.setattr(JvmPeer, "missing", lambda _: None)
    return found


def bench(*arguments: object) -> Any:
    return CliRunner().invoke(recovery.command, [str(each) for each in arguments])


def test_systems_take_turns_and_are_compared(systems: Systems, tmp_path: Path) -> None:
    file = tmp_path / "recovery.json"
    ended = bench("--keys", "2e6", "--kills", 2, "--json", file)
    assert ended.exit_code == 0, ended.output
    assert systems.killed == SETTINGS * 2
    assert systems.phases == [0.25] * len(SETTINGS) + [0.75] * len(SETTINGS)
    rows = results_file.read(file)["rows"]
    assert [(row["system"], row["settings"], row["keys"]) for row in rows] == [
        (FLINK if settings else OKA, settings, 2_000_000) for settings in SETTINGS
    ]
    assert rows[0]["recovery_seconds"] == {"median": 1.5, "min": 1.25, "max": 1.75}
    lines = [line.split() for line in ended.output.splitlines()]
    assert ["oka", "native", "local", "2,000,000", "2", "1.50", "1.25-1.75"] in lines
    expected = [FLINK, "datastream", "defaults", "2,000,000", "2", "4.50", "4.25-4.75", "3.0"]
    assert expected in lines
    # What is finished is not measured again.
    assert "has 4 rows" in bench("--keys", "2e6", "--kills", 2, "--json", file).output
    assert json.loads(file.read_text())["rows"] == rows


def test_a_kill_that_nothing_comes_after_is_a_failure(
    systems: Systems, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Systems("defaults")
    monkeypatch.setattr(recovery, "measure", broken.measure)
    ended = bench("--kills", 1)
    assert "1 run failed, the first with: nothing new was committed" in str(ended.exception)
    assert broken.killed == SETTINGS
    assert any("defaults" in line and "failed" in line for line in ended.output.splitlines())


def test_without_flink_oka_runs_alone(systems: Systems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JvmPeer, "missing", lambda _: "flink_java is not built")
    ended = bench("--kills", 1)
    assert ended.exit_code == 0, ended.output
    assert "left out: flink_java is not built; make peers-flink" in ended.output
    assert systems.killed == [""]


def test_without_peers_nothing_is_left_out(systems: Systems) -> None:
    ended = bench("--kills", 1, "--no-peers")
    assert ended.exit_code == 0, ended.output
    assert "left out" not in ended.output
    assert systems.killed == [""]


def test_a_ray_of_others_is_refused(systems: Systems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray.example:6379")
    ended = bench("--runtime", "ray")
    assert ended.exit_code == 2
    assert "RAY_ADDRESS is set" in ended.output
    assert systems.killed == []
