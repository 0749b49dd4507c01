"""What people read of a job on real Ray: names of actors and hosts, prints, where files are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest
from ray.exceptions import RayActorError

import engine
from benchmarks.testbed.network import missing
from engine.driver.ray import launcher as runtime
from engine.errors import CheckpointError
from operators import source
from operators.sinks import Discard, JsonLines
from operators.sources import Collection, RandomWords
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
HEX_ID = re.compile("[0-9a-f]{56}")
pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "nothing_left")]


def endless(name: str) -> engine.JobHandle:
    words = source(RandomWords(rate=1000)).rebalance().map(len).named("lengths").sink(Discard())
    placement = "parallelism_first"
    return engine.submit(words, runtime="ray", parallelism=2, name=name, placement=placement)


def actors() -> list[tuple[str, str]]:
    """Name and namespace of those that live and have a name."""
    import ray

    return [(each["name"], each["namespace"]) for each in ray.util.list_named_actors(True)]


def test_actors_are_called_by_job_operator_and_index_also_of_jobs_of_one_name() -> None:
    jobs = [endless("lengths of words") for _ in range(2)]
    tasks = [
        f"{each}[{index}]" for each in ("random_words", "lengths -> discard") for index in (0, 1)
    ]
    expected = sorted(2 * [f"lengths of words: {task}" for task in tasks])
    wait_until(lambda: sorted(name for name, _ in actors()) == expected)
    assert len(set(actors())) == len(expected)
    for job in jobs:
        job.cancel()
        job.wait_stopped()


TALKING = """
import os, sys
import engine
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

def talk(n):
    print("record", n)
    if n == 19 or n == 39:
        print("the last of all", file=sys.stderr)
        sys.stdout.write("without an end")
    return n

def die(n):
    print("the last of a worker")
    os._exit(1)

if __name__ == "__main__":
    numbers = source(Collection(range(40)))
    silent = numbers.sink(Collect())
    engine.execute(silent, runtime="ray")
    talking = numbers.map(talk).sink(Collect())
    for name in ("first", "second"):
        engine.execute(talking, runtime="ray", parallelism=2, name=name)
    try:
        engine.execute(numbers.map(die).sink(Collect()), runtime="ray")
    except engine.WorkerLost:
        pass
"""


def test_all_that_functions_print_arrives_with_the_task_that_printed_it(tmp_path: Path) -> None:
    import ray

    program = tmp_path / "talking.py"
    program.write_text(TALKING)
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = [_plain(line) for line in done.stdout.splitlines()]
    told = [_plain(line) for line in done.stderr.splitlines()]
    for job in ("first", "second"):
        task = rf"\({job}: collection -> map -> collect\[{{}}\] pid=\d+.*\) "
        for n in range(40):
            line = re.compile(task.format(n // 20) + f"record {n}")
            assert any(line.fullmatch(each) for each in printed), (job, n, printed)
        for index in (0, 1):
            last = re.compile(task.format(index) + "without an end")
            assert any(last.fullmatch(each) for each in printed), (job, printed)
            last = re.compile(task.format(index) + "the last of all")
            assert any(last.fullmatch(each) for each in told), (job, told)
    assert any(line.endswith("the last of a worker") for line in printed), printed
    assert ":oka_end:" not in done.stdout + done.stderr


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[\d+m", "", line)


def dies(_record: object) -> NoReturn:
    print("these are my last words", file=sys.stderr, flush=True)
    os._exit(3)


def test_last_words_are_fetched_from_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_own_address", lambda: "192.0.2.1")
    monkeypatch.setattr(runtime, "_READING_SECONDS", 60.0)  # a busy machine starts nothing in 3
    pipeline = source(Collection([1])).map(dies).sink(Discard())
    with pytest.raises(engine.WorkerLost) as caught:
        engine.execute(pipeline, runtime="ray")
    assert caught.value.log == "these are my last words\n"
    assert not HEX_ID.search(str(caught.value))


def test_last_words_that_cannot_be_read_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_own_address", lambda: "192.0.2.1")
    monkeypatch.setattr(runtime, "last_lines", _never)
    monkeypatch.setattr(runtime, "_READING_SECONDS", 0.2)
    pipeline = source(Collection([1])).map(dies).sink(Discard())
    with pytest.raises(engine.WorkerLost) as caught:
        engine.execute(pipeline, runtime="ray")
    assert caught.value.log == ""


@pytest.mark.parametrize(
    "words",
    [
        "The actor is dead because its node has died. Node Id: {}",
        "x. Worker exit type: SYSTEM_ERROR Worker exit detail: {} left. Some causes are: none.",
    ],
)
def test_how_a_worker_ended_is_told_without_long_ids(words: str) -> None:
    error = RayActorError(error_msg=words.format("5c0ffee4" * 7))
    told = runtime._status(error)
    assert "5c0ffe…" in told
    assert not HEX_ID.search(told)


def _never(_process_id: int, _logs: object = None) -> str:
    import time

    time.sleep(20)
    return "too late"


def test_hosts_are_called_by_address_and_name(ray_cluster: Any) -> None:
    named = ray_cluster.add_node(num_cpus=1, resources={"rack": 1}, node_name="rack-7")
    try:
        ray_cluster.wait_for_nodes()
        pinned = source(Collection([1])).map(dies).with_resources(rack=1).sink(Discard())
        with pytest.raises(engine.WorkerLost, match=r"on node [\d.]+ \(rack-7\) was lost"):
            engine.execute(pinned, runtime="ray")
        launcher = runtime.RayLauncher(engine.JobConfig(runtime="ray"), {})
        names = [node.name for node in launcher.nodes(["cpus"])]
        launcher.shutdown()
        assert len(set(names)) == len(names) >= 4
        others = [name for name in names if not name.endswith(" (rack-7)")]
        assert len(others) == len(names) - 1
        assert all(re.fullmatch(r"[\d.]+ \([0-9a-f]{6}\)", name) for name in others)
    finally:
        ray_cluster.remove_node(named)


@contextmanager
def apart(folder: Path, cluster: Any) -> Iterator[Path]:
    """One more node of the cluster, which has this folder for itself; the folder as seen from here.

    It is pinned by the resource `apart`, of which a node that sees ours has one, too.
    """
    import ray

    folder.mkdir()
    ours = cluster.add_node(num_cpus=2, resources={"apart": 1})
    address = ray.get_runtime_context().gcs_address
    mount = f"mount -t tmpfs apart {folder}"
    start = (
        f"exec {sys.executable} -m ray.scripts.scripts start --block --num-cpus 2 "
        f"--address {address} --object-store-memory 100000000 --resources '{{\"apart\": 1}}'"
    )
    program = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "bash", "-c", f"{mount} && {start}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: ray.cluster_resources().get("apart") == 2, seconds=90)
        yield Path(f"/proc/{program.pid}/root/{folder}")
    finally:
        for process in reversed([psutil.Process(program.pid), *_below(program.pid)]):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        program.wait()
        cluster.remove_node(ours)
        wait_until(lambda: "apart" not in ray.cluster_resources())


def _below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_folder_that_only_some_hosts_see(
    ray_cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    with apart(out, ray_cluster) as elsewhere:
        sink = source(Collection(range(10))).rebalance().sink(JsonLines(out))
        settings: dict[str, Any] = {
            "runtime": "ray",
            "parallelism": 2,
            "resources": {"json_lines": {"apart": 1}},
        }
        with pytest.raises(CheckpointError, match=f"the folder '{out}' of sink") as caught:
            engine.execute(sink, checkpoints=str(tmp_path / "kept"), **settings)
        assert "s3://bucket/prefix" in str(caught.value)
        assert not list(out.iterdir())
        assert not list(elsewhere.iterdir())
        result = engine.execute(sink, **settings)
        (told,) = (each for each in caplog.messages if "that all hosts see" in each)
        files = result.files["json_lines"]
        assert len(files.hosts) == 2
        assert ", ".join(files.hosts) in told
        names = [{path.name for path in each.iterdir()} for each in (out, elsewhere)]
        assert sorted(names, key=sorted) == [{"part-00000.jsonl"}, {"part-00001.jsonl"}]
