"""The file of a history: whatever end it has, the lines before that are read."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from engine.history import file
from engine.history.file import HistoryReader, HistoryWriter, read_lines

LINES = [
    f'{{"kind":"log","t":{n},"text":"{random.Random(n).random()}"}}'.encode() for n in range(60)
]


def write(path: Path, *, whole: bool = True) -> None:
    writer = HistoryWriter(path, LINES[:5])
    for at in range(5, len(LINES), 5):
        writer.write(LINES[at : at + 5])
    assert writer.size == path.stat().st_size
    writer.close(whole=whole)


def test_it_is_gzip_of_its_lines_and_only_its_users(tmp_path: Path) -> None:
    write(tmp_path / "job.oka")
    assert gzip.decompress((tmp_path / "job.oka").read_bytes()).splitlines() == LINES
    assert (tmp_path / "job.oka").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["job.oka"]


def test_cut_off_anywhere_it_has_all_that_was_written_before(tmp_path: Path) -> None:
    path = tmp_path / "job.oka"
    ends = []
    writer = HistoryWriter(path)
    for line in LINES:
        writer.write([line])
        ends.append(writer.size)
    writer.close(whole=False)
    data = path.read_bytes()
    for size in range(0, len(data) + 1, 13):
        path.write_bytes(data[:size])
        found = list(read_lines(path))
        assert found == LINES[: len(found)]
        assert len(found) >= sum(end <= size for end in ends)


def test_behind_damage_nothing_is_read_and_nothing_raises(tmp_path: Path) -> None:
    path = tmp_path / "job.oka"
    write(path)
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        assert len(list(read_lines(path))) <= len(LINES) + 1
    for garbage in (b"", b"\n" * 10, b"\x1f\x8b", b'{"kind":"job"}\n', gzip.compress(b"\xff" * 99)):
        path.write_bytes(garbage)
        assert list(read_lines(path)) == []


def test_a_small_file_with_much_text_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "_MOST_BYTES", 2_000_000)
    (tmp_path / "job.oka").write_bytes(gzip.compress((b"x" * 99 + b"\n") * 100_000))
    reader = HistoryReader(tmp_path / "job.oka")
    assert sum(len(line) + 1 for line in reader.lines()) < 4_000_000
    assert reader.is_damaged
    reader.close()


def test_a_reader_goes_on_and_sees_that_the_file_was_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "job.oka"
    writer = HistoryWriter(path, LINES[:2])
    reader = HistoryReader(path)
    assert list(reader.lines()) == LINES[:2]
    assert list(reader.lines()) == []
    writer.write(LINES[2:4])
    assert list(reader.lines()) == LINES[2:4]
    assert not reader.is_replaced
    writer = writer.rewrite(LINES[3:4])
    assert reader.is_replaced
    writer.write(LINES[4:5])
    writer.close()
    assert list(reader.lines()) == []
    reader.close()
    assert list(read_lines(path)) == LINES[3:5]


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        HistoryWriter(tmp_path / "job.oka", LINES)
    assert list(tmp_path.iterdir()) == []
