"""Where the objects of records lie in memory."""

import subprocess
import sys

import pytest

PAGES = """
from engine.task.heap import fill_gaps

others = [bytes(47) for _ in range(20_000)]  # of 80 bytes each
del others[::50]  # leaves a gap on each page
if {fills}:
    fill_gaps()
words = [bytes(47) for _ in range(100)]
print(len({{id(word) // 4096 for word in words}}))
"""


def pages_of_words(*, fills: bool) -> int:
    """On how many pages a hundred words lie that come where there are gaps."""
    script = PAGES.format(fills=fills)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    return int(run.stdout)


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="of CPython's allocator")
def test_words_lie_side_by_side_where_there_were_gaps() -> None:
    assert pages_of_words(fills=False) > 50
    assert pages_of_words(fills=True) <= 4
