"""The regression guard: what it calls worse, what it measures twice, what it refuses to compare."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.guard import baseline as baselines
from benchmarks.guard import command as guard
from benchmarks.guard import instructions
from benchmarks.guard.baseline import Baseline, Instructions, Ratios, update
from benchmarks.guard.command import CASES, check_ratios, measure_ratios, name, report
from benchmarks.guard.verdict import (
    CPU,
    INSTRUCTIONS,
    THROUGHPUT,
    Finding,
    compare_instructions,
    compare_ratios,
    confirmed,
    other_compiler,
)
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.systems import PAIR
from engine.errors import ConfigError, EngineError

FILE = Path("baseline.json")
BEFORE = {name(case): Ratios(3.0, 0.5) for case in CASES}


class Machine:
    """Oka is 3 times as fast as the pair at half its CPU, but for one case in its first turns."""

    def __init__(self, slow: Case | None = None, slow_runs: int = 0, factor: float = 0.6) -> None:
        self.runs: Counter[Case] = Counter()
        self._slow = slow
        self._slow_runs = slow_runs
        self._factor = factor

    def measure(self, case: Case, run: Run) -> Measurement:
        assert run.rate is None
        self.runs[case] += 1
        if (case.system, case.api) == PAIR:
            return Measurement(1e6, 1.0, b"", 1000)
        slowed = case == self._slow and self.runs[case] <= self._slow_runs
        factor = self._factor if slowed else 1.0
        return Measurement(3e6 * factor, 0.5 / factor, b"", 1000)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(2.2, "worse"), (2.25, "as before"), (3.0, "as before"), (3.75, "as before"), (3.8, "better")],
)
def test_throughput_is_worse_below_its_bound(measured: float, verdict: str) -> None:
    assert THROUGHPUT.verdict(measured, 3.0) == verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(1.26, "worse"), (1.25, "as before"), (0.75, "as before"), (0.74, "better")],
)
def test_cpu_is_worse_above_its_bound(measured: float, verdict: str) -> None:
    assert CPU.verdict(measured, 1.0) == verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(111.0, "worse"), (110.0, "as before"), (90.0, "as before"), (89.0, "better")],
)
def test_instructions_have_a_narrower_bound(measured: float, verdict: str) -> None:
    assert INSTRUCTIONS.verdict(measured, 100.0) == verdict


def test_a_finding_names_case_measured_baseline_and_bound() -> None:
    finding = Finding("native, 32 B, batch 1", THROUGHPUT, 1.5, 3.0)
    assert str(finding) == (
        "native, 32 B, batch 1: throughput / pair is 1.5, -50% against 3 in the baseline; "
        "expected at least 2.25"
    )
    assert str(Finding("ring", INSTRUCTIONS, 120.0, 100.0)).endswith("expected at most 110")


def test_a_case_that_the_baseline_lacks_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"no case native.*\n\nhint: `oka bench guard --update`"):
        compare_ratios({"native": Ratios(1.0, 1.0)}, {"columnar": Ratios(1.0, 1.0)})
    with pytest.raises(ConfigError, match="no path ring"):
        compare_instructions(Instructions("1", {"ring": 5.0}), Instructions("1", {}))
    with pytest.raises(ConfigError, match="the path ring, which is not measured any more"):
        compare_instructions(Instructions("1", {}), Instructions("1", {"ring": 5.0}))


def test_a_missing_case_is_noticed_before_anything_is_measured() -> None:
    machine = Machine()
    before = {case: ratios for case, ratios in BEFORE.items() if not case.startswith("columnar")}
    with pytest.raises(ConfigError, match="columnar"):
        check_ratios(before, FILE, machine.measure)
    with pytest.raises(ConfigError, match=r"baseline\.json has no ratios"):
        check_ratios(None, FILE, machine.measure)
    assert not machine.runs


def test_another_compiler_is_noted() -> None:
    ours, same, other = (Instructions(rustc, {}) for rustc in ("1.95.0", "1.95.0", "1.99.0"))
    assert other_compiler(ours, same) is None
    note = other_compiler(ours, other)
    assert note is not None
    assert "rustc 1.95.0, the baseline by rustc 1.99.0" in note


def test_only_what_is_worse_twice_is_confirmed() -> None:
    once, twice = (Finding(case, CPU, 2.0, 1.0) for case in ("once", "twice"))
    fine = Finding("once", CPU, 1.0, 1.0)
    other_quantity = Finding("once", THROUGHPUT, 0.5, 1.0)
    assert confirmed([once, twice], [fine, other_quantity, twice]) == [twice]


def test_each_case_is_in_turn_with_the_pair_of_its_payload_and_batch() -> None:
    machine = Machine()
    assert measure_ratios(CASES, machine.measure) == BEFORE
    pairs = {case: runs for case, runs in machine.runs.items() if case not in CASES}
    assert {(case.payload_bytes, case.batch_size) for case in pairs} == {
        (32, 1),
        (32, 1000),
        (1024, 1000),
    }
    assert set(machine.runs.values()) == {guard.SETTINGS.repeats}


def test_a_machine_that_slows_down_between_turns_changes_no_ratio() -> None:
    turns: Counter[Case] = Counter()
    steady = Machine()

    def measure(case: Case, run: Run) -> Measurement:
        turns[case] += 1
        speed = 1 / turns[case]
        found = steady.measure(case, run)
        return Measurement(found.throughput * speed, 1.0, b"", 1000)

    found = measure_ratios(CASES, measure)
    assert [each.throughput for each in found.values()] == pytest.approx([3.0] * len(CASES))


def test_what_is_within_the_bounds_is_measured_once() -> None:
    machine = Machine()
    found, regressions = check_ratios(BEFORE, FILE, machine.measure)
    assert (len(found), regressions) == (2 * len(CASES), [])
    assert machine.runs[CASES[0]] == guard.SETTINGS.repeats


def test_what_is_worse_is_measured_again_and_then_a_regression() -> None:
    slow, repeats = CASES[5], guard.SETTINGS.repeats
    machine = Machine(slow, slow_runs=2 * repeats)
    found, regressions = check_ratios(BEFORE, FILE, machine.measure)
    assert [(each.case, each.quantity.name) for each in regressions] == [
        (name(slow), "throughput / pair"),
        (name(slow), "CPU / pair"),
    ]
    assert machine.runs[slow] == 2 * repeats
    assert machine.runs[CASES[0]] == repeats
    assert report(found).count("worse") == 4, "both measurements are shown"


def test_what_is_worse_once_is_noise() -> None:
    machine = Machine(CASES[5], slow_runs=guard.SETTINGS.repeats)
    found, regressions = check_ratios(BEFORE, FILE, machine.measure)
    assert regressions == []
    assert report(found).count("worse") == 2


def test_a_run_that_fails_gives_no_ratio() -> None:
    def fails(case: Case, run: Run) -> Measurement:
        raise RuntimeError("the counts differ")

    with pytest.raises(EngineError, match="failed, so there is no ratio: the counts differ"):
        measure_ratios(CASES[:1], fails)


def test_a_part_of_the_baseline_is_renewed_alone(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    update(path, instructions=Instructions("1.95.0", {"ring": 69.0}))
    assert Baseline.read(path) == Baseline(None, Instructions("1.95.0", {"ring": 69.0}))
    update(path, ratios=BEFORE)
    assert Baseline.read(path) == Baseline(BEFORE, Instructions("1.95.0", {"ring": 69.0}))
    assert {"date", "commit", "machine"} < set(json.loads(path.read_text())["ratios"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not JSON"),
        ("[]", "has the schema None, expected 'oka.baseline/1'"),
        ('{"schema": "oka.baseline/1", "ratios": {}}', "is no baseline: KeyError: 'cases'"),
        (
            '{"schema": "oka.baseline/1", "instructions": {"rustc": "1", "paths": {"ring": 0}}}',
            "0 is no number above 0",
        ),
    ],
)
def test_what_is_no_baseline_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        Baseline.read(path)
    assert message in str(raised.value)
    assert "hint: `oka bench guard --update`" in str(raised.value)


def test_the_committed_baseline_has_every_case() -> None:
    committed = Baseline.read(baselines.PATH)
    assert committed.ratios is not None
    assert {name(case) for case in CASES} == set(committed.ratios)
    assert committed.instructions is not None
    assert committed.instructions.paths


@pytest.mark.parametrize(
    ("count", "status", "line"),
    [
        (69.0, 0, "nothing is worse"),
        (80.0, 1, "worse: ring: instructions per record is 80"),
        (50.0, 0, "better: ring"),
    ],
)
def test_the_command_fails_on_a_regression_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: float, status: int, line: str
) -> None:
    path = tmp_path / "baseline.json"
    update(path, instructions=Instructions("1.95.0", {"ring": 69.0}))
    monkeypatch.setattr(instructions, "measure", lambda: Instructions("1.99.0", {"ring": count}))
    done = CliRunner().invoke(
        guard.command, ["--only", "instructions", "--baseline", str(path)], standalone_mode=False
    )
    assert (done.exit_code, line in done.output) == (status, True), done.output
    assert "the baseline by rustc 1.95.0" in done.output
    assert ("hint: " in done.output) == (count != 69.0)
