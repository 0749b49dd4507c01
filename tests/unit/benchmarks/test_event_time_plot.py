"""The page on time: its programs print what it says, and its picture shows what they do."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

from benchmarks.plots import render
from benchmarks.plots.event_time import TIMES, draw, observe
from tests.first_hour import readme

PAGE = Path(__file__).resolve().parents[3] / "docs/explanation/time.md"
PROGRAMS = readme.programs(PAGE)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
@pytest.mark.usefixtures("nothing_left")
def test_a_program_prints_what_it_says(number: int, tmp_path: Path) -> None:
    program = PROGRAMS[number]
    (tmp_path / "program.py").write_text(program)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(tmp_path / "program.py"), run_name="__main__")
    assert printed.getvalue().splitlines() == re.findall(r"# (\[.*\])$", program, re.MULTILINE)


def test_the_picture_is_of_what_happened() -> None:
    observed = observe()
    assert [time for _, time in observed.records] == list(TIMES)
    assert str(list(TIMES)) in PROGRAMS[0]
    assert observed.results == [(8, 7, 0, 10), (9, 8, 0, 10), (17, 7, 10, 20), (20, 5, 20, 30)]
    assert observed.late == [(14, 4)]
    heights = [watermark for _, watermark in observed.watermarks]
    assert heights == sorted(heights)
    highest = 0
    for now, time in observed.records:
        highest = max(highest, int(time))
        told = [watermark for at, watermark in observed.watermarks if at <= now]
        assert told[-1] == pytest.approx(highest - 4, abs=1e-5)
    drawing = draw(observed)
    assert "second 4 comes too late" in drawing.alt
    assert render(drawing, "png").startswith(b"\x89PNG")
    picture = f"../images/{drawing.name}.png"
    assert f"]({picture})" in PAGE.read_text().replace("\n", " ")
    assert (PAGE.parent / picture).is_file()
