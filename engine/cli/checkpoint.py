"""`oka checkpoint list | show | delete`: what the folder of a job's checkpoints holds."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import islice

import click

from engine.checkpoint import (
    CheckpointLog,
    Manifest,
    Requests,
    SnapshotEntry,
    TaskSnapshot,
    open_storage,
    read_snapshot,
)
from engine.cli.help import Group
from engine.errors import ConfigError
from engine.report.tables import table
from engine.units import counted, duration, measure


@click.group("checkpoint", cls=Group)
def command() -> None:
    """Look at the checkpoints of a job, or remove some.

    FOLDER is where they are: a folder, or s3://bucket/prefix.
    """


@command.command("list")
@click.argument("folder")
@click.option("--json", "as_json", is_flag=True, help="A JSON object per line.")
def list_(folder: str, as_json: bool) -> None:
    """List the epochs and savepoints that are kept, the oldest first, then what is damaged.

    A job is resumed from the last one with `--resume latest`, from another with its number or name.
    """
    log = _log(folder)
    manifests, committed, damaged = log.manifests(), log.committed(), log.damaged()
    if as_json:
        for each in manifests:
            told = each.to_dict()
            del told["tasks"]
            click.echo(json.dumps({**told, **_figures(each), "committed": each.epoch in committed}))
        for name, why in damaged.items():
            click.echo(json.dumps({"damaged": name, "error": why}))
        return
    if not manifests and not damaged:
        click.echo(f"no epoch of the job in {folder} is stored yet")
        return
    rows = [
        (
            str(each.epoch),
            each.savepoint or "",
            _when(each.ended),
            str(len(each.tasks)),
            f"{sum(sum(task.keys.values()) for task in each.tasks):,}",
            measure(each.bytes, "byte"),
            measure(each.written, "byte"),
            duration((each.ended - each.started) * 1e6),
            "yes" if each.epoch in committed else "no",
        )
        for each in manifests
    ]
    columns = (
        "epoch",
        "savepoint",
        "stored",
        "tasks",
        "keys",
        "size",
        "written",
        "took",
        "committed",
    )
    if manifests:
        click.echo(table(columns, rows, names=3))
    for name, why in damaged.items():
        click.echo(f"{why}. `oka checkpoint delete {folder} {name}` removes it: an epoch, perhaps")


@command.command()
@click.argument("folder")
@click.argument("epoch", required=False)
@click.option("--operator", metavar="IDENTITY", help="Print what this operator keeps, too.")
@click.option("--top", type=click.IntRange(min=0), default=10, help="Most keys to print of it.")
@click.option("--json", "as_json", is_flag=True, help="The manifest as it is stored.")
def show(folder: str, epoch: str | None, operator: str | None, top: int, as_json: bool) -> None:
    """Show what an epoch holds, by its number or the name of a savepoint [the last].

    All its files are read, so that a damaged one is told.
    """
    storage = open_storage(folder)
    manifest = _log(folder).find(epoch)
    if as_json:
        click.echo(json.dumps(manifest.to_dict(), indent=1))
        return
    if operator is not None and operator not in manifest.operators:
        raise ConfigError(
            f"epoch {manifest.epoch} has no operator {operator!r}, expected one of "
            f"{', '.join(sorted(manifest.operators))}"
        )
    read = [(entry, read_snapshot(storage, entry)) for entry in manifest.tasks]
    name = f" (savepoint {manifest.savepoint!r})" if manifest.savepoint else ""
    click.echo(
        f"epoch {manifest.epoch}{name} of job {manifest.job!r}, stored {_when(manifest.ended)}: "
        f"{counted(len(read), 'task')}, {measure(manifest.bytes, 'byte')}"
    )
    click.echo(table(("operator", "tasks", "keys", "keeps"), _operator_rows(manifest), names=1))
    columns = ("task", "files", "size", "keys", "finished", "event time")
    click.echo(table(columns, [_task_row(*each) for each in read], names=1))
    for _, snapshot in read:
        for source, shares in snapshot.positions.items():
            for share, position in sorted(shares.items()):
                click.echo(f"{source}, share {share}: {position!r}")
    if operator is not None:
        _show_state(operator, [snapshot for _, snapshot in read], top)


@command.command()
@click.argument("folder")
@click.argument("epochs", nargs=-1, metavar="[EPOCH]...")
@click.option("--all", "everything", is_flag=True, help="All: the job then begins anew.")
@click.option("--force", is_flag=True, help="With --all: also of a running job, which then fails.")
def delete(folder: str, epochs: tuple[str, ...], everything: bool, force: bool) -> None:
    """Remove epochs by their numbers, savepoints by their names, and what only they need.

    A damaged entry has the name that `oka checkpoint list` says, such as log/00000003. What the job
    goes on from stays, unless all is removed; for that it must not be running.
    """
    if everything == bool(epochs):
        raise ConfigError("expected either epochs or --all")
    if force and not everything:
        raise ConfigError("--force is given with epochs, expected it with --all")
    log = _log(folder)
    if everything:
        if not force and Requests(open_storage(folder)).is_answered():
            raise ConfigError(
                f"the job whose checkpoints are in {folder} is running, expected one that is not",
                "end it first, with `oka savepoint --stop` for one; --force removes them under it",
            )
        log.delete_all()
    for epoch in epochs:
        log.delete(epoch)


def _log(folder: str) -> CheckpointLog:
    log = CheckpointLog(open_storage(folder))
    if not log.exists:
        raise ConfigError(
            f"there are no checkpoints in {folder!r}, expected the folder that the job was given",
            "it is the one of `--checkpoints`; in S3, s3://bucket/prefix",
        )
    return log


def _figures(manifest: Manifest) -> dict[str, int]:
    keys = sum(sum(task.keys.values()) for task in manifest.tasks)
    return {
        "tasks": len(manifest.tasks),
        "keys": keys,
        "bytes": manifest.bytes,
        "written": manifest.written,
    }


def _operator_rows(manifest: Manifest) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for operator, parallelism in manifest.operators.items():
        tasks = [task for task in manifest.tasks if operator in task.operators]
        keeps = {
            "state": any(operator in task.keys for task in tasks),
            "position": any(operator in task.sources for task in tasks),
            "output": any(operator in task.sinks for task in tasks),
        }
        keys = sum(task.keys.get(operator, 0) for task in tasks)
        told = ", ".join(kind for kind, does in keeps.items() if does)
        rows.append((operator, str(parallelism), f"{keys:,}", told))
    return rows


def _task_row(entry: SnapshotEntry, snapshot: TaskSnapshot) -> Sequence[str]:
    times = [time_us for time_us in snapshot.watermarks.values() if abs(time_us) < 1 << 62]
    return (
        f"{entry.vertex}[{entry.index}]",
        str(len(entry.files)),
        measure(entry.bytes, "byte"),
        f"{sum(entry.keys.values()):,}",
        "yes" if entry.finished else "no",
        _when(min(times) / 1e6) if times else "",
    )


def _show_state(operator: str, snapshots: Sequence[TaskSnapshot], top: int) -> None:
    states = [each.operators[operator] for each in snapshots if operator in each.operators]
    items = (item for state in states for item in state.items())
    click.echo(f"\n{operator}:")
    for key, value in islice(items, top):
        click.echo(f"  {key!r}: {value!r}")
    more = sum(len(state.entries) for state in states) - top
    if more > 0:
        click.echo(f"  … and {more:,} more")


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
