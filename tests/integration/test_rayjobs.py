"""RayJobs as KubeRay would run them: the manifest's entrypoint, settings, environment and token,
on a Ray cluster with the custom resources of the manifest's pods."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from k8s.jobs import parsed, settings_path
from k8s.manifests import FOLDER, Cluster, build, clusters, of_kind
from k8s.render import render
from tests.integration.test_word_count import expected_counts

pytestmark = pytest.mark.ray

TOKEN = "0123456789abcdef0123456789abcdef"
SECONDS = 100


def test_word_count_runs_to_its_end(tmp_path: Path) -> None:
    printed = run("pipelines/word_count.py repeat=2 --parallelism 2", tmp_path, refuse=True)
    counts = expected_counts()
    for word, count in sorted(counts.items(), key=lambda item: -item[1])[:10]:
        assert re.search(rf"^ *{2 * count:,}  {word}$", printed, re.MULTILINE), printed


@pytest.mark.again_on_ray
def test_model_broadcast_runs_to_its_end(tmp_path: Path) -> None:
    printed = run(
        "pipelines/model_broadcast.py via=channels model=digits loaders=3 placement=resources",
        tmp_path,
    )
    reports = re.findall(
        r"^ *\d +\S+ ([0-9a-f]{8}) +channels .* ([0-9a-f]+) +[\d.]+%$", printed, re.M
    )
    assert len(reports) == 3, printed
    assert len({checksum for _, checksum in reports}) == 1
    assert len({node for node, _ in reports}) == 3  # one loader per node


def run(command: str, folder: Path, *, refuse: bool = False) -> str:
    """What the RayJob prints that is rendered for the command; it must end well.

    `refuse`: whether others are refused before.
    """
    documents = render(build("eks"), parsed(shlex.split(command)))
    (job,) = of_kind(documents, "RayJob")
    (cluster,) = clusters(documents)
    (config_map,) = of_kind(documents, "ConfigMap")
    for key, text in config_map["data"].items():
        (folder / key).write_text(text, encoding="utf-8")
    entrypoint = job["spec"]["entrypoint"].replace(str(settings_path(job)), str(folder))
    assert str(folder) in entrypoint
    environment = environment_of(cluster, folder)
    with ray_cluster(cluster, environment) as address:
        if refuse:
            others = {**environment, "RAY_ADDRESS": address}
            assert "refused the token of this process" in refusal(others, "0" * 32)
            assert "asks for a token: none was found" in refusal(others, None)
        ended = subprocess.run(
            entrypoint,
            shell=True,  # as Ray's supervisor of jobs does
            cwd=FOLDER.parent,
            env={**environment, "RAY_ADDRESS": address},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def refusal(environment: dict[str, str], token: str | None) -> str:
    """What one is told who has another token, or none; soon: Ray itself tries for 20 s."""
    environment = {**environment, "RAY_AUTH_TOKEN": token or ""}
    ended = subprocess.run(
        [Path(sys.executable).parent / "oka", "plan", "pipelines/word_count.py", "--runtime=ray"],
        cwd=FOLDER.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Failed to get cluster ID" not in ended.stderr  # which Ray says each second
    return ended.stderr


def environment_of(cluster: Cluster, home: Path) -> dict[str, str]:
    """That of the head, with what KubeRay makes of `authOptions`, and a HOME that exists here."""
    given = {each["name"]: each["value"] for each in cluster.groups[0].container["env"]}
    assert cluster.spec["authOptions"]["mode"] == "token"
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]),
        **given,
        "HOME": str(home),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
    }


@contextmanager
def ray_cluster(cluster: Cluster, environment: dict[str, str]) -> Iterator[str]:
    """The address of a local Ray with a node for each pod of the cluster."""
    nodes = json.dumps([node.resources for node in cluster.nodes()])
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.raycluster", nodes],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=FOLDER.parent,
        env=environment,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        lines = (line.strip() for line in program.stdout)
        yield next(line for line in lines if re.fullmatch(r"[\d.]+:\d+", line))
    finally:
        program.stdin.close()
        try:
            program.wait(60)
        finally:
            program.kill()
            program.stdout.close()
