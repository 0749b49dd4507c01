"""The search for the highest sustained rate, on simulated systems: no clock is looked at."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.measurement import Case, Measurement, Run
from benchmarks.words import sustainable
from benchmarks.words.probe import Probe, Sample, judge
from benchmarks.words.search import highest_rate
from benchmarks.words.sustainable import Search, find, report
from engine.errors import EngineError
from engine.network import LatencyHistogram

CASE = Case("oka", "native", "local", "shm", 32, 10, 1, load="sustainable")
RUN = Run(seconds=3.0, warmup=0.5, rate=1e6, seed=0)
SEARCH = Search(seconds=3.0, warmup=0.5, seed=0, p99_ms=10.0, tolerance=0.05, confirm=3)


class Rates:
    """A system that holds every rate up to its capacity, and remembers what it was asked."""

    def __init__(self, capacity: float) -> None:
        self.asked: list[float] = []
        self._capacity = capacity

    def holds(self, rate: float) -> bool:
        self.asked.append(rate)
        return rate <= self._capacity


@pytest.mark.parametrize("capacity", [1.7e4, 1.2e5, 5e5, 8.01e5, 9.99e5, 1e6, 1.6e6, 4e6])
@pytest.mark.parametrize("tolerance", [0.2, 0.05, 0.01])
def test_the_highest_rate_is_found_to_the_tolerance(capacity: float, tolerance: float) -> None:
    rates = Rates(capacity)
    found = highest_rate(rates.holds, 1e6, tolerance, 3)
    assert found is not None
    assert found <= capacity <= found / (1 - tolerance)
    assert rates.asked[-3:] == [found] * 3, "it was confirmed"


def test_few_probes_are_needed() -> None:
    rates = Rates(6.3e5)
    highest_rate(rates.holds, 1e6, 0.05, 3)
    assert len(rates.asked) <= 10


def test_nothing_that_holds_is_none() -> None:
    rates = Rates(0.0)
    assert highest_rate(rates.holds, 1e6, 0.05, 3) is None
    assert min(rates.asked) >= 1e4


def test_a_rate_that_is_not_confirmed_gives_way_to_the_next_lower_that_held() -> None:
    rates = Rates(8e5)
    times: dict[float, int] = {}

    def holds(rate: float) -> bool:
        """From 6e5 on, only the first time."""
        times[rate] = times.get(rate, 0) + 1
        return rates.holds(rate) and (rate < 6e5 or times[rate] == 1)

    assert highest_rate(holds, 1e6, 0.05, 3) == 5e5
    held_once = {rate for rate, count in times.items() if 6e5 <= rate <= 8e5}
    assert all(times[rate] == 2 for rate in held_once), "the first refusal ends a confirmation"


def test_below_the_lowest_rate_that_held_the_search_goes_on() -> None:
    times: dict[float, int] = {}

    def holds(rate: float) -> bool:
        times[rate] = times.get(rate, 0) + 1
        return rate <= 3e5 or (rate <= 8e5 and times[rate] == 1)

    found = highest_rate(holds, 1e6, 0.05, 3)
    assert found is not None
    assert 2e5 < found <= 3e5


def test_a_system_that_is_never_confirmed_has_no_rate() -> None:
    times: dict[float, int] = {}

    def holds(rate: float) -> bool:
        times[rate] = times.get(rate, 0) + 1
        return times[rate] == 1

    assert highest_rate(holds, 1e6, 0.05, 2) is None


def test_a_system_that_holds_anything_ends_the_search() -> None:
    rates = Rates(float("inf"))
    found = highest_rate(rates.holds, 1e6, 0.05, 1)
    assert found is not None
    assert 8e6 <= found <= 1e7
    assert len(rates.asked) <= 15


def samples(rate: float, counted: Callable[[float], float], until: float = 3.5) -> list[Sample]:
    """A sample each tenth of a second, as the driver sees it: some ms early or late."""
    noise = random.Random(1)
    found = []
    for tenth in range(int(until * 10) + 1):
        at = tenth / 10
        seen = at + noise.uniform(-0.005, 0.005)
        found.append(Sample(at, max(1, int(rate * seen)), max(0, int(counted(seen)))))
    return found


def measurement(throughput: float, latencies_us: Sequence[int] = (100,) * 100) -> Measurement:
    histogram = LatencyHistogram()
    for microseconds in latencies_us:
        histogram.record(microseconds * 1000)
    data = histogram.to_bytes() if latencies_us else b""
    return Measurement(throughput, 0.5, data, 1000)


def judged(
    throughput: float = 1e6,
    counted: Callable[[float], float] = lambda seconds: 1e6 * seconds,
    latencies_us: Sequence[int] = (100,) * 100,
) -> Probe:
    return judge(CASE, RUN, measurement(throughput, latencies_us), samples(1e6, counted), 10_000.0)


def test_a_pipeline_that_keeps_up_is_sustained() -> None:
    probe = judged()
    assert probe.sustained, probe.reasons
    assert probe.backlog_slope == pytest.approx(0, abs=5e3)


def test_a_constant_backlog_is_sustained_however_large() -> None:
    assert judged(counted=lambda seconds: 1e6 * (seconds - 0.4)).sustained


def test_a_backlog_that_grows_is_not() -> None:
    probe = judged(counted=lambda seconds: 0.98 * 1e6 * seconds)
    assert probe.backlog_slope == pytest.approx(2e4, rel=0.25)
    (reason,) = probe.reasons
    assert reason.startswith("the backlog grew by ")
    assert reason.endswith("words/s, expected at most 10k")


def test_growth_in_the_warm_up_does_not_count() -> None:
    assert judged(counted=lambda seconds: 1e6 * (seconds - min(seconds, 0.4))).sustained


def test_a_hold_up_of_100_ms_at_the_end_is_no_growth() -> None:
    stalled = 3.4
    assert judged(counted=lambda seconds: 1e6 * min(seconds, stalled)).sustained
    assert not judged(counted=lambda seconds: 1e6 * min(seconds, 2.8)).sustained


def test_what_comes_after_the_source_ended_is_no_shrinking_backlog() -> None:
    # It emits its last word at 2 s; all that comes later is not due, and would look like a loss.
    ended = [
        Sample(each.seconds, min(each.emitted, 2_000_000), min(each.counted, 2_000_000))
        for each in samples(1e6, lambda seconds: 1e6 * seconds)
    ]
    probe = judge(CASE, RUN, measurement(1e6), ended, 10_000.0)
    assert probe.sustained, probe.reasons


def test_too_little_at_the_sinks_is_not_sustained() -> None:
    (reason,) = judged(throughput=0.97e6).reasons
    assert reason == "970k words/s were counted, expected at least 980k"
    assert judged(throughput=0.981e6).sustained


def test_a_p99_beyond_the_bound_is_not_sustained() -> None:
    (reason,) = judged(latencies_us=[100] * 98 + [20_000] * 2).reasons
    assert reason == "p99 is 20 ms, expected at most 10 ms"
    assert judged(latencies_us=[100] * 995 + [20_000] * 5).sustained


def test_without_markers_or_samples_nothing_is_proven() -> None:
    assert judged(latencies_us=()).reasons == ("no marker arrived after the warm-up",)
    probe = judge(CASE, RUN, measurement(1e6), samples(1e6, lambda _: 0, until=0.8), 10_000.0)
    assert probe.reasons == ("fewer than 5 samples of the backlog in 3 s",)
    assert probe.backlog_slope is None
    assert "backlog ?" in str(probe)


def test_a_few_large_batches_are_no_growth() -> None:
    # 50 batches of 1000 words over the window; the sink is up to one batch behind.
    large = Case("oka", "native", "local", "shm", 32, 1000, 1)
    slow = Run(seconds=3.0, warmup=0.5, rate=1e3, seed=0)
    steps = samples(1e3, lambda seconds: seconds * 1e3 // 1000 * 1000)
    assert judge(large, slow, measurement(0.9e3), steps, 10_000.0).sustained


class Simulated:
    """Keeps up to `capacity`; from 0.9 of it on its p99 is too high. Fails above `breaks`."""

    def __init__(self, capacity: float, breaks: float = float("inf")) -> None:
        self._capacity = capacity
        self._breaks = breaks

    def measure(self, case: Case, run: Run) -> Measurement:
        assert (run.rate, run.seconds, run.warmup) == (None, 3.0, 0.5)
        return measurement(self._capacity)

    def probe(self, case: Case, run: Run, p99_bound_us: float) -> Probe:
        assert run.rate is not None
        if run.rate > self._breaks:
            raise EngineError("a worker was lost")
        taken = min(run.rate, self._capacity)
        latency = 50_000 if run.rate > 0.9 * self._capacity else 200
        return judge(
            case,
            run,
            measurement(taken, [latency] * 100),
            samples(run.rate, lambda seconds: taken * seconds),
            p99_bound_us,
        )


def test_the_row_has_the_rate_its_confirmations_and_every_probe() -> None:
    system = Simulated(1e6)
    row = find(CASE, SEARCH, system.measure, system.probe)
    assert 0.9e6 * 0.95 <= row["sustainable_rate"] <= 0.9e6
    assert (row["offered"], row["runs"]) == (row["sustainable_rate"], 3)
    assert row["throughput"]["median"] == row["sustainable_rate"]
    assert (row["closed_throughput"], row["p99_bound_ms"]) == (1e6, 10.0)
    assert [each["offered"] for each in row["probes"][-3:]] == [row["sustainable_rate"]] * 3
    for each in row["probes"]:
        assert each["sustained"] == (not each["reasons"]) == (each["offered"] <= 0.9e6)
    assert row["failures"] == []
    json.dumps(row)
    assert "native" in report([row])


def test_without_a_sustained_rate_the_row_says_so() -> None:
    strict = Search(**{**SEARCH.__dict__, "p99_ms": 0.1})
    system = Simulated(1e6)
    row = find(CASE, strict, system.measure, system.probe)
    assert (row["sustainable_rate"], row["throughput"], row["runs"]) == (None, None, 0)
    (failure,) = row["failures"]
    assert "no rate is sustained; the last probe: " in failure
    assert "p99 is 200 µs, expected at most 100 µs\n\nhint: a higher --p99-ms" in failure
    assert "none" in report([row])


def test_a_probe_that_fails_ends_the_search_and_is_a_failure_of_the_row() -> None:
    system = Simulated(1e6, breaks=8e5)
    row = find(CASE, SEARCH, system.measure, system.probe)
    assert row["sustainable_rate"] is None
    (failure,) = row["failures"]
    assert failure.endswith("a worker was lost")


ARGUMENTS = ["--api", "map_batches,native", "--batch", "10"]


def run(monkeypatch: pytest.MonkeyPatch, found: Callable[[Case], object], path: Path) -> object:
    monkeypatch.setattr(sustainable, "find", lambda case, search: found(case))
    return (
        CliRunner()
        .invoke(sustainable.command, [*ARGUMENTS, "--json", str(path)], standalone_mode=False)
        .exception
    )


def test_ctrl_c_keeps_the_finished_rows_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, path, asked = Simulated(1e6), tmp_path / "rates.json", []

    def until_native(case: Case) -> object:
        if case.api == "native":
            raise KeyboardInterrupt
        return find(case, SEARCH, system.measure, system.probe)

    def the_rest(case: Case) -> object:
        asked.append(case.api)
        return find(case, SEARCH, system.measure, system.probe)

    assert run(monkeypatch, until_native, path) is not None
    assert [row["api"] for row in json.loads(path.read_text())["rows"]] == ["map_batches"]
    assert run(monkeypatch, the_rest, path) is None
    assert asked == ["native"]
    content = json.loads(path.read_text())
    assert content["benchmark"] == "sustainable"
    assert [row["api"] for row in content["rows"]] == ["map_batches", "native"]


def test_no_sustained_rate_is_an_error_and_the_row_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict, system = Search(**{**SEARCH.__dict__, "p99_ms": 0.1}), Simulated(1e6)
    path = tmp_path / "rates.json"
    error = run(monkeypatch, lambda c: find(c, strict, system.measure, system.probe), path)
    assert isinstance(error, EngineError)
    assert "no rate is sustained" in str(error)
    assert len(json.loads(path.read_text())["rows"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tolerance", "0"], "--tolerance is 0.0, expected at least 0.001 and below 1"),
        (["--p99-ms", "nan"], "--p99-ms is nan, expected at least 0.001"),
        (["--confirm", "0"], "--confirm is 0, expected at least 1"),
        (["--seconds", "0.5"], "--seconds is 0.5, expected at least 1"),
        (["--api", "slow"], "'slow' is none of per_record"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(sustainable.command, arguments)
    assert done.exit_code == 2
    assert message in done.output
