"""The Ray runtime on real Ray, several raylets on this machine: placement, counts, refusals."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

import engine
from operators import source
from operators.sinks import Collect, Counts
from operators.sources import Collection
from pipelines.word_count import count, random_word_count, word_count
from tests.integration.test_word_count import expected_counts
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "nothing_left")]


def node_id(_record: object) -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def nodes_of_two_vertices(placement: str) -> tuple[set[str], set[str]]:
    """Nodes that the tasks of the source's chain and those of the sink's chain ran on."""
    pipeline = (
        source(Collection(range(40)))
        .map(node_id)
        .rebalance()
        .map(lambda sender: (sender, node_id(sender)))
        .sink(Collect())
    )
    found = engine.execute(pipeline, runtime="ray", parallelism=2, placement=placement).output
    assert len(found) == 40
    return {sender for sender, _ in found}, {receiver for _, receiver in found}


def test_operator_first_gives_each_vertex_nodes_of_its_own() -> None:
    senders, receivers = nodes_of_two_vertices("operator_first")
    assert not senders & receivers


@pytest.mark.again_on_ray
def test_parallelism_first_keeps_both_vertices_on_the_same_nodes() -> None:
    senders, receivers = nodes_of_two_vertices("parallelism_first")
    assert senders == receivers


@pytest.mark.table(2)
@pytest.mark.parametrize(("parallelism", "api"), [(1, "per_record"), (5, "native")])
def test_counts_of_a_real_text_over_tcp_between_nodes(parallelism: int, api: str) -> None:
    result = engine.execute(
        word_count(api=api),
        runtime="ray",
        parallelism=parallelism,
        connect_timeout_seconds=120.0,  # 10 processes begin at once
    )
    assert result.output == expected_counts()


@pytest.mark.table(3)
@pytest.mark.parametrize(
    ("transport", "batch_size"), [("shm", 1), ("ipc", 10_000), ("tcp", 1)]
)  # every batch size over each: tests/integration/test_word_count.py
def test_any_channel_on_one_node(transport: str, batch_size: int) -> None:
    words = ["a", "b", "a", "c"] * 500
    result = engine.execute(
        count(source(Collection(words)), "per_record").sink(Counts()),
        runtime="ray",
        parallelism=2,
        batch_size=batch_size,
        transport=transport,
        placement="parallelism_first",
    )
    assert result.output == Counter(words)


def test_shared_memory_between_nodes_is_refused() -> None:
    with pytest.raises(engine.ConfigError, match="expected one node"):
        engine.execute(word_count(), runtime="ray", transport="shm")


def test_a_cluster_that_is_too_small_is_named_before_anything_starts() -> None:
    with pytest.raises(engine.PlacementError) as caught:
        engine.execute(word_count(), runtime="ray", parallelism=50, start_timeout_seconds=0)
    assert "hint:" in str(caught.value)
    assert "50" in str(caught.value)


def test_a_task_that_is_larger_than_any_node_does_not_wait() -> None:
    with pytest.raises(engine.PlacementError) as caught:
        engine.execute(word_count(), runtime="ray", resources={"*": {"cpus": 64}})
    assert "takes cpus 64, and the largest node has cpus 8; there is: " in str(caught.value)
    assert "more of these do not help" in str(caught.value)


def test_a_job_that_waits_says_for_what_and_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"parallelism": 2, "resources": {"*": {"cpus": 6}}}  # one of them on each node
    pipeline = random_word_count(60, 8)
    handle = engine.submit(pipeline, runtime="ray", progress="none", **settings)
    wait_until(lambda: handle.is_waiting)
    (told,) = wait_until(lambda: [each for each in caplog.messages if "waiting for" in each])
    assert told.startswith("3 of 4 workers, waiting for 6 CPUs, for at most 300 s: ")
    handle.cancel()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished(300)


def test_jobs_that_start_at_once_share_what_is_free() -> None:
    """Each node has room for two of their tasks, and each job would rather have the first two."""
    settings = {"runtime": "ray", "resources": {"*": {"cpus": 4}}, "progress": "none"}
    jobs = [engine.submit(random_word_count(60, 8, rate=1000), **settings) for _ in range(3)]
    wait_until(lambda: all(job.statistics().records for job in jobs))
    found = Counter(worker.node.id for job in jobs for worker in job._master._workers)
    assert sorted(found.values()) == [2, 2, 2]
    with pytest.raises(engine.PlacementError, match="cpus 0 free of 8"):
        engine.execute(word_count(), runtime="ray", start_timeout_seconds=0)
    for job in jobs:
        job.stop()
        result = job.wait_finished(300)
        assert sum(result.output.values()) == result.statistics.source_records


def test_custom_resources_pin_tasks() -> None:
    words = source(Collection(range(4))).map(node_id).with_resources(slot=2)
    nodes = engine.execute(words.sink(Collect()), runtime="ray", parallelism=3).output
    assert len(set(nodes)) == 3
    too_many = source(Collection(range(4))).map(node_id).with_resources(slot=3).sink(Collect())
    with pytest.raises(engine.PlacementError, match="slot"):
        engine.execute(too_many, runtime="ray")


@pytest.mark.again_on_ray
def test_resources_of_the_settings_pin_tasks() -> None:
    pipeline = source(Collection(range(4))).map(node_id).rebalance().sink(Collect())
    nodes = engine.execute(
        pipeline,
        runtime="ray",
        parallelism=3,
        placement="parallelism_first",
        resources={"*": {"slot": 2}, "collect": {"slot": 0}},
    ).output
    assert len(set(nodes)) == 3


def test_memory_is_a_resource() -> None:
    little = source(Collection([1])).map(str).with_resources(memory=1e6)
    assert engine.execute(little.sink(Collect()), runtime="ray").output == ["1"]
    much = source(Collection([1])).map(str).with_resources(memory=1e18)
    with pytest.raises(engine.PlacementError, match="memory"):
        engine.execute(much.sink(Collect()), runtime="ray")


@pytest.mark.again_on_ray
def test_an_empty_job_starts_and_ends() -> None:
    empty = source(Collection([])).key_by().count().sink(Counts())
    assert engine.execute(empty, runtime="ray").output == {}


def test_latency_crosses_ray_nodes() -> None:
    result = engine.execute(random_word_count(1.0, 8, rate=5000.0, api="native"), runtime="ray")
    assert result.latency.count > 10
    assert sum(result.output.values()) == result.statistics.source_records


def test_the_connected_cluster_is_the_only_one() -> None:
    import ray

    address = ray.get_runtime_context().gcs_address
    planned = word_count(api="native")
    assert engine.execute(planned, runtime="ray", ray_address=address).output == expected_counts()
    for other in ("127.0.0.1:1", "ray://127.0.0.1:10001", "local"):
        with pytest.raises(engine.ConfigError, match=f"is connected to {address} already"):
            engine.execute(planned, runtime="ray", ray_address=other)


def test_the_tests_keep_their_ray_apart() -> None:
    import ray

    folder = Path(os.environ["RAY_TMPDIR"]) / "ray"
    assert ray.get_runtime_context().get_temp_dir() == str(folder)
    address = ray.get_runtime_context().gcs_address
    of_the_machine = Path("/tmp/ray/ray_current_cluster")
    assert not of_the_machine.exists() or of_the_machine.read_text() != address


def dies(_record: object) -> NoReturn:
    print("these are my last words", file=sys.stderr, flush=True)
    os._exit(3)


def test_the_last_words_of_a_worker_are_found_in_the_folder_of_its_cluster() -> None:
    pipeline = source(Collection([1])).map(dies).sink(Collect())
    with pytest.raises(engine.WorkerLost) as caught:
        engine.execute(pipeline, runtime="ray")
    assert "these are my last words" in caught.value.log


@pytest.fixture
def mortal() -> Iterator[tuple[subprocess.Popen[str], str, dict[str, str]]]:
    """A cluster of its own, its address, and the environment in which Ray would find it."""
    folder = tempfile.mkdtemp(prefix="oka-ray-")
    environment = {**os.environ, "RAY_TMPDIR": folder}
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.raycluster", '[{"cpus": 1}]'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        yield program, program.stdout.readline().strip(), environment
        kill_all(program)
    shutil.rmtree(folder, ignore_errors=True)


def kill_all(program: subprocess.Popen[str]) -> None:
    if program.poll() is None:
        members = psutil.Process(program.pid).children(recursive=True)
        for process in (psutil.Process(program.pid), *members):
            process.kill()
        psutil.wait_procs(members, timeout=300)


def planned(environment: dict[str, str]) -> str:
    """What `oka plan` says of a cluster that it cannot use; it does not wait for it."""
    arguments = ["plan", "pipelines/word_count.py", "--runtime", "ray"]
    done = subprocess.run(
        [sys.executable, "-c", "from engine.cli.main import main; main()", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,  # 5 s on a quiet machine; Ray itself tries for a quarter of an hour
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def test_a_cluster_that_is_stopped_or_has_died_is_named(
    mortal: tuple[subprocess.Popen[str], str, dict[str, str]],
) -> None:
    program, address, environment = mortal
    file = Path(environment["RAY_TMPDIR"]) / "ray" / "ray_current_cluster"
    members = psutil.Process(program.pid).children(recursive=True)
    (gcs,) = (process for process in members if process.name() == "gcs_server")
    gcs.send_signal(signal.SIGSTOP)
    named = f"error: no Ray cluster answers at {address}, the address in the file {file}: "
    assert f"{named}nothing was heard" in planned(environment)
    kill_all(program)
    told = planned(environment)
    assert f"{named}Connection refused" in told
    assert f"hint: the cluster that wrote it has ended: `ray stop` or `rm {file}`" in told


@pytest.mark.table(3)
@pytest.mark.parametrize("after", [0.6, 0.0, 1.2])
def test_a_job_cancelled_while_it_starts_leaves_nothing(after: float) -> None:
    handle = engine.submit(
        random_word_count(60, 8, api="native"), runtime="ray", placement="parallelism_first"
    )
    time.sleep(after)
    handle.cancel()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished(300)
    handle.wait_stopped()
