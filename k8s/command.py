"""`oka k8s`: manifests of a job, in its size, and checks of manifests."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.help import Group
from engine.cli.main import job_options
from engine.cli.pipeline import PipelineCommand
from k8s.jobs import located
from k8s.manifests import FOLDER, build, dump, overlay_folder, overlays

if TYPE_CHECKING:
    from k8s.check.finding import Finding


@click.group(cls=Group, context_settings={"show_default": True})
def command() -> None:
    """Manifests for Ray on Kubernetes (KubeRay)."""


class _Render(PipelineCommand):
    def find(self, target: str) -> Any:
        return super().find(located(target))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        for title, wanted in _SECTIONS.items():
            rows = [
                row
                for each in self.get_params(ctx)
                if isinstance(each, click.Option) and (each.name in wanted) == bool(wanted)
                if wanted or each.name not in _IN_SECTIONS
                if (row := each.get_help_record(ctx)) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


_SECTIONS = {
    "How long the job is there": (*("checkpoints", "resume", "endless", "deadline", "retries"),),
    "Its pods": (
        *("job_name", "overlay", "namespace", "image", "env", "env_from", "slots", "spare", "gpu"),
        *("priority", "spot", "tolerations"),
    ),
    "Of a pipeline that serves requests": ("replicas", "max_replicas", "host"),
    "Settings of the job": (),
}
_IN_SECTIONS = {each for names in _SECTIONS.values() for each in names}


@command.command(cls=_Render)
@job_options
@click.option("--checkpoints", metavar="URL", help="Where they go: s3://BUCKET/PREFIX.")
@click.option(
    "--resume",
    metavar="NAME",
    help="latest, or with --retries 0 an epoch's number or a savepoint's name.",
)
@click.option(
    "--endless",
    is_flag=True,
    help="No deadline; goes on from its last checkpoint (--resume latest), on a new cluster where "
    "need be (--retries 100).",
)
@click.option(
    "--deadline",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="Longest that one try may take; what took longer is not run again [the overlay's: 1800].",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    metavar="N",
    help="New clusters for a job that has failed [the overlay's: 1].",
)
@click.option("--name", "job_name", help="Of the job [that of the pipeline].")
@click.option(
    "--overlay",
    help="A folder, or one of k8s/overlays [eks; serving for a pipeline with an HttpSource].",
)
@click.option("--namespace", help="Of all objects [the overlay's: oka].")
@click.option("--image", help="REGISTRY/NAME[:TAG]; without a tag the overlay's.")
@click.option(
    "--env", multiple=True, metavar="NAME=VALUE", help="Variable of its processes; repeatable."
)
@click.option(
    "--env-from",
    multiple=True,
    metavar="SECRET",
    help="Secret whose keys are variables of its processes, such as credentials; repeatable.",
)
@click.option("--slots", type=click.IntRange(1), help="Tasks per pod of the group `operators`.")
@click.option(
    "--spare",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Pods more than its tasks need, in each group: tasks of one that is lost go there at once "
    "[0: they wait for the pod that replaces it].",
)
@click.option(
    "--gpu",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="GPUs (nvidia.com/gpu) of each worker pod, where tasks take them by `resources`, or of "
    "each that serves [0].",
)
@click.option("--priority", metavar="CLASS", help="PriorityClass of its pods.")
@click.option(
    "--spot",
    is_flag=True,
    help="Workers, and pods that serve, go to spot nodes where there are any; the head does not. A "
    "job on Ray needs checkpoints then.",
)
@click.option(
    "--toleration",
    "tolerations",
    multiple=True,
    metavar="KEY[=VALUE][:EFFECT]",
    help="Taint that its pods tolerate, as `kubectl taint` writes it; repeatable.",
)
@click.option("--replicas", type=click.IntRange(1), help="Pods, at least [the overlay's: 2].")
@click.option(
    "--max-replicas", type=click.IntRange(1), help="Pods at most, with --overlay serving-public."
)
@click.option("--host", help="Of its Ingress, with --overlay serving-public.")
def render(overlay: str | None, slots: int | None, job_name: str | None, **parameters: Any) -> None:
    """Print the manifests of a job, in the size that its tasks need.

    Nodes, slots and memory come from the code that places the tasks when the job runs. What is not
    said is the overlay's; `--config FILE` has settings as its settings/*.yaml have, which win over
    those, and options win over both.

    A job that ends:

        oka k8s render pipelines/word_count.py repeat=20 --parallelism 12 | kubectl apply -f -

    One that nobody stops, with room for a pod that is lost:

    \b
        oka k8s render pipelines/mine.py --parallelism 12 --endless --spare 1 \\
          --checkpoints s3://BUCKET/checkpoints/mine | kubectl apply -f -

    A pipeline with an HttpSource is a Deployment with its Service, without Ray:

    \b
        oka k8s render pipelines/online_inference.py folder=/home/oka/digits host=0.0.0.0 \\
          token_file=/etc/oka/token --replicas 3 | kubectl apply -f -

    `oka k8s check -` reads what this prints.
    """  # noqa: D301 - it keeps lines as they are
    from k8s.options import Options
    from k8s.render import render as rendered
    from k8s.serve import is_serving
    from k8s.serve import render as rendered_serving

    asked = {each.name: parameters.pop(each.name) for each in dataclasses.fields(Options)}
    options = Options(**asked)
    serves = is_serving(parameters)
    documents = build(overlay or ("serving" if serves else "eks"))
    if serves:
        found = rendered_serving(documents, parameters, slots, job_name, options)
    else:
        found = rendered(documents, parameters, slots, job_name, options)
    click.echo(dump(found), nl=False)


@command.command("check")
@click.argument("targets", metavar="[OVERLAY|FILE]...", nargs=-1)
def check_manifests(targets: tuple[str, ...]) -> None:
    """Look for mistakes in overlays or files, without a cluster; in all of `k8s` by default.

    The file `-` is standard input. An error surely breaks Oka, or is refused by Kubernetes, KubeRay
    or eksctl; then the exit status is 1. Everything else is a note.

    Needs kubectl-validate, which `make k8s-tools` installs, and for the Dockerfile hadolint, which
    comes with `make build`.
    """
    from k8s.check.report import check, check_folder
    from k8s.subject import Subject

    if not targets:
        _tell(check_folder(FOLDER), [path.name for path in overlays(FOLDER)])
        return
    subjects = [
        Subject.of_file(target)
        if target == "-" or Path(target).is_file()
        else Subject.of_overlay(overlay_folder(target))
        for target in targets
    ]
    _tell([finding for found in check(subjects) for finding in found], targets)


@command.command()
@click.option(
    "--seconds",
    type=click.IntRange(min=0),
    envvar="DRAIN_SECONDS",
    default=60,
    help="Time for what runs; DRAIN_SECONDS says it, too.",
)
def drain(seconds: int) -> None:
    """Drain this node in Ray and wait for its tasks. A pod runs this as it ends."""
    from k8s.drain import drain as drained

    drained(seconds)


def _tell(findings: Sequence[Finding], checked: Sequence[str]) -> None:
    """Print the findings, or that there are none; exit with 1 if there are errors."""
    errors = [finding for finding in findings if not finding.is_note]
    for finding in sorted(findings, key=lambda each: each.is_note):
        click.echo(str(finding), err=True)
    notes = len(findings) - len(errors)
    told = (
        f"{_counted(len(errors), 'mistake') if errors else 'no mistakes'} in {', '.join(checked)}"
    )
    click.echo(told + (f"; {_counted(notes, 'note')}" if notes else ""), err=bool(errors))
    if errors:
        sys.exit(1)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
