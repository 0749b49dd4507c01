"""`oka bench sustainable` on a real job: what it finds is consistent with its own probes."""

import pytest

from benchmarks.measurement import Case
from benchmarks.words.sustainable import Search, find


@pytest.mark.usefixtures("nothing_left")
def test_a_rate_is_found_and_its_probes_agree() -> None:
    case = Case("oka", "map_batches", "local", "shm", 32, 100, 1, load="sustainable")
    # A busy machine may be slow as it likes: the bound on p99 is not what the test is about.
    search = Search(seconds=1.0, warmup=0.3, seed=3, p99_ms=60e3, tolerance=0.5, confirm=1)
    row = find(case, search)
    assert row["failures"] == []
    found = row["sustainable_rate"]
    assert found > 0
    assert row["closed_throughput"] > 0
    last = row["probes"][-1]
    assert (last["offered"], last["sustained"]) == (found, True)
    assert (row["runs"], row["throughput"]["median"]) == (1, last["throughput"])
    for each in row["probes"]:
        assert each["sustained"] == (not each["reasons"])
        if each["sustained"]:
            assert each["backlog_slope"] is not None
            assert each["p50_us"] <= each["p99_us"]
    # What is refused is refused for a reason of the machine, not for want of samples or markers.
    reasons = " ".join(reason for each in row["probes"] for reason in each["reasons"])
    assert "samples" not in reasons
    assert "marker" not in reasons
