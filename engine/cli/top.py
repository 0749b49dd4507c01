"""`oka top`: a running job in a terminal, by the history that it writes."""

from __future__ import annotations

import contextlib
import select
import sys
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from engine.cli.jobs import find, told
from engine.errors import ConfigError
from engine.history import view
from engine.history.places import first_record, histories, is_running, jobs_folder
from engine.history.reading import Follower, JobHistory, whole
from engine.report.statistics import HELD_UP


@click.command("top")
@click.argument("job", required=False)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Of histories [those of this user]."
)
def command(job: str | None, folder: Path | None) -> None:
    """Show a running job [the last]: its rates, what is busy or blocked, checkpoints, errors.

    JOB is its name in `oka jobs`, the beginning of that, or the file of a history. It is shown anew
    each second until the job ends, or you press q. What is no terminal gets it once, as `oka jobs
    JOB` prints it.
    """
    history = find(job, folder) if job is not None else _running(folder or jobs_folder())
    if sys.stdout.isatty() and history.state == "running":
        history = _watch(history.path)
    with whole(history):
        click.echo(told(history))


def screen(history: JobHistory, lines: int) -> RenderableType:
    """What is shown of a job on a terminal with so many lines."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    rows = view.rows(history)
    names = [
        name
        for name in (*_COLUMNS, *_WHERE_THERE_IS_ONE)
        if name in _COLUMNS or any(row.cells[view.COLUMNS.index(name)] for row in rows)
    ]
    chosen = [view.COLUMNS.index(name) for name in names]
    for at in chosen:
        if at == 0:
            table.add_column(view.COLUMNS[at], overflow="ellipsis", no_wrap=True, ratio=1)
        else:
            table.add_column(view.COLUMNS[at], justify="right", no_wrap=True)
    for row in rows:
        styles = {
            "operator": "bold red" if row.is_bottleneck else "",
            "busy": "yellow" if row.busy >= _VERY_BUSY else "",
            "blocked": "red" if row.blocked > HELD_UP else "",
        }
        cells = zip(names, (row.cells[at] for at in chosen), strict=True)
        table.add_row(*(Text(view.shown(each), styles.get(name, "")) for name, each in cells))
    summary = [Text(view.shown(line)) for line in view.summary(history)]
    left = max(1, lines - len(summary) - len(rows) - _OTHER_LINES)
    log = [str(each.get("text")) for each in history["log"][-_LOG_LINES:]]
    news = [Text(view.shown(line)) for line in [*view.news(history, left), *log][-left:]]
    for text in (*summary, *news):
        text.no_wrap, text.overflow = True, "ellipsis"
    return Group(*summary, "", table, "", *news, Text("q: leave", "dim"))


def _watch(path: Path) -> JobHistory:
    """Show the job until it ends or somebody leaves; its history then."""
    follower = Follower(path)
    console = Console(markup=False, emoji=False, highlight=False)
    try:
        history = follower.history()
        with _keys(), Live(screen=True, auto_refresh=False, console=console) as live:
            while history.state == "running":
                with whole(history):
                    live.update(screen(history, console.height), refresh=True)
                if _is_left():
                    break
                history = follower.history()
        return history
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except KeyboardInterrupt:
        return history
    finally:
        follower.close()


def _running(folder: Path) -> JobHistory:
    """The running job that wrote last."""
    for path in reversed(histories(folder)):
        first = first_record(path)
        if first is not None and is_running(path, first):
            history = JobHistory.read(path)
            if history.end is None:
                return history
    raise ConfigError(
        f"no job with a history in {folder} is running, expected one",
        "oka jobs lists past ones; name the file of a job that has its history elsewhere",
    )


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Keys come one by one, and are not shown."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _is_left() -> bool:
    """Wait for a second; whether somebody wants to leave."""
    ready, _, _ = select.select([sys.stdin] if sys.stdin.isatty() else [], [], [], _SECONDS)
    return bool(ready) and sys.stdin.read(1) in ("q", "Q", "\x1b", "")


_COLUMNS = ("operator", "tasks", "in/s", "out/s", "busy", "blocked", "idle")
_WHERE_THERE_IS_ONE = ("backlog", "watermark", "behind", "keys", "state")
_SECONDS = 1.0
_VERY_BUSY = 0.9
_LOG_LINES = 10
_OTHER_LINES = 6
"""Of the table's frame, the last line and the edges."""
