"""`oka ui`: the page of jobs in a browser, by their histories; and a history as a trace."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from engine.cli.jobs import find
from engine.errors import ConfigError
from engine.history.places import histories, jobs_folder
from engine.history.reading import JobHistory, whole
from engine.history.trace import chrome_trace
from engine.ui.jobs import Jobs
from engine.ui.page import Page
from engine.web.server import refused


@click.command("ui")
@click.argument("jobs", metavar="[FILE|FOLDER]", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: any that is free.")
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a trace of FILE to this file, for Perfetto and Chrome's about:tracing.",
)
def command(jobs: str | None, port: int, host: str, trace: Path | None) -> None:
    """Show jobs in a browser, running and past ones, until Ctrl-C; prints the link.

    FILE is the history of a job, or its name in `oka jobs`; FOLDER has histories [those of this
    user]. Only who has the link can open the page. It shows and does nothing: `oka run --ui` is the
    page of one job with buttons.
    """
    folder = jobs_folder() if jobs is None else Path(jobs)
    is_one = jobs is not None and not folder.is_dir()
    if trace is not None:
        if not is_one:
            raise ConfigError(
                "--trace is of one job, and none is given, expected the FILE of one",
                "oka jobs lists them",
            )
        _export(find(str(jobs), None), trace)
        return
    path = find(str(jobs), None).path if is_one else None

    def paths() -> Sequence[Path]:
        return histories(folder) if path is None else [path]

    try:
        page = Page(Jobs(paths), host, port)
    except OSError as error:
        raise refused(error, ("--port", port), ("--host", host), "--port 0") from error
    try:
        click.echo(f"oka ui: {page.link}")
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        page.close()


def _export(history: JobHistory, trace: Path) -> None:
    with whole(history):
        text = json.dumps(chrome_trace(history))
    try:
        trace.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{trace} cannot be written: {error.strerror}") from error
