"""The command line: `oka run`, `oka plan`, `oka checkpoint`, `oka bench`, and what belongs to them.

Exit status: 0 done, 1 the job failed, 2 wrong usage, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

import click

from engine import console
from engine.arguments import split_assignments
from engine.cli.completion import answer, files
from engine.cli.help import Group
from engine.cli.pipeline import PipelineCommand
from engine.cli.program import file_of, load_pipeline
from engine.cli.stop import SIGTERM_STATUS, stopped_by_signals
from engine.cli.watch import run_watched
from engine.config import JobConfig, Progress, Runtime, Strategy, Transport, read_file
from engine.environment import configured, settings_of
from engine.errors import ConfigError, EngineError, JobCancelled, JobStopped, is_debugging
from engine.installation.distribution import DISTRIBUTION
from engine.job import finished, open_launcher, submit_configured
from engine.plan import Plan

Command = TypeVar("Command", bound=Callable[..., Any])


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(SIGTERM_STATUS))
    answer(commands)
    run_command(commands)


def run_command(command: click.Command) -> NoReturn:
    """Run a command and exit with its status; print errors of the engine without a traceback."""
    try:
        # As `command.main`, which writes to a stderr that nobody may read.
        with command.make_context(_program(), sys.argv[1:]) as context:
            command.invoke(context)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        console.write(shown.getvalue())
        sys.exit(2)
    except EngineError as error:
        told = traceback.format_exc() if is_debugging() else f"error: {error}\n"
        console.write(told)
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    except (click.Abort, KeyboardInterrupt):
        console.write("stopped\n")
        sys.exit(130)
    except BrokenPipeError:  # nobody reads the output any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(0)


def _program() -> str:
    """The name of the program in usage lines."""
    spec = sys.modules["__main__"].__spec__
    if spec is not None and spec.name.split(".")[0] in ("pipelines", "benchmarks"):
        return f"python -m {spec.name.removesuffix('.__main__')}"
    return Path(sys.argv[0]).name


_TOOLS = {
    "bench": "benchmarks.command",
    "checkpoint": "engine.cli.checkpoint",
    "completion": "engine.cli.completion",
    "dev": "engine.cli.dev",
    "doctor": "engine.cli.doctor",
    "jobs": "engine.cli.jobs:jobs",
    "k8s": "k8s.command",
    "metrics": "engine.cli.metrics",
    "new": "engine.cli.new",
    "report": "benchmarks.report",
    "rescale": "engine.cli.savepoint:rescale",
    "s3": "engine.cli.s3",
    "savepoint": "engine.cli.savepoint:savepoint",
    "testbed": "benchmarks.testbed.command",
    "top": "engine.cli.top",
    "ui": "engine.cli.ui",
}


@click.group(
    cls=Group,
    modules=_TOOLS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(package_name=DISTRIBUTION)
def commands() -> None:
    """Oka, a streaming dataflow engine: pipelines in Python, records moved by Rust."""


def job_options(command: Command) -> Command:
    """Options that every command has which plans or runs a job."""
    for option in reversed(
        [
            click.argument("target", metavar="FILE[:NAME]", shell_complete=files),
            click.argument("arguments", metavar="[NAME=VALUE]...", nargs=-1),
            click.option("--config", type=click.Path(), help="TOML or YAML file of settings."),
            click.option("--parallelism", "-p", type=int, help="Tasks per operator [1]."),
            click.option("--batch-size", "-b", type=int, help="Most records in a batch [1000]."),
            click.option("--runtime", type=click.Choice(get_args(Runtime)), help="[local]"),
            click.option("--placement", type=click.Choice(get_args(Strategy)), help="[auto]"),
            click.option(
                "--strict-placement",
                is_flag=True,
                default=None,
                help="Fail rather than share one node.",
            ),
            click.option("--transport", type=click.Choice(get_args(Transport)), help="[auto]"),
            click.option(
                "--insecure",
                is_flag=True,
                help="Do not encrypt tcp channels: to measure, or in a network of your own. "
                "Encryption costs 1 to 2 ns of CPU per byte at each end.",
            ),
            click.option("--ray-address", help="Ray cluster to connect to."),
            click.option(
                "--set",
                "more",
                multiple=True,
                metavar="SETTING=VALUE",
                help="Any other setting of JobConfig; may be repeated.",
            ),
        ]
    ):
        command = option(command)
    return command


@commands.command(cls=PipelineCommand)
@job_options
@click.option("--json", "as_json", is_flag=True, help="A JSON line per second, then the result.")
@click.option(
    "--metrics-port", type=int, metavar="PORT", help="Port for Prometheus; 0: any that is free."
)
@click.option(
    "--ui", "ui_port", flag_value=0, type=int, help="Show the job to a browser: prints the link."
)
@click.option("--checkpoints", metavar="URL", help="Folder or s3://bucket/prefix of checkpoints.")
@click.option("--resume", metavar="NAME", help="latest, an epoch's number or a savepoint's name.")
@click.option(
    "--progress", type=click.Choice(get_args(Progress)), help="[auto: a line on a terminal]"
)
@click.option("--history", metavar="FILE", help="off, a folder, or a file .oka [auto: oka jobs].")
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0),
    default=0.0,
    help="On SIGTERM, end the sources and finish what is under way for so long. 0: at once.",
)
@click.option("--top", default=10, help="Entries to print of what a sink gathered.")
@click.option(
    "--watch",
    is_flag=True,
    help="Begin anew, from a checkpoint if there are some, when FILE changes.",
)
def run(
    target: str,
    arguments: tuple[str, ...],
    as_json: bool,
    top: int,
    drain_seconds: float,
    watch: bool,
    **options: Any,
) -> None:
    """Run the pipeline NAME in FILE, or that a function NAME returns; its arguments follow.

    NAME is by default `pipeline`, the name of the file, or the only pipeline that FILE has. FILE
    may be a module, such as my.module, that Python finds from the current folder.
    `oka run FILE --help` lists the arguments. Values have the types that the function's parameters
    have, such as flag=true, seconds=0.5 or path=data; several stand between commas: sizes=1,2,3.
    Ctrl-C stops the job: what its sources have emitted goes through, files get their names and the
    result is shown; with checkpoints, it ends behind one. Ctrl-C again ends it at once.

        oka run pipelines/word_count.py repeat=20 --parallelism 2

        oka run pipelines/word_count.py:random_word_count seconds=10 length=256
    """
    if as_json:
        options["progress"] = "json"
    if watch:
        resumes = read_config("job", options).checkpoints is not None
        file = options["config"]
        sys.exit(run_watched(file_of(target), None if file is None else Path(file), resumes))
    pipeline, name = load_pipeline(target, arguments)
    config = read_config(name, options)
    by: list[signal.Signals] = []
    try:
        with stopped_by_signals(handle := submit_configured(pipeline, config), drain_seconds) as by:
            result = finished(handle)
    except (JobCancelled, KeyboardInterrupt) as stopped:
        if isinstance(stopped, JobStopped) and not by:
            console.write(f"{stopped}\n")
            return
        if isinstance(stopped, JobCancelled) and not by:
            raise
        if config.checkpoints is not None:
            console.write("--resume latest goes on behind its last checkpoint\n")
        if signal.SIGTERM in by:
            sys.exit(SIGTERM_STATUS)
        raise KeyboardInterrupt from None
    if by and not console.is_ready(1.0, sys.stdout):  # nobody reads
        pass
    elif as_json:
        click.echo(json.dumps(result.to_dict()))
    else:
        click.echo(str(result))
        for sink, output in result.outputs.items():
            click.echo(f"\n{sink}:")
            show_output(output, top)
    if signal.SIGINT in by:
        raise KeyboardInterrupt
    if by:
        sys.exit(SIGTERM_STATUS)


@commands.command(cls=PipelineCommand)
@job_options
@click.option("--mermaid", is_flag=True, help="Mermaid diagrams rather than text.")
def plan(target: str, arguments: tuple[str, ...], mermaid: bool, **options: Any) -> None:
    """Print the graphs and the placement of a pipeline without running it."""
    from engine.graph.render import mermaid as as_mermaid
    from engine.graph.render import text as as_text

    pipeline, name = load_pipeline(target, arguments)
    planned = Plan.of(pipeline, read_config(name, options))
    launcher = open_launcher(planned)
    try:
        placement = planned.place(launcher)
    finally:
        launcher.shutdown()
    render = as_mermaid if mermaid else as_text
    click.echo(render(planned.logical, planned.execution, placement, planned.ways))


def read_config(
    name: str, options: Mapping[str, Any], variables: Mapping[str, str] = os.environ
) -> JobConfig:
    """The settings of a command: its options, over the environment, over the file of `config`."""
    settings = {key: value for key, value in options.items() if value is not None}
    path = settings.pop("config", None)
    if settings.pop("insecure"):
        settings["encryption"] = False
    settings |= read_settings(settings.pop("more"))
    below = {"name": name} if path is None else read_file(path)
    return configured(below, settings, variables)


def read_settings(texts: Iterable[str]) -> dict[str, Any]:
    """The values of `--set`, in the types of the settings; unknown names keep their texts."""
    given = split_assignments(texts, "--set")
    return settings_of({key.replace("-", "_"): text for key, text in given.items()})


def show_output(output: Any, top: int) -> None:
    """Print what a sink gathered: as its class shows it, or else its first entries."""
    plain: Any = object.__str__
    if type(output).__str__ is not plain or not isinstance(output, Iterable):
        click.echo(str(output))
        return
    if isinstance(output, dict):
        try:
            entries = sorted(output.items(), key=lambda entry: entry[1], reverse=True)
        except TypeError:
            entries = list(output.items())
        for key, value in entries[:top]:
            shown = f"{value:,}" if isinstance(value, int | float) else repr(value)
            click.echo(f"  {shown:>14}  {key}")
    else:
        entries = list(output)
        for entry in entries[:top]:
            click.echo(f"  {entry!r}")
    if len(entries) > top:
        click.echo(f"  … and {len(entries) - top:,} more")
