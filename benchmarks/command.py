"""`oka bench`: the benchmarks, each in a module of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import click

from engine.cli.help import Group
from engine.config import JobConfig
from engine.environment import variable_of

_BENCHMARKS = {
    "broadcast": "benchmarks.broadcast.command",
    "checkpoints": "benchmarks.recovery.checkpoints",
    "connectors": "benchmarks.connectors.command",
    "convert": "benchmarks.schema.convert",
    "event-time": "benchmarks.event_time.command",
    "guard": "benchmarks.guard.command",
    "hot-swap": "benchmarks.broadcast.hot_swap",
    "instructions": "benchmarks.guard.instructions",
    "mesh": "benchmarks.words.mesh",
    "nexmark": "benchmarks.nexmark.command",
    "peers": "benchmarks.words.peers",
    "recovery": "benchmarks.recovery.command",
    "s3": "benchmarks.s3.command",
    "serve": "benchmarks.serve.command",
    "soak": "benchmarks.recovery.soak",
    "sustainable": "benchmarks.words.sustainable",
    "testbed": "benchmarks.testbed.word_count",
    "word-count": "benchmarks.words.word_count",
}


@click.group("bench", cls=Group, modules=_BENCHMARKS)
@click.pass_context
def command(context: click.Context) -> None:
    """Measure Oka, alternating with what it is compared to in the same run."""
    context.with_resource(_apart())


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Keep jobs as each benchmark says: without settings of the environment.

    Their histories stay out of the user's folder: those of hundreds would take all places.
    """
    before = dict(os.environ)
    with TemporaryDirectory(prefix="oka-bench-") as folder:
        for setting in dataclasses.fields(JobConfig):
            os.environ.pop(variable_of(setting.name), None)
        os.environ["XDG_STATE_HOME"] = folder
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
