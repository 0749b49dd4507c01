"""Sweeps: cases alternate, failures are kept as such, what is finished is not measured again."""

import json
from pathlib import Path

import pytest

from benchmarks.measurement import Case, Measurement, Run
from benchmarks.schema.result import Result
from benchmarks.sweep import Cell, Settings, every_case, sweep
from engine.errors import ConfigError, EngineError

SETTINGS = Settings(seconds=1.0, warmup=0.1, repeats=3, seed=7)


class Machine:
    """Measures nothing and remembers what it was asked; api `slow` is ten times slower."""

    def __init__(self, fail: str | None = None, stop_after: int | None = None) -> None:
        self.asked: list[tuple[str, str, float | None]] = []
        self._fail = fail
        self._stop_after = stop_after

    def measure(self, case: Case, run: Run) -> Measurement:
        assert (run.seconds, run.warmup, run.seed) == (1.0, 0.1, 7)
        if self._stop_after is not None and len(self.asked) == self._stop_after:
            raise KeyboardInterrupt
        self.asked.append((case.api, case.load, run.rate))
        if case.api == self._fail:
            raise RuntimeError(f"{case.api} is broken")
        words = 1e5 if case.api == "slow" else 1e6
        return Measurement(run.rate or words, 0.5, b"", 1000)


def case(api: str, batch_size: int = 10) -> Case:
    return Case("oka", api, "local", "shm", 32, batch_size, 1)


def measured(*cells: Cell, path: Path | None = None, machine: Machine | None = None) -> Result:
    result = Result("word_count", {"seconds": 1.0}, path)
    sweep(cells, SETTINGS, result, (machine or Machine()).measure)
    return result


def test_cases_of_a_cell_alternate() -> None:
    machine = Machine()
    measured(Cell((case("fast"), case("slow")), ("closed",)), machine=machine)
    assert [api for api, _, _ in machine.asked] == ["fast", "slow"] * 3


def test_an_open_load_is_a_share_of_each_case_s_own_closed_median() -> None:
    machine = Machine()
    result = measured(Cell((case("fast"), case("slow")), ("0.5",)), machine=machine)
    assert machine.asked[6:8] == [("fast", "0.5", 5e5), ("slow", "0.5", 5e4)]
    assert [(row["load"], row["offered"]) for row in result.rows] == [
        ("closed", None),
        ("closed", None),
        ("0.5", 5e5),
        ("0.5", 5e4),
    ]


def test_a_run_that_fails_is_a_failure_of_its_row_and_the_sweep_goes_on() -> None:
    cell = Cell((case("fast"), case("slow")), ("closed", "0.5"))
    result = measured(cell, machine=Machine(fail="slow"))
    fast, slow, _, slow_open = result.rows
    assert (fast["runs"], fast["failures"]) == (3, [])
    assert (slow["runs"], slow["failures"]) == (0, ["slow is broken"] * 3)
    assert slow["throughput"] is None
    assert slow_open["failures"] == ["the closed load failed, so there is no rate to offer"] * 3
    with pytest.raises(EngineError, match="6 runs failed, the first with: slow is broken"):
        result.raise_failures(every_case([cell]))
    result.raise_failures(every_case([Cell((case("fast"),), ("closed", "0.5"))]))


def test_a_stopped_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    cells = [Cell((case("fast", size), case("slow", size)), ("closed",)) for size in (1, 10)]
    with pytest.raises(KeyboardInterrupt):
        measured(*cells, path=path, machine=Machine(stop_after=8))
    assert len(json.loads(path.read_text())["rows"]) == 2
    machine = Machine()
    measured(*cells, path=path, machine=machine)
    assert len(machine.asked) == 6
    assert len(json.loads(path.read_text())["rows"]) == 4
    measured(*cells, path=path, machine=machine)
    assert len(machine.asked) == 6


def test_what_failed_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    cell = Cell((case("fast"), case("slow")), ("closed",))
    measured(cell, path=path, machine=Machine(fail="slow"))
    result = measured(cell, path=path)
    assert len(result.rows) == 2
    result.raise_failures(every_case([cell]))


def test_rows_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    measured(Cell((case("fast"),), ("closed",)), path=path)
    before = path.read_text()
    with pytest.raises(ConfigError, match=r"(?s)settings.*'seconds': 1.0.*--fresh"):
        Result("word_count", {"seconds": 2.0}, path)
    assert path.read_text() == before
    assert Result("word_count", {"seconds": 2.0}, path, fresh=True).rows == []


def test_a_file_that_cannot_be_written_is_said_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        Result("word_count", {}, Path("/proc/none/rows.json"))
