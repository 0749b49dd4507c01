"""Each program of the documentation runs, and prints what it says that it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages
from tests.first_hour import readme

ELSEWHERE = {
    "howto/extending.md",  # tests/integration/test_extending.py, also beside a failure
    "reference/s3.md",  # tests/integration/test_readme.py, with the server of the page
}
WITH_PROGRAMS = [page for page in pages.PAGES if readme.programs(page)]
TASKS = re.findall(r"^\d+\. \[.*\]\((.*)\)$", (pages.DOCS / "index.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "page", [page for page in WITH_PROGRAMS if pages.name(page) not in ELSEWHERE], ids=pages.name
)
def test_programs_of_a_page_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for promised, printed in pages.run(page, tmp_path, monkeypatch):
        if promised:
            assert re.fullmatch(re.escape(promised).replace("…", ".*"), printed), printed


def test_ten_tasks_are_done_by_copying_twenty_lines() -> None:
    assert len(TASKS) == 10
    for task in TASKS:
        (program,) = readme.programs(pages.DOCS / task)
        lines = [line for line in program.splitlines() if line.strip()]
        assert len(lines) <= 20, f"{task} takes {len(lines)} lines"
