"""The model broadcast as users run it: three ways, both runtimes, every placement."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.errors import OperatorError, PlacementError
from operators import source
from operators.sinks import Collect
from operators.sources import Models
from pipelines.model_broadcast import Reports, model_broadcast
from pipelines.models.digits import held_out, train

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """Checksum of the answers, and accuracy, of the classifier that every Download task trains."""
    images, labels = held_out()
    classifier = train(tmp_path_factory.mktemp("digits"))
    answers = bytes(classifier.predict(images).tolist())
    return f"{zlib.crc32(answers):08x}", float(classifier.score(images, labels))


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on a server of this process; workers of the local runtime inherit where it is."""
    from engine.programs.s3_server import S3Server

    (tmp_path / "server" / "models").mkdir(parents=True)
    server = S3Server(str(tmp_path / "server"), access_key="mine", secret_key="secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    yield "s3://models/of-tests"
    server.close()


def run(pipeline: Any, runtime: str = "local", **settings: Any) -> list[dict[str, Any]]:
    result = engine.execute(pipeline, runtime=runtime, progress="none", **settings)
    reports: list[dict[str, Any]] = result.output
    assert len({report["checksum"] for report in reports}) == 1
    for report in reports:
        seconds = report["seconds"]
        assert 0 < seconds["usable"] <= seconds["loaded"] <= seconds["ran"]
    return reports


def check_answers(reports: list[dict[str, Any]], trained: tuple[str, float]) -> None:
    for report in reports:
        assert (report["checksum"], report["accuracy"]) == trained
        assert report["version"] == 1


@pytest.mark.again_on_ray
def test_what_models_cost_is_measured(runtime: str, nothing_left: None) -> None:
    sizes = source(Models(bytes(1_000_000))).broadcast(via="channels").map(lambda m: len(m.buffer))
    result = engine.execute(sizes.sink(Collect()), runtime=runtime, parallelism=3, progress="none")
    assert result.output == [1_000_000] * 3
    statistics = result.statistics
    assert statistics.model_sent_bytes == statistics.model_received_bytes
    assert statistics.model_received_bytes >= (1_000_000 if runtime == "ray" else 0)
    assert result.to_dict()["model_chunks_resent"] == 0


@pytest.mark.again_on_ray
def test_digits_by_channels(runtime: str, nothing_left: None, trained: tuple[str, float]) -> None:
    reports = run(model_broadcast("channels", "digits", 2, [0, 1]), runtime)
    assert [(report["task"], report["via"]) for report in reports] == [
        (0, "channels"),
        (1, "channels"),
    ]
    check_answers(reports, trained)


@pytest.mark.again_on_ray
@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_digits_by_plasma(trained: tuple[str, float]) -> None:
    reports = run(model_broadcast("plasma", "digits", 2, [0, 1]), "ray")
    assert {report["via"] for report in reports} == {"plasma"}
    check_answers(reports, trained)


@pytest.mark.parametrize("share", [False, True])
def test_digits_by_s3(share: bool, bucket: str, trained: tuple[str, float]) -> None:
    pipeline = model_broadcast("s3", "digits", 2, s3_url=bucket, share_per_node=share)
    check_answers(run(pipeline), trained)


def test_a_copy_in_each_tasks_own_memory() -> None:
    reports = run(model_broadcast("channels", "memory:2MB", 2, copy=True))
    for report in reports:
        assert report["usable_ns"] <= report["copied_ns"] <= report["loaded_ns"]
    assert "copied s" in str(Reports(reports))


@pytest.mark.parametrize("via", ["s3", "channels"])
def test_a_model_in_a_bucket(via: Any, bucket: str, tmp_path: Path) -> None:
    from engine.s3 import S3

    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    for name, size in (("a.bin", 300_000), ("inner/b.bin", 5), ("inner/empty", 0)):
        (folder / name).write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
        S3.open(bucket).put_file(name, folder / name)
    (there,) = run(model_broadcast(via, bucket, 1))
    (here,) = run(model_broadcast("channels", str(folder), 1))
    assert (there["checksum"], there["parts"]) == (here["checksum"], 3)


@pytest.mark.table(5)
@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(
    ("placement", "loaders", "expected"),
    [
        ("same_task_node", 2, [0, 0]),
        ("same_node", 2, [1, 1]),
        ("spread", 2, [1, 2]),
        ("mixed", 3, [0, 1, 0]),
        ([2, 0], 2, [2, 0]),
    ],
)
def test_placements(placement: Any, loaders: int, expected: list[int]) -> None:
    reports = run(model_broadcast("plasma", "memory:100KB", loaders, placement), "ray")
    order = nodes_with("CPU")
    assert [order.index(report["node"]) for report in reports] == expected


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_placement_by_custom_resources() -> None:
    pipeline = model_broadcast("plasma", "memory:100KB", 3, "resources")
    reports = run(pipeline, "ray", placement="parallelism_first")
    (download,), slots = nodes_with("download"), nodes_with("loader_slot")
    found = sorted(report["node"] for report in reports)
    # One slot beside the Download task, two on another node.
    (other,) = {*slots} - {download}
    assert found == sorted([download, other, other])
    with pytest.raises(PlacementError, match="loader_slot 1"):
        run(model_broadcast("plasma", "memory:1KB", 4, "resources"), "ray",
            placement="parallelism_first", start_timeout_seconds=0)  # fmt: skip


def nodes_with(resource: str) -> list[str]:
    """Ids of the cluster's nodes that have it, in the engine's order."""
    import ray

    found = [node for node in ray.nodes() if node["Resources"].get(resource)]
    found.sort(key=lambda node: (node["NodeManagerAddress"], node["NodeID"]))
    return [node["NodeID"] for node in found]


def test_oka_run_and_the_program_itself(trained: tuple[str, float]) -> None:
    arguments = ("via=channels", "model=memory:2MB", "loaders=1")
    program = "from engine.cli.main import main; main()"
    ran = called("-c", program, "run", "pipelines/model_broadcast.py", *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    own = called("-m", "pipelines.model_broadcast", "--model", "digits", "--loaders", "3", "--json")
    assert own.returncode == 0, own.stderr
    reports = json.loads(own.stdout)
    check_answers(reports, trained)
    shown = str(Reports(reports))
    assert shown.count(f"{trained[1]:.1%}") == 3
    assert shown.count(reports[0]["checksum"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--via", "ftp"), "'ftp' is not one of 'channels', 'plasma', 's3'"),
        (("--via", "plasma", "--model", "digits"), "runtime is 'local', expected 'ray'"),
        (("--via", "s3"), "hint: s3_url=s3://bucket/prefix says where to upload it"),
        (("--set", "nothing"), "--set is 'nothing', expected SETTING=VALUE"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], message: str) -> None:
    done = called("-m", "pipelines.model_broadcast", *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(OperatorError, match="of a model cannot be read: No such file"):
        run(model_broadcast("channels", "/nowhere/model", 1))


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
