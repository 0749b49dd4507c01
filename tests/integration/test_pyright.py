"""Programs as pyright sees them, which editors run: those of README and the docs, and pipelines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.first_hour import readme

ROOT = Path(__file__).parents[2]
TYPED = """
from datetime import timedelta
from typing import Any

import oka

numbers = oka.source(oka.sources.Collection([1, 2]))
texts: oka.Stream[str] = numbers.map(lambda n: n + 1).filter(lambda n: n > 1).map(str)
keyed = texts.key_by(len)
counted: oka.Stream[tuple[int, int]] = keyed.count()
windows = keyed.window(oka.Tumbling(timedelta(seconds=1)))
found: oka.Stream[tuple[int, dict[str, Any], Any, Any]] = windows.aggregate(n=oka.Count())
sizes: oka.Stream[int] = found.map(lambda window: window[0])
rolled: oka.Stream[tuple[str, Any]] = keyed.over(timedelta(seconds=1)).count()
once: oka.Stream[str] = keyed.deduplicate()
latest: oka.Stream[tuple[str, list[int]]] = keyed.cogroup(
    numbers.key_by(lambda n: n),
    oka.Tumbling(timedelta(seconds=1)),
    lambda key, texts, numbers, start, end: (texts[0], numbers),
).map(lambda found: found[1])
of_numbers = numbers.key_by(lambda n: n)
near = (timedelta(0), timedelta(seconds=1))
both: oka.Stream[tuple[str, int]] = keyed.interval_join(of_numbers, between=near)
left: oka.Stream[tuple[str, int | None]] = keyed.temporal_join(of_numbers, how="left")
second = oka.Tumbling(timedelta(seconds=1))
full: oka.Stream[tuple[str | None, int | None]] = keyed.window_join(
    of_numbers, second, how="full"
)
named: oka.Stream[str] = keyed.interval_join(of_numbers, lambda text, n: str(n), between=near)
columns = numbers.map(lambda n: {"n": n}).to_columns().key_by("n")
rows = columns.interval_join(columns, between=near).map(lambda row: row["n"])
counts: oka.Stream[dict[str, Any]] = columns.count().to_records()
oka.execute([counted.sink(oka.sinks.Collect()), texts.sink(oka.sinks.Print())], parallelism=2)
"""
WRONG = """
import oka

words = oka.source(oka.sources.Collection(["a"]))
words.map(lambda word: word + 1)
words.key_by(len).count().map(lambda pair: pair.upper())
oka.Tumblng
lengths = words.map(len).key_by(lambda length: length)
words.key_by(len).temporal_join(lengths, how="left").map(lambda pair: pair[1] + 1)
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What its mode `basic` finds."""
    pytest.importorskip("basedpyright", reason="it is in the extra dev")
    folder = tmp_path_factory.mktemp("programs")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, text in enumerate(each for page in pages for each in readme.modules(page)):
        (folder / f"program_{number}.py").write_text(text)
    (folder / "typed.py").write_text(TYPED)
    (folder / "wrong.py").write_text(WRONG)
    settings = {
        "include": [".", *(os.path.relpath(ROOT / each, folder) for each in ("pipelines", "oka"))],
        "typeCheckingMode": "basic",
        "pythonVersion": "3.10",
        "extraPaths": [str(ROOT)],
        "reportMissingImports": "none",  # some extras are not installed, and their types unknown
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] > len(list((ROOT / "pipelines").rglob("*.py")))
    return [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in found["generalDiagnostics"]
        if each["severity"] == "error"
    ]


def test_programs_of_the_docs_and_the_pipelines_have_none(errors: list[str]) -> None:
    assert [each for each in errors if not each.startswith("wrong.py")] == []


def test_mistakes_are_found(errors: list[str]) -> None:
    wrong = [each.split(":")[1] for each in errors if each.startswith("wrong.py")]
    assert wrong == ["5", "6", "7", "9"], errors
