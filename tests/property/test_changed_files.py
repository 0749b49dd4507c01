"""Files that change while a job is stopped: each line is read once, or the job does not go on."""

from __future__ import annotations

import gzip
import random
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import CheckpointError
from engine.graph.context import TaskContext
from engine.graph.source import SplitReader
from engine.graph.splits import Splits
from engine.task.source.reading import ENDED, Position
from engine.task.source.shares import Shares
from operators import source
from operators.sinks import Collect
from operators.sources import TextFiles, text_files
from operators.sources.layout import Layer, Piece, ranges
from tests import rescaling
from tests.part import examples


def reading(
    files: TextFiles,
    parallelism: int,
    shares: int,
    positions: dict[int, Position],
    chance: random.Random,
    most: int | None,
) -> tuple[list[str], dict[int, Position]]:
    """What so many tasks read from these positions on, at most so many batches each; and behind."""
    files.validate()
    still_open = frozenset(s for s in range(shares) if positions.get(s) != ENDED)
    found: list[str] = []
    behind: dict[int, Position] = {}
    for index in range(parallelism):
        context = TaskContext("t", index, parallelism, chance.randint(1, 5), "job")
        context = replace(context, splits=Splits(), open_shares=still_open, checkpoints=True)
        if chance.random() < 0.5:
            context.splits.follow()
        own = {share: at for share, at in positions.items() if share % parallelism == index}
        of_task = Shares(files, context, shares, own)
        context.splits.begin(of_task.splits)
        count = 1 << 30 if most is None else chance.randint(0, most)
        items = iter(of_task)
        for _, item in zip(range(count), items, strict=False):
            found += item
        told = of_task.positions
        if most is not None and next(items, None) is None and chance.random() < 0.5:
            told = dict.fromkeys(told, ENDED)  # the task had finished
        behind |= told
    return found, behind


def change(folder: Path, chance: random.Random, number: int) -> tuple[str, list[str]]:
    """Add lines to a file, or a file; its lines."""
    lines = [f"{number}-{at}" for at in range(chance.randint(0, 12))]
    text = "".join(f"{line}{chance.choice(['', chr(13)])}\n" for line in lines).encode()
    plain = [path for path in folder.iterdir() if path.suffix == ".txt"]
    if plain and chance.random() < 0.6:
        path = chance.choice(plain)
        with path.open("ab") as file:
            file.write(text)
        return path.name, lines
    is_packed = chance.random() < 0.3
    path = folder / f"{chance.randint(0, 9)}-{number}.{'gz' if is_packed else 'txt'}"
    path.write_bytes(gzip.compress(text) if is_packed else text)
    return path.name, lines


@settings(deadline=None, max_examples=examples(150))
@given(st.integers(0, 1 << 32))
def test_what_was_added_is_read_once(seed: int) -> None:
    chance = random.Random(seed)
    blocks = mock.patch.multiple(text_files, _BLOCK_BYTES=16, _LEAST_BLOCK_BYTES=8, _MOST_OPEN=2)
    with tempfile.TemporaryDirectory() as name, blocks:
        folder = Path(name)
        (folder / "0.txt").touch()
        expected: list[str] = []
        for number in range(4):
            expected += change(folder, chance, number)[1]
        shares, positions = chance.randint(1, 4), dict[int, Position]()
        repeat = chance.randint(1, 2)
        found: list[str] = []
        for leg in range(4):
            files = TextFiles(folder / "*", repeat=repeat)
            parallelism = shares if leg == 0 else chance.randint(1, 5)
            lines, positions = reading(files, parallelism, shares, positions, chance, 6)
            found += lines
            if all(position == ENDED for position in positions.values()):
                break  # the job has ended: what comes later is for another
            for number in range(10 * leg + 10, 10 * leg + chance.randint(10, 14)):
                expected += change(folder, chance, number)[1]
        else:
            files = TextFiles(folder / "*", repeat=repeat)
            lines, _ = reading(files, chance.randint(1, 5), shares, positions, chance, None)
            found += lines
            expected = expected * repeat
            assert sorted(found) == sorted(expected)
        assert len(set(found)) == len(found) or repeat > 1


@given(
    st.lists(st.integers(0, 50), max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.integers(1, 6),
)
def test_shares_have_all_of_a_layer_once(sizes: list[int], packed: list[bool], count: int) -> None:
    pieces = [
        Piece(f"{at}{'.gz' if packed[at] else ''}", 7, 7 + size, "")
        for at, size in enumerate(sizes)
    ]
    layer = Layer(tuple(pieces), tuple(range(0, 2 * count, 2)))
    for piece in pieces:
        own = sorted(
            (each.begin, each.end)
            for share in range(2 * count)
            for each in ranges([layer], share)
            if each.piece == piece
        )
        assert sum(end - begin for begin, end in own) == piece.end - 7
        assert all(one[1] == other[0] for one, other in pairwise(own))
        if piece.is_packed:
            assert len(own) <= 1


TEXT = "".join(f"{number}\n" for number in range(20))


def cut_back(path: Path) -> None:
    path.write_text(TEXT[:-5])


def emptied(path: Path) -> None:
    path.write_text("")


def gone(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    path.write_text("x" + TEXT)


def rewritten(path: Path) -> None:
    path.write_text(TEXT.replace("7", "8"))


def renamed(path: Path) -> None:
    path.rename(path.with_name("z.txt"))


def packed_again(path: Path) -> None:
    packed = path.with_name("b.gz")
    packed.write_bytes(packed.read_bytes() + gzip.compress(b"more\n"))


@pytest.mark.parametrize(
    ("changed", "is_read", "message"),
    [
        (
            cut_back,
            False,
            r"a.txt has 45 bytes, expected 50 or more(?s:.*)hint: lines may be added",
        ),
        (cut_back, True, "a.txt has 45 bytes"),
        (emptied, False, "a.txt is gone or has other content, expected its 50 bytes"),
        (emptied, True, None),
        (gone, False, "a.txt is gone or has other content"),
        (gone, True, None),
        (replaced, False, "a.txt is another file than before"),
        (replaced, True, "a.txt is another file than before"),
        (rewritten, False, "a.txt is another file than before"),
        (renamed, False, "z.txt has the lines of .*a.txt, which is gone"),
        (renamed, True, "z.txt has the lines of .*a.txt, which is gone"),
        (packed_again, False, "b.gz has changed, expected it as it was"),
        (packed_again, True, "b.gz has changed, expected it as it was"),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_what_was_changed_otherwise_is_refused(
    tmp_path: Path, changed: Any, is_read: bool, message: str | None, apart: bool
) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "c.txt").write_text(TEXT)
    first = opened(tmp_path / "*", apart)
    lines = 0
    for batch in first:
        lines += len(batch)
        if lines > (40 if is_read else 0):  # those of two files, and some of the third
            break
    changed(tmp_path / "a.txt")
    second = opened(tmp_path / "*", apart)
    if message is None:
        second.restore(first.position)
        assert lines + sum(map(len, second)) == 60
        return
    with pytest.raises(CheckpointError, match=message):
        second.restore(first.position)


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_last_line_that_goes_on_is_refused_where_it_was_read(
    tmp_path: Path, is_ended: bool
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthr")
    first = opened(path)
    items = iter(first)
    assert [next(items), next(items)] == [["one", "two"], ["thr"]]
    if is_ended:
        assert next(items, None) is None
    path.write_text("one\ntwo\nthree\nfour\n")
    with pytest.raises(CheckpointError, match=r"a.txt has grown in the middle of a line"):
        opened(path).restore(first.position)


def test_a_last_line_that_goes_on_is_read_whole_where_it_was_not(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthr")
    first = opened(path)
    assert next(iter(first)) == ["one", "two"]
    path.write_text("one\ntwo\nthree\nfour")
    second = opened(path)
    second.restore(first.position)
    assert [line for batch in second for line in batch] == ["three", "four"]


def test_another_repeat_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    with pytest.raises(CheckpointError, match="TextFiles has repeat=3, expected 2 as before"):
        opened(tmp_path / "*", repeat=3).restore(opened(tmp_path / "*", repeat=2).position)


def test_a_position_that_names_no_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    with pytest.raises(CheckpointError, match="the positions of TextFiles do not name its files"):
        opened(tmp_path / "*").restore(((0, None), 3))


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    with mock.patch.object(text_files, "_BLOCK_BYTES", 8):
        items = iter(opened(path))
        next(items)
        path.write_text(TEXT[:20])
        with pytest.raises(OSError, match=r"a.txt has 20 bytes, expected 50"):
            list(items)


def braked(line: str) -> str:
    if not line.startswith("done"):
        rescaling.braked([line])
    return line


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_job_goes_on_with_what_was_added(tmp_path: Path, after: int) -> None:
    """Also where one of its tasks had finished: the others read that, however many there are."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"line {number:3}\n" for number in range(100)))
    (folder / "b.txt").write_text("".join(f"done {number:3}\n" for number in range(100)))

    def pipeline() -> Any:
        return source(TextFiles(folder / "*")).map(braked).sink(Collect())

    settings = {"folder": tmp_path, "batch_size": 1}
    assert rescaling.run(pipeline, 2, 40, **settings) is None
    expected = [line for path in folder.iterdir() for line in path.read_text().splitlines()]
    for name in "abc":
        with (folder / f"{name}.txt").open("a") as file:
            file.write(f"more in {name}\nand more in {name}\n")
        expected += [f"more in {name}", f"and more in {name}"]
    assert rescaling.run(pipeline, after, 20, **settings) is None
    with (folder / "a.txt").open("a") as file:
        file.write("the last\n")
    outputs = rescaling.run(pipeline, 2, **settings)
    assert outputs is not None
    assert sorted(outputs["collect"]) == sorted([*expected, "the last"])


def opened(pattern: Path, apart: bool = False, repeat: int = 1) -> SplitReader:
    """A reader of all of the files, in batches of two lines, as they are now."""
    files = TextFiles(pattern, repeat=repeat)
    files.validate()
    context = TaskContext("t", 0, 1, 2, "job")
    if apart:
        context.splits.follow()
    return files.open(context)
