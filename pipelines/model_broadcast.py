"""Model broadcast: one task prepares a model, N tasks load and run it.

The same pipeline moves the model by three backends, so that they can be compared:

- `channels`: Oka's own; a relay from node to node, one copy in the shared memory of each;
- `plasma`: the object store of Ray, `ray.put` and `ray.get`; needs the runtime `ray`;
- `s3`: uploaded once to a bucket (or in it already), downloaded by each task.

Run it with `oka run pipelines/model_broadcast.py via=channels model=digits loaders=3`, or
`python -m pipelines.model_broadcast --help`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal, get_args

import click

import engine
from engine.cli.main import run_command
from engine.errors import ConfigError, EngineError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from engine.installation.distribution import DISTRIBUTION
from engine.report.tables import table
from operators import Pipeline, source
from operators.sources import Function
from pipelines.models import Kind, kind_of

Via = Literal["channels", "plasma", "s3"]
Where = Literal["same_task_node", "same_node", "spread", "mixed", "resources"]


def model_broadcast(
    via: Via = "channels",
    model: str = "synthetic:564MB",
    loaders: int = 2,
    placement: Where | Sequence[int] = "spread",
    s3_url: str | None = None,
    share_per_node: bool = False,
    cpus: float = 1.0,
    copy: bool = False,
) -> Pipeline:
    """One Download task, and so many Load tasks that each report on the model.

    `placement` says where the Load tasks are: `same_task_node`: on the Download task's node;
    `same_node`: all on one other; `spread`: each on its own node, none on the Download task's;
    `mixed`: in turn on the Download task's and one other; `resources`: on nodes with the custom
    resources `download` and `loader_slot`, one for each task (run it with the job's placement
    `parallelism_first`). Or it is a list of node numbers, one for each Load task, such as `[1, 1,
    2]`, where 0 is the Download task's. On a single node all tasks are there. For `s3`, `s3_url` is
    the place to which a model is uploaded that is not in S3 yet; with `share_per_node` one task of
    a node downloads it for all. `cpus` are the CPUs of each task. With `copy` each Load task first
    copies all bytes into its own memory, like a task that changes them.
    """
    if via not in get_args(Via):
        raise ConfigError(f"via is {via!r}, expected one of {', '.join(get_args(Via))}")
    if via == "s3" and s3_url is None and not model.startswith("s3://"):
        raise ConfigError(
            f"via is 's3', model is {model!r} and s3_url is None, expected one or a model in S3",
            "s3_url=s3://bucket/prefix says where to upload it; `oka s3 serve` is a server to try",
        )
    if type(loaders) is not int or loaders < 1:
        raise ConfigError(f"loaders is {loaders!r}, expected an integer of at least 1")
    nodes = _nodes(placement, loaders)
    kind = kind_of(model)
    download = source(Function(Prepare(kind, via))).named("download").with_parallelism(1)
    download = download.with_resources(cpus=cpus)
    if placement == "resources":
        download = download.with_resources(download=1)
    else:
        download = download.on_nodes(0)
    models = download.broadcast(via, s3_url=s3_url, share_per_node=share_per_node)
    load = models.sink(Load(kind, copy)).named("load").with_parallelism(loaders)
    load = load.with_resources(cpus=cpus)
    if placement == "resources":
        return load.with_resources(loader_slot=1)
    return load.on_nodes(*nodes)


class Prepare:
    """The Download task: prepares the model on its node and publishes it."""

    def __init__(self, kind: Kind, via: Via) -> None:
        self._kind = kind
        self._via = via

    def __call__(self) -> Any:
        """The published form of the model, once."""
        return self._kind.prepare(self._via)


class Load(SinkOperator[Any]):
    """The Load tasks: each loads every model that comes, runs it, and reports.

    A report is a dict: `task`, `node`, `process`, `via`, `version`, `name`, `bytes`, `checksum` of
    the output, and further results of the model. `seconds` are those from the moment its bytes were
    ready in the Download task until they were `usable` here (a view without a copy), `loaded` (all
    read once), `ran`, and with `copy` also `copied`. The same moments are `ready_ns`, `usable_ns`
    and so on, of CLOCK_MONOTONIC. Different hosts have different clocks: compare seconds of one
    host only.
    """

    properties = Properties(driver=True)

    def __init__(self, kind: Kind, copy: bool = False) -> None:
        self._kind = kind
        self._copy = copy

    def open(self, context: TaskContext) -> SinkWriter:
        """Begin without a model."""
        return _Loader(self._kind, self._copy, context.index)

    def commit(self, _epoch: int, committed: list[list[dict[str, Any]]]) -> Reports:
        """The reports of all tasks, by task."""
        return Reports(report for reports in committed for report in reports)


class Reports(list[dict[str, Any]]):
    """Reports of Load tasks; as text, a table of them.

    Its seconds begin when the bytes were ready to publish.
    """

    def __str__(self) -> str:
        moments = list(self[0]["seconds"]) if self else []
        lines = [
            (
                f"{report['task']}",
                f"{report['address']} {report['node'][:8]}",
                report["via"],
                f"{report['version']}",
                f"{report['bytes']:,}",
                *(f"{report['seconds'][name]:.3f}" for name in moments),
                report["checksum"],
                "" if "accuracy" not in report else f"{report['accuracy']:.1%}",
            )
            for report in self
        ]
        seconds = [f"{name} s" for name in moments]
        return table(
            ("task", "node", "via", "version", "bytes", *seconds, "checksum", "accuracy"), lines
        )


class _Loader(SinkWriter):
    def __init__(self, kind: Kind, copy: bool, task: int) -> None:
        self._kind = kind
        self._copy = copy
        self._task = task
        self._node, self._address = _this_node()
        self._reports: list[dict[str, Any]] = []

    def write(self, records: Any) -> None:
        self._reports += [self._report(model) for model in records]

    def prepare(self, _epoch: int) -> list[dict[str, Any]]:
        return self._reports

    def _report(self, model: Any) -> dict[str, Any]:
        model.wait()
        moments = {"usable": model.ready_ns}
        if self._copy:
            bytes(model.buffer)
            moments["copied"] = time.monotonic_ns()
        loaded = self._kind.load(model)
        moments["loaded"] = time.monotonic_ns()
        answer = self._kind.run(loaded)
        moments["ran"] = time.monotonic_ns()
        ready_ns = model.descriptor.published_ns
        report = {
            "task": self._task,
            "node": self._node,
            "address": self._address,
            "process": os.getpid(),
            "via": model.descriptor.via,
            "version": model.version,
            "name": model.name,
            "bytes": model.size,
            "checksum": answer.checksum,
            "seconds": {name: (at - ready_ns) / 1e9 for name, at in moments.items()},
            "ready_ns": ready_ns,
            **{f"{name}_ns": at for name, at in moments.items()},
            **answer.facts,
        }
        del loaded
        model.release()
        return report


def _nodes(placement: Where | Sequence[int], loaders: int) -> Sequence[int]:
    """The numbers of the nodes of the Load tasks, in turn; the Download task is on node 0."""
    if isinstance(placement, list | tuple) and len(placement) == loaders:
        return tuple(placement)
    if placement not in get_args(Where):
        raise ConfigError(
            f"placement is {placement!r}, expected one of {', '.join(get_args(Where))}, or the "
            f"number of the node of each of {loaders} Load tasks"
        )
    if placement == "same_task_node":
        return (0,)
    if placement == "same_node":
        return (1,)
    return (0, 1) if placement == "mixed" else tuple(range(1, loaders + 1))


def _this_node() -> tuple[str, str]:
    """Id and address of this task's node."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return str(ray.get_runtime_context().get_node_id()), str(ray.util.get_node_ip_address())
    return "local", "127.0.0.1"


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 every task answered alike, 1 the job failed, 2 wrong usage.",
)
@click.option(
    "--via", type=click.Choice(get_args(Via)), default="channels", show_default=True,
    help="channels: Oka's own. plasma: Ray's object store, with --runtime ray. s3: a bucket.",
)  # fmt: skip
@click.option(
    "--model", default="synthetic:64MB", show_default=True, metavar="MODEL",
    help="A path to a folder or file; s3://bucket/prefix; digits: a classifier trained on the "
    f"spot; speech: Speech2Text, 564 MB of random weights (needs {DISTRIBUTION}[speech]); "
    "synthetic:564MB or "
    "memory:564MB: pseudorandom bytes in files or in memory.",
)  # fmt: skip
@click.option("--loaders", default=2, show_default=True, help="Load tasks.")
@click.option(
    "--placement", type=click.Choice(get_args(Where)), default="spread", show_default=True,
    help="Where they are: same_task_node: on the Download task's node; same_node: all on one "
    "other; spread: each on its own; mixed: in turn on the Download task's and one other; "
    "resources: on nodes with the Ray resources `download` and `loader_slot`.",
)  # fmt: skip
@click.option(
    "--runtime", type=click.Choice(["local", "ray"]), default="local", show_default=True,
    help="local: processes of this machine, which is the only node. ray: RAY_ADDRESS, or a new "
    "local Ray.",
)  # fmt: skip
@click.option(
    "--s3-url", metavar="URL",
    help="Where via s3 the model is uploaded, unless it is there: s3://bucket/prefix. Server is "
    "that of AWS_ENDPOINT_URL_S3, credentials are AWS's usual ones; `oka s3 serve` is one to try.",
)  # fmt: skip
@click.option(
    "--share-per-node", is_flag=True, help="Via s3 one task of a node downloads for all of them."
)
@click.option(
    "--copy", is_flag=True,
    help="Load tasks first copy the model into memory of their own, rather than view it in place.",
)  # fmt: skip
@click.option("--cpus", default=1.0, show_default=True, help="What each task takes of its node.")
@click.option(
    "--set", "more", multiple=True, metavar="SETTING=VALUE",
    help="Any setting of the job, such as encryption=false.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The reports as JSON rather than a table.")
def command(
    via: Via,
    model: str,
    loaders: int,
    placement: Where,
    runtime: str,
    s3_url: str | None,
    share_per_node: bool,
    copy: bool,
    cpus: float,
    more: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish a model from one task, load and run it in several, and report the time of each step.

    Three digit classifiers on this machine:

        python -m pipelines.model_broadcast --model digits --loaders 3

    64 MB to each of two other nodes of a Ray cluster, by Ray's object store:

        python -m pipelines.model_broadcast --runtime ray --via plasma
    """
    settings = dict(_setting(text) for text in more)
    if placement == "resources":
        settings.setdefault("placement", "parallelism_first")
    result = engine.execute(
        model_broadcast(via, model, loaders, placement, s3_url, share_per_node, cpus, copy),
        runtime=runtime,
        name="model broadcast",
        **settings,
    )
    click.echo(json.dumps(result.output) if as_json else str(result.output))
    if len({report["checksum"] for report in result.output}) != 1:
        raise EngineError("the Load tasks gave different answers: the model did not arrive whole")


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set is {text!r}, expected SETTING=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    run_command(command)
