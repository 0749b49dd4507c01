"""What `--help` shows: whole sentences, and the arguments of a pipeline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from engine.arguments import type_name
from engine.cli.help import Group, first_sentence
from engine.cli.main import commands, show_output
from engine.cli.pipeline import arguments
from engine.errors import ConfigError

ROOT = Path(__file__).parents[3]
PIPELINE = '''
from __future__ import annotations
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from decimal import Decimal

Kind = Literal["plain", "fast"]

def mine(kind: Kind, /, n: int = 3, *rest, name: str = "", **more):
    """Count to n.

    As far as it goes.
    """
    raise AssertionError("it is not called")

def unknown(price: Decimal, ratio=0.5, text: str | None = None): ...

made = object()
'''


def shown(*words: str, columns: int = 80) -> str:
    done = CliRunner().invoke(
        commands, list(words), prog_name="oka", terminal_width=columns, catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return done.output


def groups(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    yield names, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from groups(command, *names, name)


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize(
    ("names", "group"), [pytest.param(*each, id=" ".join(each[0])) for each in groups(commands)]
)
def test_lists_of_commands_have_whole_sentences(
    names: tuple[str, ...], group: click.Group, columns: int
) -> None:
    text = shown(*names, "--help", columns=columns)
    assert "..." not in text.partition("Commands:")[2]
    assert max(map(len, text.splitlines())) <= columns
    listed = " ".join(text.split())
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert f"{name} {first_sentence(command.help or '')}" in listed


def test_the_first_sentence() -> None:
    assert (
        first_sentence("Count 1.5 million\nwords. Then more.\n\nAnd.") == "Count 1.5 million words."
    )
    assert first_sentence("One paragraph:\n\n    code") == "One paragraph:"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(PIPELINE)
    return path


@pytest.mark.parametrize("command", [("run",), ("plan",), ("k8s", "render")])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_behind_a_file_lists_what_its_pipeline_takes(
    command: tuple[str, ...], option: str, file: Path
) -> None:
    text = shown(*command, str(file), option, columns=200)
    assert text.startswith(f"Usage: oka {' '.join(command)} {file} [NAME=VALUE]... [OPTIONS]")
    assert "Count to n." in text
    assert "As far as it goes." in text
    assert "n=     int  [default: 3]" in text
    assert "name=  str  [default: '']" in text
    assert "kind=" not in text
    assert "--parallelism" in text


def test_help_of_a_function_and_in_front_of_the_file(file: Path) -> None:
    for words in ([f"{file}:unknown", "--help"], ["--help", f"{file}:unknown", "ratio=2"]):
        text = shown("run", *words)
        assert "price=  Decimal  [required]" in text
        assert "ratio=  [default: 0.5]" in text
        assert "text=   str | None  [default: None]" in text


def test_help_of_what_is_no_function_and_without_a_file(file: Path) -> None:
    assert "It takes none." in shown("run", f"{file}:made", "--help")
    usual = shown("run", "--help")
    assert usual.startswith("Usage: oka run [OPTIONS] FILE")
    assert "Arguments:" not in usual


def test_help_on_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"'none\.py' does not exist"):
        shown("run", "none.py", "--help")


def test_help_of_the_pipelines_that_come_along() -> None:
    text = shown("run", str(ROOT / "pipelines" / "word_count.py"), "--help", columns=100)
    assert "repeat=  int  [default: 1]" in text
    assert "api=     per_record | map_batches | native | columnar  [default: native]" in text


def test_a_function_that_does_not_tell_takes_nothing() -> None:
    assert arguments(type) == []


def test_types_as_one_reads_them() -> None:
    assert type_name(list[Path]) == "list[Path]"
    assert type_name(int | None) == "int | None"
    assert type_name("Decimal") == "Decimal"


class Table(list[int]):
    def __str__(self) -> str:
        return f"a table of {len(self)}"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (Table([1, 2]), "a table of 2\n"),
        ([1, 2, 3], "  1\n  2\n  … and 1 more\n"),
        ({"a": 1, "b": 2000}, "           2,000  b\n               1  a\n"),
        (7, "7\n"),
        (None, "None\n"),
        ("text", "text\n"),
    ],
)
def test_an_output_is_shown_as_its_class_says(
    output: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_output(output, 2)
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    "words",
    [["bench"], ["bench", "serve", "--json", "x"], ["k8s", "--help"], ["k8s", "check", "-h"]],
)
def test_a_command_of_a_clone_says_so_where_its_package_is_missing(words: list[str]) -> None:
    without = Group("oka", modules={"bench": "no_benchmarks.command", "k8s": "no_k8s.command:k8s"})
    done = CliRunner().invoke(without, words)
    assert isinstance(done.exception, ConfigError), done.output
    told, hint = str(done.exception).split("\n\nhint: ")
    assert (
        told == f"oka {words[0]} is not installed: the distribution oka-streams has what jobs need"
    )
    assert "clone Oka's repository" in hint
    listed = CliRunner().invoke(without, ["--help"])
    assert listed.output.count("Not installed: it is in Oka's repository.") == 2


def test_a_command_with_a_mistake_of_its_own_raises_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_command.py").write_text("import there_is_no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    broken = Group("oka", modules={"own": "own_command"})
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
        CliRunner().invoke(broken, ["own"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("oka sav", ["plain,savepoint"]),
        ("oka run --check", ["plain,--checkpoints"]),
        ("oka run some", ["file,some"]),
        ("oka run job.py --runtime r", ["plain,ray"]),
        ("oka nothing", [""]),
    ],
)
def test_what_a_shell_is_told(words: str, expected: list[str]) -> None:
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    asked = subprocess.run(
        [sys.executable, "-c", "from engine.cli.main import main; main()"],
        env={**os.environ, **variables, "_OKA_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.splitlines() == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_what_it_runs(shell: str) -> None:
    script = shown("completion", shell)
    assert f"_OKA_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
