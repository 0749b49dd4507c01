"""The soak's verdict: what it calls a leak, and what it does not."""

import random

import pytest

from benchmarks.recovery.soak import LEAST_GROWTH_BYTES, MOST_GROWTH_BYTES_PER_MINUTE, Sample, judge

MIB = 1024 * 1024


def samples(seconds: int, memory: float, per_minute: float, descriptors: int = 20) -> list[Sample]:
    """A process with noise of 1 MiB that starts small and grows by so many bytes a minute."""
    noise = random.Random(1)
    return [
        Sample(
            second,
            int(memory - max(0, 10 - second) * MIB + per_minute * second / 60)
            + noise.randrange(MIB),
            descriptors + noise.randrange(3),
        )
        for second in range(seconds)
    ]


@pytest.mark.parametrize("seconds", [10, 60, 150, 600])
def test_noise_and_warm_up_are_no_leak(seconds: int) -> None:
    # In ten seconds of samples the warm-up is not over: there the bound is what lets it pass.
    rises_for = min(10, seconds // 3)
    steady = samples(seconds + 10 - rises_for, 50 * MIB, 0)[10 - rises_for :]
    assert judge(steady) == []


@pytest.mark.parametrize("seconds", [150, 600])
def test_a_leak_is_found(seconds: int) -> None:
    leaks = 3 * MOST_GROWTH_BYTES_PER_MINUTE
    (problem,) = judge(samples(seconds, 50 * MIB, leaks))
    assert problem.startswith("memory grew by ")
    assert "expected at most" in problem
    assert judge(samples(seconds, 50 * MIB, -leaks)) == []


def test_a_short_run_finds_a_large_leak() -> None:
    minute_of_growth = 60 / 20 * 2 * LEAST_GROWTH_BYTES
    assert judge(samples(30, 50 * MIB, minute_of_growth))


def test_one_step_within_the_bound_is_no_leak() -> None:
    flat = samples(150, 50 * MIB, 0)
    step = [
        Sample(s.seconds, s.memory_bytes + (2 * MIB if s.seconds > 100 else 0), s.descriptors)
        for s in flat
    ]
    assert judge(step) == []


def test_descriptors_that_stay_open_are_found() -> None:
    flat = samples(150, 50 * MIB, 0)
    growing = [Sample(s.seconds, s.memory_bytes, 20 + int(s.seconds) // 10) for s in flat]
    (problem,) = judge(growing)
    assert problem == "descriptors grew from 29 to 30"


def test_too_few_samples_prove_nothing() -> None:
    assert judge(samples(5, 50 * MIB, 0)) == ["only 5 samples, expected at least 6"]
