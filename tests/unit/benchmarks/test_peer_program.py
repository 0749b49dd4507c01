"""What the peers' programs share: the same words as Oka's, their partition, the window."""

from __future__ import annotations

import base64
import importlib.util
import itertools
import json
import sys
import time
from array import array
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.peers.peer import SHARED
from engine.graph.context import TaskContext
from operators.sources import RandomWords


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("oka_peer_program", SHARED / "program.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def settings(program: ModuleType, folder: Path, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "folder": str(folder),
        "api": "lists",
        "payload_bytes": 8,
        "batch_size": 10,
        "parallelism": 1,
        "seconds": 0.05,
        "warmup": 0.0,
        "rate": None,
        "seed": 3,
    }
    return program.Settings(**(fields | changes))


@pytest.mark.parametrize("batch_size", [1, 7, 100])
@pytest.mark.parametrize("index", [0, 1])
def test_the_words_are_those_of_oka(
    program: ModuleType, tmp_path: Path, batch_size: int, index: int
) -> None:
    ours = RandomWords(length=8, seed=3, seconds=60)
    context = TaskContext("source", index, 2, batch_size, "job")
    expected = list(itertools.islice(ours.open(context), 300))
    chosen = settings(program, tmp_path, batch_size=batch_size, seconds=60, parallelism=2)
    drawn = itertools.islice(program.Words(chosen, index), 300)
    assert [words for words, _ in drawn] == expected
    assert program.dictionary(chosen) == ours.dictionary()


def test_every_hundredth_word_is_stamped_and_all_are_in_the_file(
    program: ModuleType, tmp_path: Path
) -> None:
    chosen = settings(program, tmp_path)
    words = program.Words(chosen)
    batches = list(words)
    assert [at for at, (_, stamp) in enumerate(batches) if stamp is not None][:3] == [0, 10, 20]
    assert all(0 < stamp <= time.monotonic_ns() for _, stamp in batches if stamp is not None)
    words.write(1.5)
    left = json.loads((tmp_path / "source-0.json").read_text())
    assert sum(left["counts"].values()) == 10 * len(batches)
    assert left["cpu_seconds"] == 1.5
    assert (tmp_path / "started-0").exists()


def test_words_come_at_their_rate_with_the_moment_they_were_due(
    program: ModuleType, tmp_path: Path
) -> None:
    words = program.Words(settings(program, tmp_path, rate=1000.0, seconds=0.2, batch_size=10))
    started, stamps = time.monotonic_ns(), []
    for batch, stamp in words:
        assert len(batch) == 10
        assert words.seconds_to_next() <= 0.01
        if stamp is not None:
            stamps.append(stamp)
    assert time.monotonic_ns() - started >= 150_000_000
    gaps = [after - before for before, after in itertools.pairwise(stamps)]
    assert gaps == pytest.approx([100_000_000] * len(gaps), abs=10)


def test_a_word_has_one_sink_task_and_none_is_lost(program: ModuleType, tmp_path: Path) -> None:
    chosen = settings(program, tmp_path, parallelism=2, batch_size=3)
    batches = [(["a", "b", "c"], 7), (["d", "a", "a"], None), (["b"], None)]
    found = list(program.partition(batches, chosen))
    tasks: dict[str, set[int]] = {}
    for task, words, _ in found:
        for word in words:
            tasks.setdefault(word, set()).add(task)
    assert all(len(of_word) == 1 for of_word in tasks.values())
    assert sorted(w for _, words, _ in found for w in words) == sorted("abcdaab")
    ((task, _, stamp),) = [part for part in found if part[2] is not None]
    assert (task, stamp) == (hash("c") % 2, 7)


def test_the_window_begins_after_the_warm_up_and_ends_with_the_last_word(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0
    monkeypatch.setattr(program.time, "monotonic_ns", lambda: now)
    window = program.Window(settings(program, tmp_path, warmup=1.0))
    for now, words, stamp in (
        (10, 5, 1),  # the warm-up begins
        (900_000_000, 5, 2),
        (1_000_000_010, 5, 3),  # the window begins with the end of this batch
        (1_000_000_110, 20, 1_000_000_010),
        (1_000_000_210, 30, None),
    ):
        assert window.begun == (now > 1_000_000_010)
        window.arrived(words, stamp)
    now = 5_000_000_000
    window.write({"a": 65})
    left = json.loads((tmp_path / "sink-0.json").read_text())
    assert left["window"] == {"words": 50, "first_ns": 1_000_000_010, "last_ns": 1_000_000_210}
    assert list(array("q", base64.b64decode(left["latencies_ns"]))) == [100]
    assert left["counts"] == {"a": 65}
