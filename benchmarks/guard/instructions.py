"""Instructions per record of the Rust core's hot paths: `oka bench instructions`.

Each path of `rust/instructions` runs alone under valgrind's callgrind, once for n rounds and once
for 2 n: the difference is the count of n rounds, without the start. These counts do not depend on
the machine's load. They depend on the compiler, and a little on the processor, for which the C
library chooses its copy functions. Instructions are not time: a cache miss costs none. Encoding and
decoding of Python objects is not included; `python -m benchmarks.steps.codec` times it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.guard import baseline
from benchmarks.guard.baseline import Baseline, Instructions
from benchmarks.guard.verdict import other_compiler
from benchmarks.schema.results_file import check_writable, write_whole
from engine.errors import ConfigError, EngineError
from engine.report.provenance import commit, machine
from engine.report.tables import table


@click.command("instructions")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write them in the schema oka.instructions/1 here.",
)
def command(json_file: Path | None) -> None:
    """Instructions per record of the Rust core's hot paths, beside the committed baseline.

    Needs cargo, valgrind and a checkout; the load of the machine changes nothing.
    """
    if json_file is not None:
        check_writable(json_file)
    before = Baseline.read(baseline.PATH).instructions if baseline.PATH.exists() else None
    found = measure()
    if json_file is not None:
        result = {
            "schema": "oka.instructions/1",
            "date": time.strftime("%Y-%m-%d"),
            "commit": commit(),
            "machine": machine(),
            "rustc": found.rustc,
            "rounds": ROUNDS,
            "instructions_per_record": dict(found.paths),
        }
        write_whole(json_file, (json.dumps(result, indent=2) + "\n").encode())
    click.echo(report(found, before))


def measure() -> Instructions:
    """Build the paths and count the instructions of each; raises EngineError."""
    for tool, hint in _TOOLS.items():
        if shutil.which(tool) is None:
            raise ConfigError(f"{tool} is not installed, expected it on the PATH", hint)
    if not (ROOT / "Cargo.toml").exists():
        raise ConfigError(
            f"{ROOT} has no Cargo.toml, expected the sources of the Rust core",
            "run it in a checkout: an installed package has no sources",
        )
    click.echo("building the hot paths", err=True)
    program = _build()
    counts = {}
    for line in _run([program]).splitlines():
        path, records = line.split()
        click.echo(f"counting {path}", err=True)
        rounds = _count(program, path, 2 * ROUNDS) - _count(program, path, ROUNDS)
        counts[path] = rounds / ROUNDS / int(records)
    return Instructions(_run(["rustc", "--version"]).split()[1], counts)


def report(found: Instructions, before: Instructions | None) -> str:
    """A line for each path, with the ratio to the baseline if it has the path."""
    lines = []
    for path, count in found.paths.items():
        known = before.paths.get(path) if before is not None else None
        beside = (f"{known:.1f}", f"{count / known:.3f}") if known is not None else ("", "")
        lines.append((path, f"{count:.1f}", *beside))
    note = other_compiler(found, before) if before is not None else None
    return table(_COLUMNS, lines) + (f"\n{note}" if note else "")


def _build() -> str:
    """The program of `rust/instructions`, as a release; its file."""
    built = _run(
        [
            "cargo",
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--package",
            _PACKAGE,
            "--message-format",
            "json-render-diagnostics",
        ]
    )
    for line in built.splitlines():
        executable = json.loads(line).get("executable")
        if executable is not None:
            return str(executable)
    raise EngineError(f"cargo built no program of {_PACKAGE}")


def _count(program: str, path: str, rounds: int) -> int:
    """Instructions of one process that does so many rounds."""
    with tempfile.TemporaryDirectory(prefix="oka-instructions-") as folder:
        output = Path(folder) / "callgrind.out"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        _run([*valgrind, program, path, str(rounds)])
        for line in output.read_text().splitlines():
            if line.startswith(_SUMMARY):
                return int(line.removeprefix(_SUMMARY).split()[0])
    raise EngineError(f"valgrind wrote no line {_SUMMARY!r} for {path}")


def _run(command: Sequence[str]) -> str:
    """The output of the command. Raises EngineError with its last lines if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-_ERROR_LINES:])
        raise EngineError(f"{' '.join(command)} ended with status {done.returncode}:\n{last}")
    return done.stdout


ROOT = Path(__file__).parents[2]
ROUNDS = 50
_PACKAGE = "oka-instructions"
_TOOLS = {
    "valgrind": "it is in the package `valgrind` of most systems: apt install valgrind",
    "cargo": "a Rust toolchain builds the core, too: see CONTRIBUTING.md",
    "rustc": "a Rust toolchain builds the core, too: see CONTRIBUTING.md",
}
_SUMMARY = "summary: "
_ERROR_LINES = 15
_COLUMNS = ("path", "instructions per record", "baseline", "ratio")
