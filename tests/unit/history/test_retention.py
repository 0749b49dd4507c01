"""What a history keeps of longer ago: all counts, in a bounded size."""

from __future__ import annotations

import random
import zlib
from typing import Any

from engine.history.retention import compacted, decoded, encoded


def history(seconds: int, rows: int = 8) -> list[bytes]:
    numbers = random.Random(seconds)
    records: list[dict[str, Any]] = [
        {"kind": "job", "t": 0.0, "schema": "oka.job/1"},
        {"kind": "plan", "t": 0.0, "vertices": []},
    ]
    for t in range(1, seconds + 1):
        column = [numbers.randrange(5000) for _ in range(rows)]
        busy = [numbers.randrange(1000) for _ in range(rows)]
        sample = {"kind": "sample", "t": float(t), "seconds": 1.0, "in": column, "busy": busy}
        if t % 3:
            sample["late"] = [1] * rows
        records.append(sample)
        records.append({"kind": "tasks", "t": float(t), "seconds": 1.0, "backlog_bytes": busy})
        if t % 10 == 0:
            epoch = {"kind": "checkpoint", "epoch": t // 10}
            records.append({**epoch, "t": float(t), "began": float(t)})
            records.append({**epoch, "t": t + 0.5, "stored": t + 0.5 + t % 7})
            records.append({**epoch, "t": t + 0.9, "committed": t + 0.9})
        records.append({"kind": "log", "t": float(t), "text": f"line {t}"})
    return [encoded(record) for record in records]


def of(kind: str, lines: list[bytes]) -> list[dict[str, Any]]:
    found = [decoded(line) for line in lines]
    return [record for record in found if record is not None and record["kind"] == kind]


def test_counts_are_summed_up_and_the_last_minutes_stay() -> None:
    lines = history(3000)
    kept = compacted(lines, 10_000_000)
    before, after = of("sample", lines), of("sample", kept)
    for name in ("in", "late"):
        columns = ([each.get(name, [0] * 8) for each in some] for some in (before, after))
        first, second = (list(map(sum, zip(*column, strict=True))) for column in columns)
        assert first == second
    assert sum(each["seconds"] for each in after) == 3000
    assert after[-300:] == before[-300:]
    assert len(after) < 300 + 2700 / 10 + 2
    assert all(0 <= share <= 1000 for each in after for share in each["busy"])
    peak = max(max(each["backlog_bytes"]) for each in of("tasks", lines))
    assert max(max(each["backlog_bytes"]) for each in of("tasks", kept)) == peak
    assert [each["t"] for each in after] == sorted(each["t"] for each in after)


def test_one_record_is_left_of_a_checkpoint_and_the_slowest_of_many() -> None:
    kept = of("checkpoint", compacted(history(5000), 10_000_000))
    assert sum(each.get("of", 1) for each in kept) == 500
    assert len(kept) < 500
    assert len({each["epoch"] for each in kept}) == len(kept)
    assert all({"began", "stored", "committed"} <= each.keys() for each in kept)


def test_it_fits_and_says_what_it_lacks() -> None:
    lines = history(1200, rows=40)
    kept = compacted(lines, 40_000)
    assert len(zlib.compress(b"\n".join(kept), 6)) <= 40_000
    assert of("job", kept)
    assert of("plan", kept)
    assert of("sample", kept)
    texts = [each["text"] for each in of("log", kept)]
    assert texts == [f"line {n}" for n in range(1201 - len(texts), 1201)]
    (dropped,) = of("dropped", kept)
    assert dropped["of"] == {"log": 1200 - len(texts)}


def test_what_is_compacted_again_and_again_loses_no_count() -> None:
    lines: list[bytes] = []
    total = 0
    for part in range(4):
        new = [record for line in history(700) if (record := decoded(line)) is not None]
        for record in new:
            record["t"] += part * 700.0
        total += sum(sum(each["in"]) for each in new if each["kind"] == "sample")
        lines = compacted([*lines, *map(encoded, new)], 30_000)
    assert sum(sum(each["in"]) for each in of("sample", lines)) == total
    logs = sum(each["of"]["log"] for each in of("dropped", lines)) + len(of("log", lines))
    assert logs == 4 * 700


def test_samples_of_different_plans_stay_apart_and_garbage_goes() -> None:
    samples = [
        {"kind": "sample", "t": 1.0, "seconds": 1.0, "in": [1, 2]},
        {"kind": "sample", "t": 1.1, "seconds": 1.0, "in": [1, 2, 3]},
        {"kind": "sample", "t": 5000.0, "seconds": 1.0, "in": [1]},
    ]
    lines = [
        *map(encoded, samples),
        b"",
        b"{",
        b"[]",
        b'{"kind":1}',
        b'{"kind":"x"}',
        b"[" * 100_000,
    ]
    assert of("sample", compacted(lines, 10_000)) == samples


def test_the_last_flame_graphs_stay_and_one_always_does() -> None:
    numbers = random.Random(1)
    stacks = [
        [";".join(f"f{numbers.randrange(10**6)} (a.py:1)" for _ in range(12)), 5]
        for _ in range(2000)
    ]
    flames = [encoded({"kind": "flame", "t": float(t), "stacks": stacks}) for t in range(9)]
    for most, left in ((10_000_000, [4, 5, 6, 7, 8]), (300_000, [7, 8]), (1, [8])):
        kept = compacted(history(100) + flames, most)
        assert [each["t"] for each in of("flame", kept)] == left
        assert of("dropped", kept)[0]["of"]["flame"] == 9 - len(left)
