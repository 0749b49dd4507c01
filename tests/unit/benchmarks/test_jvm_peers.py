"""The entries of the JVM's peers, and the words of Spark's source, without a JVM."""

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from benchmarks.peers import jvm, peer
from benchmarks.peers.programs.words.spark_words import PERIOD, emitted_counts, index_of_value
from benchmarks.systems import APIS
from pipelines.word_windows import WindowApi


def test_each_entry_has_a_name_of_its_own_and_a_program() -> None:
    names = [(entry.system, entry.api) for entry in jvm.JVM_PEERS]
    assert len(set(names)) == len(names)
    for entry in jvm.JVM_PEERS:
        assert (peer.PROGRAMS / entry.program).is_file()
        assert entry.like in (*APIS, *get_args(WindowApi))


def test_a_missing_jar_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jvm.shutil, "which", lambda _: "/usr/bin/java")
    monkeypatch.setattr(jvm, "_JAR", tmp_path / "oka-peers.jar")
    missing = jvm.JVM_PEERS[0].missing()
    assert missing is not None
    assert "oka-peers.jar" in missing


@pytest.mark.parametrize("values", [0, 1, 12_345, PERIOD - 1, PERIOD, 2 * PERIOD + 77])
def test_the_words_of_so_many_values_are_counted(values: int) -> None:
    counts = Counter(index_of_value(value, 100) for value in range(values))
    assert emitted_counts(values, 100) == [counts[word] for word in range(100)]


def test_no_word_is_rare() -> None:
    counts = emitted_counts(10_000_000, 100)
    assert min(counts) > 0.9 * 100_000
    assert max(counts) < 1.1 * 100_000
