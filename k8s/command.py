"""`oka k8s`: manifests for a job's size, and what checks manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.cli import job_options
from engine.cli_help import Group
from engine.cli_pipeline import PipelineCommand
from k8s.jobs import located
from k8s.manifests import FOLDER, build, dump, overlay_folder, overlays


@click.group(cls=Group)
def command() -> None:
    """Manifests for Ray on Kubernetes (KubeRay)."""


class _Render(PipelineCommand):
    def find(self, target: str) -> Any:
        return super().find(located(target))


@command.command(cls=_Render)
@job_options
@click.option(
    "--overlay", default="eks", show_default=True, help="A folder, or one of k8s/overlays."
)
@click.option("--slots", type=click.IntRange(min=1), help="Tasks per pod of the group `operators`.")
@click.option("--name", "job_name", help="Of the job [that of the pipeline].")
def render(overlay: str, slots: int | None, job_name: str | None, **parameters: Any) -> None:
    """Print the manifests of a job, in the size that its tasks need.

    Nodes, slots and memory come from the code that places the tasks when the job runs:

        oka k8s render pipelines/word_count.py repeat=20 --parallelism 12 | kubectl apply -f -
    """
    from k8s.render import render as rendered

    click.echo(dump(rendered(build(overlay), parameters, slots, job_name)), nl=False)


@command.command("check")
@click.argument("targets", metavar="[OVERLAY|FILE]...", nargs=-1)
def check_manifests(targets: tuple[str, ...]) -> None:
    """Look for mistakes in overlays or files, without a cluster; in all of `k8s` by default.

    The file `-` is standard input.

    Needs kubectl-validate and kube-score, which `make k8s-tools` installs, and for the Dockerfile
    hadolint, which comes with `make build`.
    """
    from k8s.check.report import check, check_folder, tell
    from k8s.check.subject import Subject

    if not targets:
        tell(check_folder(FOLDER), [path.name for path in overlays(FOLDER)])
        return
    subjects = [
        Subject.of_file(target)
        if target == "-" or Path(target).is_file()
        else Subject.of_overlay(overlay_folder(target))
        for target in targets
    ]
    tell([finding for found in check(subjects) for finding in found], targets)


@command.command()
@click.option(
    "--seconds",
    type=click.IntRange(min=0),
    envvar="DRAIN_SECONDS",
    default=60,
    show_default=True,
    help="Time for what runs; DRAIN_SECONDS says it, too.",
)
def drain(seconds: int) -> None:
    """Let Ray start nothing new on this node and wait for its tasks: what a pod runs as it ends."""
    from k8s.drain import drain as drained

    drained(seconds)
