"""Words by time: each API counts every word that was drawn, once, in the window of its time."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, get_args

import pyarrow as pa
import pytest

import engine
from engine.testing import VirtualClock, run
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from pipelines.word_windows import WindowApi, count_by_time, word_windows


@pytest.mark.parametrize("api", get_args(WindowApi))
def test_counts_of_windows(api: WindowApi, monkeypatch: pytest.MonkeyPatch) -> None:
    words = list("abacabadaba")
    times = range(0, 300, 50)  # of batches, in milliseconds
    each = iter(times)
    clock = SimpleNamespace(time_ns=lambda: next(each) * 1_000_000)
    monkeypatch.setattr("pipelines.word_windows.time", clock)
    monkeypatch.setattr("operators.event_time.ingestion.wall_clock_us", lambda: 0)
    batches: list[Any] = [words[at : at + 2] for at in range(0, len(words), 2)]
    given = Collection(words, rate=40)
    if api == "windows_columnar":
        given = Collection([pa.record_batch({"word": pa.array(batch)}) for batch in batches])
    windows = count_by_time(source(given), api).sink(Collect())
    counted = run(windows, batch_size=2, clock=VirtualClock())["collect"]
    expected = Counter(
        (word, at // 100 * 100_000)
        for at, batch in zip(times, batches, strict=True)
        for word in batch
    )
    assert {(word, start): count for word, count, start, _end in counted} == expected
    assert {end - start for _word, _count, start, end in counted} == {100_000}


@pytest.mark.parametrize("api", get_args(WindowApi))
def test_all_windows_together_have_every_word(api: WindowApi) -> None:
    words = word_windows(0.3, 8, api=api, seed=1)
    result = engine.execute(words, parallelism=2, progress="none")
    assert sum(result.output.values()) == result.statistics.source_records > 0


def test_another_api_is_refused() -> None:
    with pytest.raises(ValueError, match="api is 'sql', expected windows_per_record"):
        word_windows(api="sql")  # type: ignore[arg-type]
