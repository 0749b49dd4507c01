"""`oka k8s`: manifests for a job's size, and what checks manifests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine.cli import job_options
from engine.cli_help import Group
from engine.cli_pipeline import PipelineCommand
from k8s.check.report import check, check_repository, tell
from k8s.jobs import located
from k8s.manifests import build, dump, load


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
def render(overlay: str, slots: int | None, **parameters: Any) -> None:
    """Print the manifests of a job, in the size that its tasks need.

    Nodes, slots and memory come from the code that places the tasks when the job runs:

        oka k8s render pipelines/word_count.py repeat=20 --parallelism 12 | kubectl apply -f -
    """
    from k8s.render import render as rendered

    click.echo(dump(rendered(build(overlay), parameters, slots)), nl=False)


@command.command("check")
@click.argument("targets", metavar="[OVERLAY|FILE]...", nargs=-1)
def check_manifests(targets: tuple[str, ...]) -> None:
    """Look for mistakes in overlays or files, without a cluster; in all of `k8s` by default.

    Needs kubeconform and hadolint, which `make k8s-tools` installs.
    """
    findings = [] if targets else check_repository()
    checked = targets or ("dev", "eks")
    for target in checked:
        path = Path(target)
        documents = load(path.read_text(encoding="utf-8")) if path.is_file() else build(target)
        findings += [
            replace(finding, where=f"{target} {finding.where}") for finding in check(documents)
        ]
    tell(findings, checked)
