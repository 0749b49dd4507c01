"""What Oka brings for monitoring: the page, the dashboard and the rules name what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import engine.monitoring
from engine.cli.main import commands
from engine.monitoring.families import all_families
from engine.monitoring.table import table

PAGE = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text(encoding="utf-8")
FOLDER = Path(engine.monitoring.__file__).parent
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"][0]["rules"]
BOARD = json.loads((FOLDER / "dashboard.json").read_text())
NAMES = {each.name for each in all_families()} | {
    f"oka_latency_seconds_{end}" for end in ("bucket", "count", "sum")
}


def test_the_page_has_the_table() -> None:
    told = re.search(r"<!-- the table: .*? -->\n(.*)<!-- end", PAGE, re.S)
    assert told is not None
    assert told[1].strip() == table(), "run: oka metrics names"


@pytest.mark.parametrize(
    "text",
    [
        *(rule["expr"] for rule in RULES),
        *(target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())),
        BOARD["annotations"]["list"][0]["expr"],
        BOARD["templating"]["list"][1]["query"]["query"],
        *re.findall(r"`([^`]*oka_[^`]*)`", PAGE),
    ],
)
def test_expressions_name_metrics_that_there_are(text: str) -> None:
    assert NAMES.issuperset(re.findall(r"oka_[a-z_]+", text)), text


def test_the_page_tells_what_to_do_about_each_alert() -> None:
    assert [rule["alert"] for rule in RULES] == re.findall(r"^\| `(Oka\w+)`", PAGE, re.M)


def test_panels_have_their_own_numbers_and_places() -> None:
    panels: list[dict[str, Any]] = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


@pytest.mark.parametrize(
    ("name", "begins"), [("names", "| name | kind"), ("dashboard", "{"), ("rules", "# Alerts")]
)
def test_commands_print_them(name: str, begins: str) -> None:
    done = CliRunner().invoke(commands, ["metrics", name])
    assert done.exit_code == 0
    assert done.output.startswith(begins)


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: apt install prometheus"
)
def test_promtool_finds_nothing_in_the_rules() -> None:
    checked = subprocess.run(
        ["promtool", "check", "rules", "--lint-fatal", str(FOLDER / "rules.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout
