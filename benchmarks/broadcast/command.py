"""Model broadcast, case by case: `oka bench broadcast`.

Each node is a host of a testbed with a Ray node and a link of a limited rate; the S3 server has a
host of its own without a limit, as a bucket would be. Within a case the backends alternate. The
first run of each backend is not counted: it warms up, and memory is sampled in it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from benchmarks.broadcast.job import Broadcast, measure
from benchmarks.broadcast.rows import report, row
from benchmarks.broadcast.sampler import take
from benchmarks.broadcast.store import serving, variables
from benchmarks.options import file_options, names_option, repeats_option
from benchmarks.progress import Runs
from benchmarks.report.drawable import check_drawable
from benchmarks.schema import results_file
from benchmarks.schema.result import Result
from benchmarks.sweep import FAILURES
from benchmarks.testbed.broadcast_cases import LAYOUTS, WAYS, BroadcastCase, cases
from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.command import name_option
from benchmarks.testbed.network import address
from benchmarks.testbed.rate import UNLIMITED, parse_rate, show_rate
from engine.errors import ConfigError, StartError
from engine.units import counted
from pipelines.models.kind import parse_size
from pipelines.models.plain import Synthetic


@click.command("broadcast")
@click.option("--size", default="564MB", help="Of the model, such as 64MB.")
@click.option(
    "--rate",
    default="1gbit",
    help="Of each host's link, in each direction; none: no limit. Pods of one machine have none.",
)
@names_option("--ways", "ways", WAYS, "How the model travels.")
@names_option(
    *("--cases", "names", LAYOUTS),
    "By the numbers of the published experiment: 1 other node, 2 same machine, 3 same pod, "
    "4 mix, 5 several nodes, 6 several tasks on a node; after the dash, tasks or nodes.",
)
@repeats_option
@click.option(
    "--encryption/--no-encryption",
    default=None,
    help="Channels only so; by default both. Plasma and S3 are not encrypted.",
)
@click.option(
    "--in-memory",
    is_flag=True,
    help="The model is an array in the Download task's memory, rather than files.",
)
@file_options
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw the figures into this folder.",
)
@name_option
def command(
    size: str,
    rate: str,
    ways: tuple[str, ...],
    names: tuple[str, ...],
    repeats: int,
    encryption: bool | None,
    in_memory: bool,
    json_file: Path | None,
    fresh: bool,
    plots: Path | None,
    name: str,
) -> None:
    """One model to several tasks on several hosts, by channels, plasma and S3, case by case.

    Ctrl-C stops; the same command with the same --json file then goes on where it stopped.
    """
    size_bytes = parse_size(size)
    if size_bytes < 1:
        raise ConfigError(f"size is {size!r}, expected at least one byte", "564MB is the published")
    bits = parse_rate(UNLIMITED if rate == "none" else rate)
    if plots is not None:
        check_drawable()
        results_file.check_writable(plots / "figure.png")
    wanted = cases(names, ways, encryption, size_bytes, in_memory, bits)
    result = Result("broadcast", {"repeats": repeats}, json_file, fresh, BroadcastCase)
    lacking = [group for group in wanted if not all(result.has(case) for case in group)]
    kept = sum(len(group) for group in wanted) - sum(len(group) for group in lacking)
    if kept:
        result.tell_found(kept)
    if lacking:
        _measure_all(lacking, size_bytes, repeats, result, name)
    click.echo(report(result.rows))
    if plots is not None:
        _draw(result, plots)
    result.raise_failures(case for group in wanted for case in group)


def _measure_all(
    groups: Sequence[Sequence[BroadcastCase]], size: int, repeats: int, result: Result, name: str
) -> None:
    """Measure the groups; cases of pods have a testbed of their own."""
    runs = sum(len(group) for group in groups) * (repeats + 1)
    testbeds = [
        [group for group in groups if group[0].layout.pods == pods] for pods in (False, True)
    ]
    _check_shared_memory(max(_hosts(alike) for alike in testbeds if alike) * _store_bytes(size))
    with _cache(size, groups), Runs(runs) as progress:
        try:
            for alike in testbeds:
                if alike:
                    _measure_on_testbed(alike, size, repeats, result, progress, name)
        except BaseException:
            result.tell_kept()
            raise


def _measure_on_testbed(
    groups: Sequence[Sequence[BroadcastCase]],
    size: int,
    repeats: int,
    result: Result,
    progress: Runs,
    name: str,
) -> None:
    hosts = _hosts(groups)
    rate = groups[0][0].rate_bits_per_second
    about = f"{counted(hosts, 'host')}, {show_rate(rate)}"

    def tell(line: str) -> None:
        print(f"{about}: {line}", file=sys.stderr, flush=True)

    server = address(hosts + 1)
    try:
        with running_cluster(
            hosts,
            rate=rate,
            cpus=_CPUS,
            object_store_bytes=_store_bytes(size),
            variables=variables(server),
            name=name,
            tell=tell,
        ) as cluster:
            fresh = _shared(cluster)
            if not any(case.api == "s3" for group in groups for case in group):
                _alternate_all(cluster, groups, repeats, result, progress, fresh)
                return
            tell("starting the S3 server")
            with serving(cluster, server, _files(groups[0][0])):
                _alternate_all(cluster, groups, repeats, result, progress, fresh)
    except StartError as error:
        tell(f"failed: {error}")
        lacking = [case for group in groups for case in group if result.find(case) is None]
        result.add([row(case, [], None, [str(error)]) for case in lacking])


def _alternate_all(
    cluster: Cluster,
    groups: Sequence[Sequence[BroadcastCase]],
    repeats: int,
    result: Result,
    progress: Runs,
    fresh: Mapping[int, int],
) -> None:
    for group in groups:
        result.add(_alternate(cluster, group, repeats, progress, fresh))


def _alternate(
    cluster: Cluster,
    group: Sequence[BroadcastCase],
    repeats: int,
    progress: Runs,
    fresh: Mapping[int, int],
) -> list[dict[str, object]]:
    """Run the backends of a case in turn; a run that fails is a failure of its row."""
    runs: list[list[Broadcast]] = [[] for _ in group]
    first: list[Broadcast | None] = [None for _ in group]
    failures: list[list[str]] = [[] for _ in group]
    for number in range(repeats + 1):
        for at, case in enumerate(group):
            progress.runs(case)
            try:
                measured = measure(cluster, case, number == 0, fresh)
            except FAILURES as error:
                failures[at].append(str(error) or type(error).__name__)
                progress.ran(case, f"failed: {failures[at][-1]}")
                continue
            if number == 0:
                first[at] = measured
            else:
                runs[at].append(measured)
            counted = "" if number else ", not counted"
            progress.ran(case, f"{measured.usable:.3f} s, loaded {measured.loaded:.3f} s{counted}")
    return [
        row(case, its_runs, its_first, its_failures)
        for case, its_runs, its_first, its_failures in zip(
            group, runs, first, failures, strict=True
        )
    ]


def _shared(cluster: Cluster) -> Mapping[int, int]:
    """Shared memory of each host before Ray has an object."""
    inodes = {
        Path("/run/netns", host.namespace).stat().st_ino: host.number
        for host in cluster.network.hosts
    }
    return take(inodes, memory=True).shared


def _files(case: BroadcastCase) -> Path:
    """The folder of the model in the cache, where every task finds it."""
    return Synthetic(case.payload_bytes).folder()


@contextmanager
def _cache(size: int, groups: Sequence[Sequence[BroadcastCase]]) -> Iterator[None]:
    """A temporary cache of models with the model of this benchmark; removed at the end."""
    before = os.environ.get("OKA_CACHE")
    folder = tempfile.mkdtemp(prefix="oka-bench-models-")
    os.environ["OKA_CACHE"] = folder
    try:
        if any(case.api == "s3" or not case.in_memory for group in groups for case in group):
            Synthetic(size).folder()
        yield
    finally:
        if before is None:
            del os.environ["OKA_CACHE"]
        else:
            os.environ["OKA_CACHE"] = before
        shutil.rmtree(folder, ignore_errors=True)


def _hosts(groups: Sequence[Sequence[BroadcastCase]]) -> int:
    """The number of hosts of a testbed for all of these cases."""
    return max(len(group[0].layout.loaders) for group in groups)


def _store_bytes(size: int) -> int:
    """The size in bytes of Ray's object store on each host."""
    return max(2 * size, _LEAST_STORE_BYTES)


def _check_shared_memory(needed: int) -> None:
    """Ray moves a store that does not fit into /dev/shm to the disk, and plasma would be slow."""
    free = shutil.disk_usage("/dev/shm").free  # noqa: S108 - only asked for its size
    if free < needed:
        raise ConfigError(
            f"shared memory has {free / 1e9:.1f} GB free, the object stores need "
            f"{needed / 1e9:.1f} GB",
            "fewer nodes or a smaller --size; or mount -o remount,size=… /dev/shm",
        )


def _draw(result: Result, folder: Path) -> None:
    from benchmarks import plots

    for drawing in plots.draw(result.content):
        path = folder / f"{drawing.name}.png"
        results_file.write_whole(path, plots.render(drawing, "png"))
        click.echo(f"{path}: {drawing.title}")


_CPUS = 8
"""Tasks that a node takes; they mostly wait."""
_LEAST_STORE_BYTES = 200 << 20
