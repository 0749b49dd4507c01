"""A job of processes that is rescaled in mid-run: windows of what comes in order lose nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import engine
from operators import Tumbling, source
from operators.sinks import Collect
from operators.sources import TextFiles
from tests.waiting import wait_until

FILES, LINES, WIDTH = 3, 4000, 100
BASE = 1_700_000_000


@pytest.mark.parametrize("parallelism", [1, 3])
def test_nothing_is_late(tmp_path: Path, parallelism: int, nothing_left: None) -> None:
    for number in range(FILES):
        lines = (f"{number} {BASE + second}\n" for second in range(LINES))
        (tmp_path / f"{number}.txt").write_text("".join(lines))
    timed = (
        source(TextFiles(tmp_path / "*.txt", rate=8000))
        .map(lambda line: tuple(map(int, line.split())))
        .with_event_time(1, unit="s")
    )
    counts = timed.key_by(0).window(Tumbling(timedelta(seconds=WIDTH))).count()
    handle = engine.submit(
        counts.sink(Collect()),
        parallelism=2,
        batch_size=50,
        checkpoints=str(tmp_path / "checkpoints"),
        progress="none",
    )
    try:
        wait_until(lambda: handle.statistics().source_records > FILES * LINES // 4)
        handle.rescale(parallelism, timeout=300)
        result = handle.wait_finished(300)
    finally:
        handle.cancel()
        handle.wait_stopped()
    assert [operator.late for operator in result.statistics.operators if operator.late] == []
    assert sorted(result.output) == [
        (number, WIDTH, BASE + begin, BASE + begin + WIDTH)
        for number in range(FILES)
        for begin in range(0, LINES, WIDTH)
    ]
