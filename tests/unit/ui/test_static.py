"""The page's files: libraries as they were published, all small, nothing from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.history import view
from engine.history.reading import JobHistory
from engine.history.retention import encoded

STATIC = Path(engine.__file__).parent / "ui/static"
VENDOR = STATIC / "vendor"
OURS = sorted([*STATIC.glob("*.js"), *STATIC.glob("*.css"), *STATIC.glob("*.html")])
MOST_BYTES = 250_000


def node_version() -> tuple[int, ...]:
    """Of the node that there is; () if there is none."""
    if shutil.which("node") is None:
        return ()
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(each) for each in said.strip().lstrip("v").split(".")[:2])


needs_node = pytest.mark.skipif(
    node_version() < (20, 19), reason="needs node 20.19 or newer, which sees that files are modules"
)


def test_libraries_are_those_of_the_table_and_have_licences() -> None:
    rows = re.findall(
        r"^\| `(\S+)` \|.* \[.+\]\((\S+)\) \| `(\w{64})` \|$",
        (VENDOR / "README.md").read_text(),
        re.M,
    )
    assert {"README.md", *(row[0] for row in rows), *(row[1] for row in rows)} == {
        each.name for each in VENDOR.iterdir()
    }
    for name, _, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_the_page_is_small() -> None:
    served = [*OURS, *VENDOR.glob("*.js"), *VENDOR.glob("*.css"), STATIC / "icon.svg"]
    assert sum(each.stat().st_size for each in served) <= MOST_BYTES
    assert all(len(each.read_text().splitlines()) <= 300 for each in OURS)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_nothing_makes_html_of_texts_or_asks_another_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "//cdn",
    ):
        assert word not in text, word
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    if path.suffix == ".html":
        assert not re.search(r"\sstyle=|\son\w+=|<script>|<style", text)


def test_all_modules_are_asked_for_at_once() -> None:
    index = (STATIC / "index.html").read_text()
    for path in STATIC.glob("*.js"):
        assert f'"/static/{path.name}"' in index, path.name


@needs_node
def test_the_model_of_the_page() -> None:
    tests = sorted(str(each) for each in Path(__file__).parent.glob("*.test.mjs"))
    done = subprocess.run(
        ["node", "--test", *tests], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_node
def test_the_page_shows_what_the_terminal_shows(tmp_path: Path) -> None:
    records = [
        {"kind": "job", "t": 0, "schema": "oka.job/1", "name": "words", "since": 1e9},
        {
            "kind": "plan",
            "t": 0.1,
            "operators": [{"id": at, "name": name} for at, name in enumerate("abcd")],
            "vertices": [
                {"name": "a", "operators": [0], "parallelism": 1},
                {"name": "c -> b", "operators": [2, 1], "parallelism": 2},
                {"name": "d", "operators": [3], "parallelism": 1},
            ],
            "edges": [{"source": 0, "target": 1}, {"source": 1, "target": 2}],
        },
        *(
            {
                "kind": "sample",
                "t": t,
                "seconds": 1.0,
                "in": [0, t * 3, t * 2, t],
                "out": [9, t * 3, t, t],
                **({"blocked": [300 + 10 * t, 30, 0]} if t > 2 else {}),
                "busy": [10, 90 * t, 400],
                "waiting": [100, 50, 0],
            }
            for t in range(1, 9)
        ),
        {"kind": "tasks", "t": 8, "seconds": 1.0, "watermark_lag_ms": [0, 5, 7, 1]},
        {"kind": "error", "t": 5, "type": "WorkerLost", "message": "gone"},
    ]
    shown = in_node(
        tmp_path,
        records,
        "const all = model.vertices(history); const facts = model.summary(history, all, 'running');"
        "return [all.flatMap((each) => each.operators.map((one) => [one.name, one.total.in, "
        "one.total.out, units.short(one.inRate), units.short(one.outRate), "
        "units.percent(each.busy), units.percent(each.blocked), each.isBottleneck])), "
        "facts.records];",
    )
    history = JobHistory(tmp_path / "job.oka")
    history.add(map(encoded, records))
    expected = [
        [
            *(row.cells[0], int(row.cells[2].replace(",", "")), int(row.cells[3].replace(",", ""))),
            *(row.cells[4], row.cells[5], row.cells[6], row.cells[8], row.is_bottleneck),
        ]
        for row in view.rows(history)
    ]
    assert shown == [expected, history.records]
    assert any(row[-1] for row in expected)


def in_node(folder: Path, records: list[dict[str, Any]], body: str) -> Any:
    """What the body gives for the page's history of these records."""
    script = folder / "script.mjs"
    modules = "".join(
        f"import * as {name} from {json.dumps((STATIC / f'{name}.js').as_uri())};\n"
        for name in ("model", "units")
    )
    script.write_text(
        f"{modules}const history = new model.JobHistory();\n"
        f"history.add({json.dumps(records)});\n"
        f"console.log(JSON.stringify((() => {{ {body} }})()));\n"
    )
    done = subprocess.run(["node", script], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)
