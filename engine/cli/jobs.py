"""`oka jobs`: jobs that run and that have run, by their histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from engine.errors import ConfigError
from engine.history import view
from engine.history.places import SUFFIX, histories, jobs_folder
from engine.history.reading import JobHistory, whole
from engine.report.tables import table
from engine.units import duration


@click.command()
@click.argument("job", required=False)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Of histories [those of this user]."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object per line.")
def jobs(job: str | None, folder: Path | None, as_json: bool) -> None:
    """List running jobs and past ones, the newest last, or tell of one.

    JOB is its name in the list, the beginning of that, or the file of a history. A job that failed
    is told with its error, record and traceback. A job whose driver was killed has no end.
    """
    if job is not None:
        one = find(job, folder)
        with whole(one):
            click.echo(json.dumps(_in_json(one)) if as_json else told(one))
        return
    found = list(filter(None, map(_read, histories(folder or jobs_folder()))))
    if as_json:
        for each in found:
            click.echo(json.dumps(each))
        return
    if not found:
        click.echo(f"no job of this user has a history in {folder or jobs_folder()} yet")
        return
    rows = [
        (
            each["job"],
            each["state"],
            view.when(each["since"]),
            duration(each["seconds"] * 1e6),
            f"{each['records']:,}",
        )
        for each in found
    ]
    click.echo(view.shown(table(("job", "state", "began", "ran for", "records"), rows, names=3)))
    for each in found:
        if each["failure"]:
            click.echo(view.shown(f"  {each['job']}: {each['failure']}"))


def find(job: str, folder: Path | None) -> JobHistory:
    """The history of the job; raises ConfigError where it is none, or several are meant."""
    path = Path(job)
    if path.is_file():
        return JobHistory.read(path)
    there = histories(folder or jobs_folder())
    names = [each.name.removesuffix(SUFFIX) for each in there]
    found = [each for each, name in zip(there, names, strict=True) if name == job]
    found = found or [each for each in there if each.name.startswith(job)]
    if not found:
        raise ConfigError(
            f"{job!r} is no job in {folder or jobs_folder()} and no file, expected one of them",
            "oka jobs lists them",
        )
    return JobHistory.read(found[-1])


def _read(path: Path) -> dict[str, Any] | None:
    """A job of the list; None if its file begins just now, is damaged, or is somebody else's."""
    try:
        history = JobHistory.read(path, without=view.NOT_LISTED)
        with whole(history):
            return _in_json(history)
    except ConfigError:
        return None


def told(history: JobHistory) -> str:
    """A job on a page of a terminal."""
    operators = table(*view.operators(view.rows(history)), names=1)
    parts = [*view.summary(history), operators, *view.news(history, _MANY)]
    if log := history["log"]:
        parts += ["\nlast lines of the log:", *(str(each.get("text")) for each in log[-_MANY:])]
    parts += [f"\n{part}" for part in view.end(history)]
    return view.shown("\n".join(parts))


def _in_json(history: JobHistory) -> dict[str, Any]:
    told = {"file": str(history.path), "error": history.error}
    return {"schema": "oka.jobs/1", **view.listed(history), **told}


_MANY = 20
