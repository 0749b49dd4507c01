"""`oka dev`: servers of this machine that pipelines are developed with, such as Kafka."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from engine import console
from engine.cli.help import Group
from engine.installation.folders import state_folder
from engine.programs import kafka


@click.group("dev", cls=Group)
def command() -> None:
    """Servers to develop with on this machine: Kafka."""


_NAME = click.argument("name", metavar="NAME", type=click.Choice(["kafka"]))
_FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of its data and its log [oka/dev/NAME in the user's state folder].",
)


@command.command()
@_NAME
@_FOLDER
@click.option("--port", default=0, help="0 takes a free one.", show_default=False)
def up(name: str, folder: Path | None, port: int) -> None:
    """Start the server NAME, such as kafka, and leave it running behind this command.

    It listens on the loopback address only and keeps its data from one start to the next. Kafka
    needs Java 17 and, the first time, Maven, which fetches 43 MB of jars into kafka-VERSION in
    OKA_CACHE [oka in the user's cache folder]. Ctrl-C ends what was begun.
    """
    folder = folder or _default(name)
    if broker := kafka.running(folder):
        click.echo(f"Kafka runs already at {broker.servers}, on {folder}")
        return
    with kafka.Kafka(folder, port, tell=_tell) as server:
        _tell("")
        click.echo(f"Kafka {kafka.VERSION} runs at {server.servers}, on {folder}")
        click.echo("`oka dev down kafka` ends it")
        sys.stdout.flush()
        server.leave()


@command.command()
@_NAME
@_FOLDER
@click.pass_context
def status(context: click.Context, name: str, folder: Path | None) -> None:
    """Say whether the server NAME runs, and where; the exit status is 1 if it does not.

    It names the folder of the server's programs, too.
    """
    folder = folder or _default(name)
    broker = kafka.running(folder)
    if broker is None:
        click.echo(f"Kafka does not run on {folder}")
    else:
        at = f"{broker.servers}, on {folder} (pid {broker.pid})"
        click.echo(f"Kafka {kafka.VERSION} runs at {at}")
    jars = kafka.jars_folder()
    click.echo(f"its jars are in {jars}" if jars.exists() else f"its jars will be in {jars}")
    context.exit(0 if broker else 1)


@command.command()
@_NAME
@_FOLDER
@click.option("--lines", default=50, help="The last ones of its log.")
def logs(name: str, folder: Path | None, lines: int) -> None:
    """Print the log of the last start of the server NAME, and the file that has all of it."""
    log = (folder or _default(name)) / kafka.LOG
    text = log.read_text(errors="replace") if log.exists() else ""
    for line in text.splitlines()[-lines:]:
        click.echo(line)
    console.write(f"{log}\n" if text else f"there is no log: Kafka has not run on {log.parent}\n")


@command.command()
@_NAME
@_FOLDER
def down(name: str, folder: Path | None) -> None:
    """End the server NAME. Its data stays in its folder, which this command names."""
    folder = folder or _default(name)
    broker = kafka.stop(folder)
    click.echo(f"Kafka has ended; its topics are in {folder}" if broker else "Kafka does not run")


def _default(name: str) -> Path:
    return state_folder() / "dev" / name


def _tell(line: str) -> None:
    """Show progress: a line that is renewed on a terminal, each new step elsewhere."""
    global _said
    step = line.partition(":")[0]
    if console.is_terminal():
        console.write(f"\r\x1b[K{line}")
    elif step and step != _said:
        console.write(f"{step} …\n")
    _said = step


_said = ""
