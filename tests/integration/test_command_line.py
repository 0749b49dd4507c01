"""The command line as a person uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from engine.cli.main import commands

ROOT = Path(__file__).parents[2]
PIPELINE = """
from operators import source
from operators.sinks import Counts
from operators.sources import Collection

SCALE = 2

def times(n):
    return n * SCALE

def pipeline(n=3):
    return source(Collection(range(n))).map(times).key_by().count().sink(Counts())
"""


def oka(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "oka"), *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def test_run_prints_table_and_top_entries(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PIPELINE)
    done = oka("run", "mine.py", "n=5", "--parallelism", "2", "--top", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "records at the sinks" in done.stdout
    assert "map" in done.stdout
    assert "… and 2 more" in done.stdout


def test_run_as_json(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PIPELINE)
    done = oka("run", "mine.py", "--json", "--set", "marker_interval=1", cwd=tmp_path)
    *progress, last = done.stdout.splitlines()
    assert {json.loads(line)["schema"] for line in progress} <= {"oka.progress/1"}
    result = json.loads(last)
    assert result["schema"] == "oka.result/1"
    assert result["records"] == 3
    assert result["latency_us"]["count"] == 3
    assert result["config"]["marker_interval"] == 1


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_folder_of_models_that_is_not_there_is_named_before_anything_starts(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from operators import source\n"
        "from operators.sinks import Discard\n"
        "from operators.sources import Models\n"
        "pipeline = source(Models(watch='typo')).broadcast(via='channels').sink(Discard())\n"
    )
    done = oka(command, "mine.py", cwd=tmp_path)
    assert done.returncode == 1
    told = f"error: models: Models watches '{tmp_path / 'typo'}', which does not exist"
    assert done.stderr.startswith(told), done.stderr


def test_plan_and_run_say_what_is_asked_for_in_vain() -> None:
    resources = """resources={"*": {"gpus": 1}}"""
    for command, said in (("plan", "note: runtime"), ("run", "WARNING oka: runtime")):
        done = oka(command, "pipelines/word_count.py", "--set", resources)
        assert done.returncode == 0, done.stderr
        assert f"{said} 'local' gives out no gpus, which operators" in done.stdout + done.stderr


def test_plan_runs_nothing() -> None:
    text = oka("plan", "pipelines/word_count.py", "--parallelism", "2")
    assert text.returncode == 0, text.stderr
    assert "text_files -> flat_map" in text.stdout
    mermaid = oka("plan", "pipelines/word_count.py", "--mermaid")
    assert "flowchart" in mermaid.stdout or "graph " in mermaid.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["run", "missing.py"], 2, "pipeline file 'missing.py' does not exist"),
        (["run", "pipelines/word_count.py:nothing"], 2, "has no nothing"),
        (["run", "pipelines/word_count.py", "repeat"], 2, "expected NAME=VALUE"),
        (["run", "pipelines/word_count.py", "color=3"], 2, "unexpected keyword argument 'color'"),
        (["run", "pipelines/word_count.py", "-p", "0"], 2, "parallelism is 0, expected"),
        (["run", "pipelines/word_count.py", "paths=/none"], 1, "/none"),
        (["run", "pipelines/word_count.py", "--ray-address", "auto"], 2, "expected 'ray'"),
        (["plan", "pipelines/word_count.py", "--set", "ray_address=x"], 2, "add --runtime ray"),
        (["run"], 2, "Missing argument"),
        (["bench", "word-count", "--batch", "0"], 2, "0 is below 1"),
        (["bench", "soak", "--seconds", "5"], 2, "--seconds is 5, expected at least 48"),
        (["bench", "word-count", "--load", "2"], 2, "neither closed nor a share"),
        (["bench", "word-count", "--json", "/proc/x/y.json"], 2, "cannot be written"),
        (["bench", "convert", "none.json", "out.json", "--to", "oka"], 2, "No such file"),
        (["report"], 2, "Missing argument"),
        (["report", "none.json"], 2, "No such file"),
        (["report", "pyproject.toml"], 2, "pyproject.toml is not JSON"),
        (["report", "none.json", "--format", "gif"], 2, "'gif' is none of png, svg"),
    ],
)
def test_wrong_use_says_what_is_wrong(arguments: list[str], status: int, message: str) -> None:
    done = oka(*arguments)
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("group", [[], ["bench"], ["testbed"]])
def test_help_of_every_command(group: list[str]) -> None:
    found: click.Command | None = commands
    for name in group:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name)
    assert isinstance(found, click.Group)
    for name in found.list_commands(click.Context(found)):
        shown = CliRunner().invoke(commands, [*group, name, "--help"], prog_name="oka")
        assert shown.exit_code == 0, shown.output
        assert shown.output.startswith(f"Usage: {' '.join(['oka', *group, name])}")


def test_a_short_benchmark_writes_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = oka(
        *("bench", "word-count", "--payload", "8", "--batch", "100", "--load", "closed,0.5"),
        *("--parallelism", "1"),
        *("--api", "per_record,native", "--seconds", "0.3", "--warmup", "0.1", "--repeats", "1"),
        *("--json", str(file)),
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text())
    assert written["schema"] == "oka.bench/1"
    systems = [(row["system"], row["api"], row["load"]) for row in written["rows"]]
    assert systems == [
        (system, api, load)
        for load in ("closed", "0.5")
        for system, api in (
            ("pyzmq_msgpack_pair", "lists"),
            ("oka", "per_record"),
            ("oka", "native"),
        )
    ]
    for row in written["rows"]:
        assert row["throughput"]["median"] > 0
        assert row["cpu_seconds_per_million"]["median"] > 0
        assert row["latency_us"]["p99"] > 0
        assert row["failures"] == []
