"""How long results of windows take: what is measured is there, and in the right order."""

from __future__ import annotations

import pytest

from benchmarks.steps.window_latency import API, Api, measure


@pytest.mark.parametrize("api", API)
@pytest.mark.usefixtures("nothing_left")
def test_a_result_comes_behind_its_watermark_and_that_behind_the_end(api: Api) -> None:
    behind, raw = measure(api, 2000, batch_size=10, seconds=1.5)
    assert len(behind) == len(raw)
    assert len(raw) >= 2
    assert all(since > 0 for since in behind)
    assert all(after <= since for after, since in zip(behind, raw, strict=True))
