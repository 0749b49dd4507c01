"""`oka savepoint` and `oka rescale`: requests to a running job through its checkpoints."""

from __future__ import annotations

import sys

import click

from engine.checkpoint import CheckpointLog, Request, Requests, open_storage
from engine.checkpoint.requests import new_name
from engine.errors import ConfigError


def _seconds(_: click.Context, __: click.Parameter, given: float) -> float:
    if not given > 0:  # nor NaN
        raise click.BadParameter(f"{given:g} is no time to wait, expected seconds above 0")
    return given


_TIMEOUT = click.option(
    "--timeout",
    default=600.0,
    metavar="SECONDS",
    callback=_seconds,
    help="How long to wait for the answer; for the job to take the request up, at most 30.",
)
_NAME = click.option("--name", help="Name of the savepoint [of the time].")


@click.command()
@click.argument("folder")
@_NAME
@click.option("--stop", is_flag=True, help="End the job behind the savepoint, at once.")
@click.option(
    "--drain", is_flag=True, help="End its sources, and the job when all is worked off: for good."
)
@_TIMEOUT
def savepoint(folder: str, name: str | None, stop: bool, drain: bool, timeout: float) -> None:
    """Make a savepoint of the running job whose checkpoints are in FOLDER: an epoch that is kept.

    Prints its name, with which `oka run … --resume NAME` goes on from it, also with another
    parallelism or other operators. `oka checkpoint delete` removes it.
    """
    if stop and drain:
        raise ConfigError("--stop and --drain are given, expected one of them at most")
    request = Request(name or new_name(), "now" if stop else "drain" if drain else "no")
    _ask(folder, request, timeout)


@click.command()
@click.argument("folder")
@click.option("--parallelism", "-p", type=click.IntRange(min=1), required=True)
@_NAME
@_TIMEOUT
def rescale(folder: str, parallelism: int, name: str | None, timeout: float) -> None:
    """Let the running job whose checkpoints are in FOLDER go on with another parallelism.

    It makes a savepoint and starts from that, with this many tasks for each operator that has no
    parallelism of its own.
    """
    _ask(folder, Request(name or new_name(), "now", parallelism), timeout)


def _ask(folder: str, request: Request, timeout: float) -> None:
    storage = open_storage(folder)
    if not CheckpointLog(storage).exists:
        raise ConfigError(
            f"there are no checkpoints in {folder!r}, expected the folder of a running job",
            "it is the one of `--checkpoints`; in S3, s3://bucket/prefix",
        )
    epoch = Requests(storage).ask(request, answered_within=timeout)
    click.echo(request.savepoint)
    if sys.stderr.isatty():
        click.echo(f"it is epoch {epoch} of {storage.url}", err=True)
