"""`oka jobs` and `oka ui`: jobs that run and that have run, by their histories."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from engine.errors import ConfigError
from engine.history.places import SUFFIX, histories, jobs_folder
from engine.history.reading import JobHistory
from engine.history.trace import chrome_trace
from engine.report.tables import table
from engine.units import duration, measure, rate


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
        with _whole(one):
            click.echo(json.dumps(_in_json(one)) if as_json else _shown(_told(one)))
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
            _when(each["since"]),
            duration(each["seconds"] * 1e6),
            f"{each['records']:,}",
        )
        for each in found
    ]
    click.echo(_shown(table(("job", "state", "began", "ran for", "records"), rows, names=3)))
    for each in found:
        if each["failure"]:
            click.echo(_shown(f"  {each['job']}: {each['failure']}"))


@click.command()
@click.argument("job", metavar="FILE")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Write a trace of it to this file, for Perfetto and Chrome's about:tracing.",
)
def ui(job: str, trace: Path) -> None:
    """Export the history of a job: FILE, or its name in `oka jobs`."""
    history = find(job, None)
    with _whole(history):
        text = json.dumps(chrome_trace(history))
    try:
        trace.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{trace} cannot be written: {error.strerror}") from error


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
        history = JobHistory.read(path)
        with _whole(history):
            return _in_json(history)
    except ConfigError:
        return None


@contextmanager
def _whole(history: JobHistory) -> Iterator[None]:
    """Raise ConfigError where records lack what they have to have, as in a file that was forged."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{history.path} is damaged: {type(error).__name__}: {error}, expected what a job wrote"
        ) from error


def _shown(text: str) -> str:
    """The text without codes that control a terminal: a file may be somebody else's."""
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)


def _told(history: JobHistory) -> str:
    """A job on a page of a terminal."""
    began = f"job {history.name!r}: {history.state}, began {_when(history.since)}"
    parts = [f"{began}, ran for {duration(history.seconds * 1e6)}, {history.records:,} records"]
    parts.append(table(*_operators(history), names=1))
    parts += _checkpoints(history)
    events = [each for each in history["event"] if each.get("event") == "warning"]
    parts += [f"{_moment(each)}  {each.get('text', '')}" for each in events[-_MANY:]]
    if log := history["log"]:
        parts += ["\nlast lines of the log:", *(str(each.get("text")) for each in log[-_MANY:])]
    if history.failure:
        parts.append(f"\n{history.failure}")
    if (error := history.error) is not None:
        for part in ("traceback", "log"):
            if error.get(part):
                parts.append(f"\n{str(error[part]).rstrip()}")
        if error.get("hint"):
            parts.append(f"\nhint: {error['hint']}")
    return "\n".join(parts)


def _operators(history: JobHistory) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A row for each operator: its counts, and the rates and shares of the last sample."""
    plan, totals = history.plan, history.operators()
    names = {each["id"]: each["name"] for each in plan["operators"]}
    last = history["sample"][-1] if history["sample"] else {}
    order = [each for vertex in plan["vertices"] for each in vertex["operators"]]
    out = last.get("out", ())
    rates = dict(zip(order, out, strict=True)) if len(out) == len(order) else {}
    rows = []
    for at, vertex in enumerate(plan["vertices"]):
        for each in vertex["operators"]:
            count = totals[each]
            shares = [last.get(share, ()) for share in ("busy", "waiting", "blocked", "idle")]
            rows.append(
                (
                    names[each],
                    str(vertex["parallelism"]),
                    f"{count['in']:,}",
                    f"{count['out']:,}",
                    rate(rates.get(each, 0) / (last.get("seconds") or 1.0)),
                    *(f"{share[at] / 10:.0f}%" if at < len(share) else "0%" for share in shares),
                )
            )
    return _COLUMNS, rows


def _checkpoints(history: JobHistory) -> list[str]:
    stored = [each for each in history.checkpoints.values() if "stored" in each]
    if not history.checkpoints:
        return []
    if not stored:
        return ["no checkpoint was stored"]
    last = stored[-1]
    took = duration((last["stored"] - last["began"]) * 1e6)
    number = sum(each.get("of", 1) for each in stored)
    size = measure(last.get("bytes", 0), "byte")
    return [f"checkpoints: {number} stored, the last ({last['epoch']}) in {took}, of {size}"]


def _in_json(history: JobHistory) -> dict[str, Any]:
    return {
        "schema": "oka.jobs/1",
        "job": history.path.name.removesuffix(SUFFIX),
        "file": str(history.path),
        "name": history.name,
        "state": history.state,
        "since": history.since,
        "seconds": history.seconds,
        "records": history.records,
        "failure": history.failure,
        "error": history.error,
    }


def _moment(record: dict[str, Any]) -> str:
    return f"{record['t']:9.1f} s"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


_COLUMNS = ("operator", "tasks", "in", "out", "out/s", "busy", "waiting", "blocked", "idle")
_MANY = 20
