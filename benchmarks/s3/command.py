"""Objects written and read by many tasks at once: `oka bench s3 write`, `oka bench s3 read`.

The benchmark of PyWren, "Microservices and Terabits": each job is a Ray task that moves one object
of pseudorandom bytes. Only the transfer is timed, not the making of the bytes or, in `read`, their
comparison with the written ones. Start and stop are times of day, so that jobs on several machines
can be compared; their clocks should be synchronised.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from benchmarks.report.drawable import check_drawable
from benchmarks.s3.jobs import Job, Work, run, summary
from benchmarks.schema import results_file
from engine.cli.help import Group
from engine.errors import ConfigError, EngineError
from engine.installation.distribution import DISTRIBUTION
from engine.programs.s3_server import S3Server
from engine.report.progress import telling
from engine.report.provenance import commit, machine, versions
from engine.report.tables import table
from engine.s3 import S3, split_url

SCHEMA = "oka.bench.s3/1"
KEYS_SCHEMA = "oka.s3_keys/1"

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("s3", cls=Group)
def command() -> None:
    """Write and read many objects in S3 through Ray tasks: rates of each and of all together."""


def shared_options(command: Command) -> Command:
    """Options of both commands."""
    for option in reversed(
        [
            click.option(
                "--keys-file",
                required=True,
                type=click.Path(dir_okay=False, path_type=Path),
                help="What was written: `write` makes it, `read` reads these objects.",
            ),
            click.option("--workers", default=2, help="Jobs at one moment."),
            click.option("--parallel", default=4, help="Ranges or parts at one moment."),
            click.option("--endpoint", help="[AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS]"),
            click.option(
                "--serve",
                type=click.Path(file_okay=False, path_type=Path),
                metavar="FOLDER",
                help="Serve this folder on this machine for the run, instead of an endpoint.",
            ),
            click.option("--ray-address", help="Ray cluster [one on this machine]."),
            click.option(
                "--json",
                "json_file",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Write every job's start, stop and rate here.",
            ),
            click.option(
                "--plot",
                type=click.Path(dir_okay=False, path_type=Path),
                help=f"Draw the rates here, as PNG; needs {DISTRIBUTION}[report].",
            ),
        ]
    ):
        command = option(command)
    return command


@command.command()
@click.option("--bucket-url", required=True, help="s3://bucket/prefix")
@click.option("--objects", default=16)
@click.option("--mb", default=64, help="Size of an object in 10^6 bytes.")
@click.option("--seed", default=0, help="Of the bytes.")
@shared_options
def write(
    bucket_url: str, objects: int, mb: int, seed: int, keys_file: Path, **options: Any
) -> None:
    """Write objects of pseudorandom bytes."""
    for option, value, least in (("--objects", objects, 1), ("--mb", mb, 1), ("--seed", seed, 0)):
        if value < least:
            raise click.UsageError(f"{option} is {value}, expected at least {least}")
    split_url(bucket_url)
    results_file.check_writable(keys_file)
    run_id = secrets.token_hex(4)
    keys = [f"{run_id}/{number:06}" for number in range(objects)]
    work = Work("write", bucket_url, keys, mb * 1_000_000, seed)
    jobs = _measured(work, **options)
    written = [job.key for job in jobs if job.error is None]
    content = {
        "schema": KEYS_SCHEMA,
        "bucket_url": bucket_url,
        "bytes": work.size,
        "seed": seed,
        "keys": keys,
        "written": written,
    }
    results_file.write_whole(keys_file, (json.dumps(content, indent=1) + "\n").encode())
    _raise_failures(jobs)


@command.command()
@click.option("--delete", is_flag=True, help="Remove the objects and the keys file afterwards.")
@shared_options
def read(delete: bool, keys_file: Path, **options: Any) -> None:
    """Read the objects that `write` wrote, and check every byte."""
    work, written = _read_keys(keys_file)
    jobs = _measured(work, only=written, delete=delete, **options)
    _raise_failures(jobs)
    if delete:
        keys_file.unlink()


def _measured(
    work: Work,
    *,
    workers: int,
    parallel: int,
    endpoint: str | None,
    serve: Path | None,
    ray_address: str | None,
    json_file: Path | None,
    plot: Path | None,
    only: Sequence[str] | None = None,
    delete: bool = False,
) -> Sequence[Job]:
    if workers < 1 or parallel < 1:
        raise click.UsageError(f"--workers {workers}, --parallel {parallel}: expected at least 1")
    if serve is not None and (endpoint is not None or ray_address is not None):
        raise click.UsageError("--serve is for this machine: without --endpoint, --ray-address")
    for path in (json_file, plot):
        if path is not None:
            results_file.check_writable(path)
    if plot is not None:
        check_drawable()
    with _serving(serve, work.url) as served:
        s3 = S3.open(work.url, endpoint=served or endpoint, parallel=parallel)
        s3.list("-")  # whether endpoint, credentials and bucket are right, before Ray starts
        with telling("connecting to Ray") as tell:
            jobs = run(work, served or endpoint, workers, parallel, ray_address, only, tell)
        if delete:
            s3.delete([job.key for job in jobs])
    told = summary(jobs)
    result = {
        "schema": SCHEMA,
        "benchmark": "s3",
        "operation": work.operation,
        "settings": {
            "bucket_url": work.url,
            "endpoint": "served for the run" if served else s3.endpoint,
            "objects": len(jobs),
            "object_bytes": work.size,
            "workers": workers,
            "parallel": parallel,
            "seed": work.seed,
        },
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "summary": told,
        "jobs": [job.to_dict() for job in jobs],
    }
    if json_file is not None:
        results_file.write_whole(json_file, (json.dumps(result, indent=1) + "\n").encode())
    print(_table(work.operation, told))
    if plot is not None:
        _draw(result, plot)
    return jobs


@contextmanager
def _serving(folder: Path | None, url: str) -> Iterator[str | None]:
    """An endpoint on this machine during the block, if a folder is given."""
    if folder is None:
        yield None
        return
    keys = {"AWS_ACCESS_KEY_ID": "oka-bench", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20)}
    others = {name: os.environ.get(name) for name in (*keys, "AWS_SESSION_TOKEN")}
    with S3Server(
        folder,
        access_key=keys["AWS_ACCESS_KEY_ID"],
        secret_key=keys["AWS_SECRET_ACCESS_KEY"],
    ) as server:
        (folder / split_url(url)[0]).mkdir(exist_ok=True)
        try:
            os.environ.pop("AWS_SESSION_TOKEN", None)
            os.environ.update(keys)  # which the workers of a Ray on this machine have, too
            yield server.endpoint
        finally:
            for name, value in others.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _read_keys(path: Path) -> tuple[Work, Sequence[str]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != KEYS_SCHEMA:
            raise KeyError("schema")
        work = Work(
            "read", content["bucket_url"], content["keys"], content["bytes"], content["seed"]
        )
        written: list[str] = content["written"]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", _HINT) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} holds no keys ({error!r})", _HINT) from error
    return work, written


def _raise_failures(jobs: Sequence[Job]) -> None:
    failures = [job.error for job in jobs if job.error is not None]
    if failures:
        raise EngineError(f"{len(failures)} of {len(jobs)} jobs failed, the first: {failures[0]}")


def _table(operation: str, told: dict[str, Any]) -> str:
    rates = told["object_bytes_per_second"]
    cells = [f"{rates[name] / 1e6:,.0f}" for name in ("min", "p50", "mean", "max")]
    row = [
        operation,
        f"{told['done']:,} of {told['done'] + told['failed']:,}",
        f"{told['seconds']:.1f}",
        f"{told['bytes_per_second'] / 1e6:,.0f}",
        *cells,
    ]
    columns = ("", "objects", "s", "all, MB/s", "least", "median", "mean", "most per object")
    return table(columns, [row])


def _draw(result: dict[str, Any], path: Path) -> None:
    from benchmarks.plots import render
    from benchmarks.plots.objects import draw

    drawing = draw(result)
    if drawing is None:
        print("no job ended well: nothing to draw", file=sys.stderr)
        return
    results_file.write_whole(path, render(drawing, "png"))


_HINT = "make one with `oka bench s3 write --keys-file FILE`"
