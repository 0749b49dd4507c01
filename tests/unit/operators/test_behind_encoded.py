"""What stands behind an operator that gives encoded records gets them, whatever it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.config import JobConfig, Native
from engine.job import JobHandle, JobResult
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Stream, source
from operators.sinks import Collect, Counts, Discard, JsonLines
from operators.sources import Collection

WORDS = [f"word {n * n % 17}" for n in range(400)]


def reduced() -> Stream[Any]:
    words = source(Collection(WORDS)).with_parallelism(1)
    pairs = words.map(lambda word: (word, 1)).key_by(0)
    return pairs.reduce(lambda a, b: (a[0], a[1] + b[1]))


def joined() -> Stream[Any]:
    left, right = (
        source(Collection([{"word": word, "n": n + side} for n, word in enumerate(WORDS[:120])]))
        .with_parallelism(1)
        .key_by("word")
        for side in (0, 1000)
    )
    return left.join(right, lambda a, b: (a["word"], a["n"] * b["n"]))


BEFORE = {"reduce": reduced, "join": joined}
BEHIND: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "nothing": lambda stream: stream,
    "map": lambda stream: stream.map(lambda pair: (pair[1] + 1, pair[0])),
    "filter": lambda stream: stream.filter(lambda pair: pair[1] % 3),
    "flat_map": lambda stream: stream.flat_map(lambda pair: [pair, (pair[0], 0)]),
    "map and filter": lambda stream: stream.map(lambda pair: (pair[0], pair[1] * 2)).filter(
        lambda pair: pair[1] > 10
    ),
    "gives up": lambda stream: stream.map(lambda pair: (pair[0], (pair[1] % 7 + 2) ** 23)),
    "is not understood": lambda stream: stream.map(lambda pair: str(pair).translate({})),
    "both": lambda stream: stream.map(lambda pair: repr(pair).translate({})).map(len),
    "a batch": lambda stream: stream.map_batches(lambda batch: [(len(pair), 1) for pair in batch]),
    "a key": lambda stream: stream.key_by(lambda pair: pair[1] % 5).count(emit="final"),
    "the first few": lambda stream: stream.key_by(0).top_n(2, 1, emit="final"),
    "take": lambda stream: stream.take(10**6),
}
IN_RUST = ("map", "filter", "flat_map", "map and filter")


def result_of(stream: Any, native: Native) -> JobResult:
    config = JobConfig.of({"progress": "none", "native": native, "batch_size": 64})
    return JobHandle(Plan.of(stream, config), ThreadLauncher()).wait_finished()


def records_of(result: JobResult) -> Counter[str]:
    return Counter(map(repr, result.output))


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("behind", BEHIND)
def test_records_are_those_of_python(before: str, behind: str) -> None:
    stream = BEHIND[behind](BEFORE[before]())
    expected = result_of(stream.sink(Collect()), "off")
    assert records_of(expected)
    for native in ("auto", "check"):
        found = result_of(stream.sink(Collect()), native)
        assert records_of(found) == records_of(expected)
        for one, other in zip(
            found.statistics.operators, expected.statistics.operators, strict=True
        ):
            assert (one.name, one.records_out) == (other.name, other.records_out)
        own = [each for each in found.statistics.operators if each.name.startswith("map")]
        if behind in IN_RUST and before == "join":
            of = [each for each in found.statistics.operators if each.name in behind.split(" and ")]
            assert of
            assert all(each.native for each in of), of
        elif behind in ("is not understood", "both"):
            assert not own[-2 if behind == "both" else -1].native


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("native", ["off", "auto", "check"])
def test_sinks_take_them(before: str, native: Native, tmp_path: Path) -> None:
    stream = BEFORE[before]()
    listed = result_of(stream.sink(Collect()), "off").output
    counts = result_of(stream.sink(Counts()), native).output
    assert set(counts) == {word for word, _ in listed}
    if before == "reduce":
        assert counts == dict(Counter(WORDS))
    discarded = result_of(stream.sink(Discard()), native).statistics
    assert discarded.records == len(listed)
    result_of(stream.sink(JsonLines(tmp_path)), native)
    lines = [line for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert len(lines) == len(listed)
