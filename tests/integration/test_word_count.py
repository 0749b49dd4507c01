"""Word count end to end on the local runtime: exact for any parallelism, batch size, channel."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine
from engine.system import LOCAL_TRANSPORT
from operators import source
from operators.sinks import Collect, Counts
from operators.sources import Collection, RandomWords, TextFiles
from pipelines.word_count import TEXT, count, random_word_count, word_count, words_of_line
from tests.part import examples

pytestmark = pytest.mark.usefixtures("nothing_left")


def expected_counts(repeat: int = 1) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in TEXT.read_text(encoding="utf-8").splitlines():
        counts.update(words_of_line(line))
    return Counter({word: n * repeat for word, n in counts.items()})


@pytest.mark.parametrize(
    ("api", "transport"),
    [("per_record", "shm"), ("map_batches", "ipc"), ("native", "tcp"), ("native", "shm")],
)
def test_the_counts_of_a_real_text_are_exact(transport: str, api: str) -> None:
    result = engine.execute(word_count(api=api), parallelism=2, batch_size=100, transport=transport)
    assert result.output == expected_counts()


@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_any_parallelism_gives_the_same_counts(parallelism: int) -> None:
    result = engine.execute(word_count(api="native", repeat=2), parallelism=parallelism)
    assert result.output == expected_counts(repeat=2)


@settings(
    max_examples=examples(12),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    words=st.lists(st.text(max_size=12), max_size=300),
    parallelism=st.integers(1, 4),
    batch_size=st.one_of(st.just(1), st.integers(1, 10_000)),
    transport=st.sampled_from([LOCAL_TRANSPORT, "ipc", "tcp"]),
    api=st.sampled_from(["per_record", "map_batches", "native"]),
)
def test_counts_are_those_of_a_counter(
    words: list[str], parallelism: int, batch_size: int, transport: str, api: str
) -> None:
    pipeline = count(source(Collection(words)), api).sink(Counts())  # type: ignore[arg-type]
    result = engine.execute(
        pipeline, parallelism=parallelism, batch_size=batch_size, transport=transport
    )
    assert result.output == Counter(words)
    assert result.statistics.source_records == len(words)
    if api != "map_batches":  # CountBatches emits fewer records than it takes
        assert result.statistics.records == len(words)


@pytest.mark.large
def test_twenty_million_words_are_counted_exactly() -> None:
    total = 20_000_001
    source_of_words = RandomWords(length=32, count=total, seed=7)
    result = engine.execute(
        count(source(source_of_words), "native").sink(Counts()), parallelism=2, batch_size=1000
    )
    assert sum(result.output.values()) == total
    assert set(result.output) == set(source_of_words.dictionary())


def test_records_of_one_channel_keep_their_order() -> None:
    numbers = list(range(50_000))
    pipeline = source(Collection(numbers)).rebalance().map(lambda n: n).sink(Collect())
    assert engine.execute(pipeline, batch_size=7).output == numbers


def test_union_broadcast_and_two_sinks() -> None:
    left, right = source(Collection([1, 2])), source(Collection([3]))
    both = left.union(right)
    total = both.map(lambda n: ("all", n)).key_by(0).sum(1).sink(Counts()).named("total")
    copies = (
        left.broadcast().map(lambda n: n).with_parallelism(3).sink(Collect()).with_parallelism(3)
    ).named("copies")
    result = engine.execute([total, copies])
    assert result.outputs["total"] == {"all": 6}
    assert sorted(result.outputs["copies"]) == [1, 1, 1, 2, 2, 2]


def test_every_key_kind_is_counted_as_the_documentation_says() -> None:
    nan = float("nan")
    keys = [None, 1, 1.0, True, "1", b"1", (1, "a"), (1.0, "a"), nan, float("nan"), 2**70, -0.0, 0]
    for make in (
        lambda s: s.key_by().count(),
        lambda s: s.map(lambda k: (k, 1)).key_by(0).reduce(lambda a, b: (a[0], a[1] + b[1])),
        lambda s: s.key_by(lambda k: k).count(),
    ):
        result = engine.execute(make(source(Collection(keys))).sink(Counts()), parallelism=3)
        found = Counter({repr(key): n for key, n in result.output.items()})
        assert sorted(found.values()) == sorted([1, 3, 1, 1, 2, 2, 1, 2])
        assert found["nan"] == 2


def test_an_empty_input_ends_at_once() -> None:
    result = engine.execute(count(source(Collection([])), "native").sink(Counts()), parallelism=2)
    assert result.output == {}
    assert result.statistics.records == 0


def test_a_record_of_fifty_megabytes_arrives_whole() -> None:
    blob = random.Random(1).randbytes(50 * 1024 * 1024)
    pipeline = source(Collection([(1, blob)])).rebalance().map(lambda r: r[1]).sink(Collect())
    assert engine.execute(pipeline).output == [blob]


def test_open_load_keeps_its_rate_and_measures_latency() -> None:
    result = engine.execute(random_word_count(1.0, 8, rate=20_000.0, api="native"), batch_size=10)
    assert sum(result.output.values()) == result.statistics.source_records
    assert 10_000 < result.statistics.source_records <= 22_000
    assert result.latency.count > 50
    assert 0 < result.latency.p50 <= result.latency.p99 <= result.latency.max


def test_text_files_are_read_once_by_all_tasks(tmp_path: Path) -> None:
    for at in range(5):
        (tmp_path / f"{at}.txt").write_text("".join(f"{at} {line}\n" for line in range(1000)))
    lines = source(TextFiles(str(tmp_path / "*.txt"))).sink(Collect())
    found = engine.execute(lines, parallelism=3).output
    assert sorted(found) == sorted(f"{at} {line}" for at in range(5) for line in range(1000))
