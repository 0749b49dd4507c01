"""README and what it leads to, as readers take it: programs and commands do what they should.

Programs and commands run for real, in a folder of a user's, with less to do where SHORTER says so.
Not run here, because they are out of scale, are:

- what makes an environment, which `make first-hour` does from a fresh clone;
- benchmarks of many minutes, of other systems and of hosts, which are run by tests of their own:
  here only their options are checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from engine.cli.main import commands as oka
from engine.programs.ports import free_port
from tests.first_hour import __main__ as first_hour
from tests.first_hour import readme
from tests.unit.installation.test_distribution import PROJECT, ROOT

PROGRAMS = readme.programs(*(ROOT / page for page in readme.PROGRAMS))
COMMANDS = readme.commands(*(ROOT / page for page in readme.COMMANDS))
OTHERS = [  # their commands are not run
    *("benchmarks/README.md", "benchmarks/RESULTS.md", "k8s/README.md", "CONTRIBUTING.md"),
    *(
        name
        for page in sorted((ROOT / "docs").glob("[ht]*/*.md"))  # how-tos and the tutorial
        if (name := page.relative_to(ROOT).as_posix()) not in readme.COMMANDS
        if readme.commands(page)
    ),
]
BIN = Path(sys.executable).parent
SHORTER = {
    "seconds=5": "seconds=0.5",
    "repeat=20": "repeat=1",
    "seconds=10": "seconds=0.3",
    "bench word-count": "bench word-count --payload 8 --batch 100 --parallelism 1 --api native "
    "--seconds 0.3 --warmup 0.1 --repeats 1",
    "bench hot-swap": "bench hot-swap --seconds 1 --rate 2000 --swaps 1 --model-mb 0.1",
    "--objects 100 --mb 64": "--objects 2 --mb 1",
}


def shorter(text: str) -> str:
    """A program or a command with less to do."""
    for usual, less in SHORTER.items():
        text = text.replace(usual, less)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's: the first program as README calls it, the pipelines of Oka, results."""
    made = tmp_path_factory.mktemp("a reader's")
    (made / "first.py").write_text(shorter(PROGRAMS[0]))
    (made / "pipelines").symlink_to(ROOT / "pipelines")
    (made / "results").mkdir()
    (made / "results" / "peers.json").symlink_to(ROOT / "benchmarks/results/peers.json")
    return made


@pytest.fixture(scope="module")
def variables(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell with .venv activated and the S3 server's variables exported."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    kept |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    (serve,) = (command for command in COMMANDS if command.startswith("oka s3 serve"))
    serve = serve.replace("models", "models --port 0", 1)  # another test may have the usual one
    with subprocess.Popen(
        ["bash", "-c", f"exec {serve}"], env=kept, cwd=folder, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            lines = [server.stdout.readline() for _ in range(6)]
            yield kept | dict(re.findall(r"^export (AWS_\w+)=(.*)$", "".join(lines), re.MULTILINE))
        finally:
            server.terminate()


def run(
    command: list[str], folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program(number: int, folder: Path, variables: dict[str, str]) -> None:
    file = folder / f"program_{number}.py"
    file.write_text(shorter(PROGRAMS[number]))
    done = run(["python", file.name], folder, variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "it shows nothing"
    if "pipeline" in PROGRAMS[number]:
        done = run(["oka", "run", file.name, "--parallelism", "2"], folder, variables)
        assert done.returncode == 0, done.stderr
        assert "records at the sinks" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, id=each, marks=[pytest.mark.ray] if "--runtime ray" in each else [])
        for each in COMMANDS
    ],
)
def test_a_command(command: str, request: pytest.FixtureRequest) -> None:
    for step in re.split(r" && | \| ", re.sub(r"\s+#.*", "", command)):
        rule = next((rule for pattern, rule in RULES.items() if re.match(pattern, step)), None)
        assert rule is not None, f"no rule says how to check {step!r}"
        rule(step, request)


def does_what_it_says(command: str, request: pytest.FixtureRequest) -> None:
    folder, variables = request.getfixturevalue("folder"), request.getfixturevalue("variables")
    if "--runtime ray" in command:
        request.getfixturevalue("ray_cluster")
        import ray

        variables = variables | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    if "bench s3 read" in command and not (folder / "keys.json").exists():
        does_what_it_says(next(c for c in COMMANDS if "bench s3 write" in c), request)
    done = run(["bash", "-c", shorter(command)], folder, variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def has_options(command: str, _request: pytest.FixtureRequest) -> None:
    parse(command)


def is_a_target(command: str, _request: pytest.FixtureRequest) -> None:
    done = run([*shlex.split(command), "--dry-run"], ROOT, dict(os.environ))
    assert done.returncode == 0, done.stderr


def is_an_extra(command: str, _request: pytest.FixtureRequest) -> None:
    (extras,) = re.findall(r"\[(.+)\]", command)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def is_done_by_the_first_hour(command: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue("folder")
    steps = [step.command for step in first_hour.steps(ROOT, folder, whole=True)]
    assert any(command.replace("/path/to/oka", str(ROOT)) in step for step in steps)


def is_a_mention(_command: str, _request: pytest.FixtureRequest) -> None:
    pass


def serves(_command: str, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue("variables")["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")


def answers_requests(command: str, request: pytest.FixtureRequest) -> None:
    """With another port, as another test may have the usual one; and ends well by Ctrl-C."""
    folder, variables = request.getfixturevalue("folder"), request.getfixturevalue("variables")
    port = free_port()
    with subprocess.Popen(
        ["bash", "-c", f"exec {command} port={port}"],
        cwd=folder,
        env=variables,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            assert job.stderr is not None
            seen = ""
            while f"serves http://127.0.0.1:{port}/digit" not in (line := job.stderr.readline()):
                seen += line
                assert line, seen
            body = json.dumps([0.5] * 64).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/digit", body, 60) as answer:
                assert json.load(answer).keys() == {"digit", "model"}
        finally:
            job.send_signal(signal.SIGINT)
        assert job.wait(60) == 130


def is_of_ray(command: str, request: pytest.FixtureRequest) -> None:
    *words, option = command.split()
    shown = run([*words, "--help"], ROOT, request.getfixturevalue("variables")).stdout
    assert option in shown


def parse(command: str) -> None:
    """Check an `oka …` command as far as that goes without running it."""
    words = shlex.split(command)[1:]
    found: click.Command | None = oka
    context = click.Context(oka, info_name="oka")
    while isinstance(found, click.Group) and words:
        context = click.Context(found, parent=context)
        name, *words = words
        found = found.get_command(context, name)
        assert found is not None, f"there is no command {name!r}"
    if words:
        assert found is not None
        with suppress(click.exceptions.Exit):  # --help
            found.make_context(found.name, words, parent=context)


RULES: dict[str, Callable[[str, pytest.FixtureRequest], None]] = {
    r"(oka|ray|python FILE|oka run FILE.*|kubectl apply -f -)$": is_a_mention,
    r"oka (checkpoint|savepoint|rescale|top|ui|run --ui)$": is_a_mention,
    r"(source|\.venv/bin/maturin) |pip install ['\"](/path|\$)": is_done_by_the_first_hour,
    r"pip install 'oka-streams\[": is_an_extra,
    r"make\b": is_a_target,
    r"oka s3 serve": serves,
    r"oka run pipelines/online_inference.py": answers_requests,
    r"ray job submit": is_of_ray,
    r"oka bench (sustainable|peers|serve|testbed|broadcast)|oka testbed|oka k8s check": has_options,
    r"(oka|python) ": does_what_it_says,
}


@pytest.mark.parametrize("file", OTHERS)
def test_commands_of_other_pages_have_such_options(file: str) -> None:
    found = readme.commands(ROOT / file)
    assert found
    for command in found:
        step, _, _ = re.sub(r"\s+#.*", "", command).partition(" | ")
        if step.startswith("make"):
            is_a_target(step, None)  # type: ignore[arg-type]
        elif step.startswith("oka "):
            parse(step)
