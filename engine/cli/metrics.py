"""`oka metrics`: what monitoring systems need to make use of a job's metrics."""

from __future__ import annotations

from pathlib import Path

import click

import engine.monitoring
from engine.cli.help import Group


@click.group(cls=Group)
def command() -> None:
    """Print the metrics of jobs, a dashboard of Grafana, or rules for alerts."""


@command.command()
def names() -> None:
    """Print a table of all metrics in Markdown: names, kinds, labels, and what they tell."""
    from engine.monitoring.table import table

    click.echo(table())


@command.command()
def dashboard() -> None:
    """Print a dashboard for Grafana: Dashboards, New, Import."""
    _show("dashboard.json")


@command.command()
def rules() -> None:
    """Print rules for alerts, for Prometheus: a file of its `rule_files`."""
    _show("rules.yaml")


def _show(name: str) -> None:
    folder = Path(engine.monitoring.__file__).parent
    click.echo((folder / name).read_text(encoding="utf-8"), nl=False)
