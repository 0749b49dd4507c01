"""Writing to stdout and stderr that are missing, closed, broken, full, or something else."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from engine import console


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """The reading end of a pipe of one page, and a stream on the other."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    stream = os.fdopen(writing, "w", encoding="ascii", errors="strict")
    yield reading, stream
    for end in (reading, stream.fileno()):
        with contextlib.suppress(OSError):
            os.close(end)
    with pytest.raises(OSError):
        stream.close()


def test_text_arrives_with_escapes_for_what_the_encoding_lacks(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    assert console.write("größer\n", stream)
    assert os.read(reading, 100) == b"gr\\xf6\\xdfer\n"


def test_a_full_pipe_is_given_up_and_a_reader_gets_whole_pieces(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    assert console.write("a" * 4096, stream, patience=0.0)
    assert not console.write("b", stream, patience=0.0)
    assert os.read(reading, 10_000) == b"a" * 4096
    assert console.write("c", stream, patience=0.0)


@pytest.mark.parametrize("closed", ["reader", "descriptor", "stream"])
def test_a_stream_without_an_end_is_told_at_once(pipe: tuple[int, TextIO], closed: str) -> None:
    reading, stream = pipe
    if closed == "reader":
        os.close(reading)
    elif closed == "descriptor":
        os.close(stream.fileno())
    assert not console.write("lost", stream if closed != "stream" else _closed(), patience=None)


def test_objects_in_the_place_of_stderr_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = io.StringIO()
    monkeypatch.setattr(sys, "stderr", notebook)
    assert console.write("shown")
    assert notebook.getvalue() == "shown"
    assert not console.is_terminal()
    monkeypatch.setattr(sys, "stderr", None)
    assert not console.write("lost")
    assert not console.is_terminal()
    assert console.is_ready(0.0)
    monkeypatch.setattr(sys, "stderr", object())
    assert not console.write("lost")
    assert not console.is_terminal()


def test_a_stream_of_a_notebook_gets_the_text_and_not_its_descriptor(
    pipe: tuple[int, TextIO],
) -> None:
    reading, stream = pipe
    cell = io.StringIO()
    cell.fileno = stream.fileno  # type: ignore[method-assign]
    assert console.write("in the cell", cell)
    assert cell.getvalue() == "in the cell"
    assert console.is_ready(0.0, cell)
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)


def _closed() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream
