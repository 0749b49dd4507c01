"""Tracebacks of workers that cannot read the source."""

from __future__ import annotations

import linecache
import sys
from types import SimpleNamespace

import pytest

from engine.notebook import cells
from engine.notebook.source_lines import with_source

CELL = "/tmp/ipykernel_7/123.py"


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """An IPython whose cell 3 has two lines."""

    def named(file: str) -> tuple[str, str] | None:
        return ("Cell", "In[3]") if file == CELL else None

    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=named))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    lines = ["def half(n):\n", "    return 1 / n\n"]
    monkeypatch.setitem(linecache.cache, CELL, (len("".join(lines)), None, lines, CELL))


@pytest.mark.usefixtures("notebook")
def test_a_frame_of_a_cell_gets_its_name_and_line() -> None:
    told = (
        f'  File "{CELL}", line 2, in half\n  File "/elsewhere.py", line 9, in other\n    other()\n'
    )
    assert with_source(told) == (
        "  Cell In[3], line 2, in half\n    return 1 / n\n"
        '  File "/elsewhere.py", line 9, in other\n    other()\n'
    )


@pytest.mark.usefixtures("notebook")
def test_members_of_a_group_are_indented() -> None:
    told = f'  |   File "{CELL}", line 2, in half\n  | ZeroDivisionError: division by zero\n'
    assert with_source(told) == (
        "  |   Cell In[3], line 2, in half\n  |     return 1 / n\n"
        "  | ZeroDivisionError: division by zero\n"
    )


@pytest.mark.parametrize(
    "text", ["", '  File "/no/such.py", line 3, in f\n', '  File "<string>", line 1, in <module>\n']
)
def test_what_nobody_knows_stays(text: str) -> None:
    assert with_source(text) == text


def test_there_is_no_notebook_here() -> None:
    assert not cells.are_here()
    assert cells.name_of(CELL) is None
    cells.Shown("nobody sees it").change("nor this")
