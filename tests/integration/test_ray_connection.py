"""Jobs and the Ray of the program that runs them, on real Ray: who connects, and who leaves it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "nothing_left")]


def program(text: str) -> str:
    """What a program prints that is not connected to Ray, and would find the tests' cluster."""
    import ray

    address = ray.get_runtime_context().gcs_address
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + text],
        cwd=ROOT,
        env={**os.environ, "RAY_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


BEGINNING = """
import itertools, threading
import ray, engine
from operators import source
from operators.sinks import Collect, Discard
from operators.sources import Collection, Function
numbers = source(Collection(range(5))).map(lambda n: n).sink(Collect())
endless = source(Function(lambda: ([n] for n in itertools.count()), 1.0)).sink(Discard())
def submit(pipeline): return engine.submit(pipeline, runtime="ray")
"""


def test_jobs_of_one_program_share_its_connection() -> None:
    printed = program("""
jobs = [submit(endless)]
jobs.append(submit(numbers))                 # begins beside it
assert jobs[1].wait_finished(300).output == [0, 1, 2, 3, 4]
jobs.append(submit(numbers))                 # begins while the one before ends
jobs[1].wait_stopped()
assert ray.is_initialized()
assert jobs[2].wait_finished(300).output == [0, 1, 2, 3, 4]
jobs[0].stop()
jobs[0].wait_finished(300)
for job in jobs: job.wait_stopped()
assert not ray.is_initialized()
for job in jobs:
    assert job.statistics().source_records > 0 or job is jobs[0]
    job.stop(), job.cancel()
assert not ray.is_initialized()              # nor has that connected it
ran = []
threads = [threading.Thread(target=lambda: ran.append(submit(numbers).wait_finished(300)))
           for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(ran) == 2
print("done")
""")
    assert printed.endswith("done\n")


def test_a_program_that_connects_itself_leaves_itself() -> None:
    printed = program("""
from ray._private import auto_init_hook
ray.init(namespace="mine", logging_level="WARNING")
mine = ray.put("mine")
assert engine.execute(numbers, runtime="ray").output == [0, 1, 2, 3, 4]
assert ray.get(mine) == "mine"
job = submit(endless)
assert not auto_init_hook.enable_auto_connect
ray.shutdown()
try: job.wait_finished(300)
except (engine.WorkerLost, engine.StartError) as error: print(error)
job.wait_stopped()
assert not ray.is_initialized()
assert job.statistics() is not None
assert not ray.is_initialized()
assert ray.get(ray.put("connected")) == "connected"
""")
    assert "this process has left its Ray cluster" in printed
    assert "hint: call ray.shutdown() when the jobs have ended" in printed


def test_a_task_of_ray_runs_jobs_and_an_actor_keeps_one() -> None:
    import ray

    pipeline = source(Collection(range(5))).map(lambda n: n).sink(Collect())

    @ray.remote(num_cpus=0)
    def task() -> Any:
        return engine.execute(pipeline, runtime="ray").output, ray.is_initialized()

    assert ray.get(task.remote()) == ([0, 1, 2, 3, 4], True)

    @ray.remote(num_cpus=0)
    class Keeper:
        def __init__(self) -> None:
            paced = source(Collection(range(1000), rate=20.0)).sink(Collect())
            self.job = engine.submit(paced, runtime="ray")

        def call(self, method: str) -> Any:
            return getattr(self.job, method)()

    keeper = Keeper.remote()
    wait_until(lambda: ray.get(keeper.call.remote("statistics")).source_records > 2)
    ray.get(keeper.call.remote("stop"))
    result = ray.get(keeper.call.remote("wait_finished"))
    assert result.output == list(range(len(result.output)))
    ray.get(keeper.call.remote("wait_stopped"))


def test_functions_use_what_the_program_has_in_ray() -> None:
    import ray

    @ray.remote(num_cpus=0)
    class Adder:
        def add(self, first: int, second: int) -> int:
            return first + second

    @ray.remote(num_cpus=0)
    def later() -> int:
        return 30

    adder, small, large = Adder.remote(), later.remote(), ray.put(np.arange(1_000_000))
    pipeline = (
        source(Collection([ray.put(1), ray.put(2)]))
        .map(lambda item: ray.get(item) + ray.get(small) + int(ray.get(large)[-1]))
        .map(lambda n: ray.get(adder.add.remote(n, ray.get(small))))
        .sink(Collect())
    )
    assert engine.execute(pipeline, runtime="ray").output == [1_000_060, 1_000_061]


def test_workers_need_credentials_of_their_own(tmp_path: Path) -> None:
    printed = program(f"""
import os, shlex, sys, engine.errors
from engine.s3 import S3
from engine.programs.s3_server import S3Server
os.mkdir({str(tmp_path / "bucket")!r})
server = S3Server({str(tmp_path)!r}, access_key="mine", secret_key="secret")
mine = {{"AWS_ENDPOINT_URL_S3": server.endpoint, "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}}
os.environ.update(mine)                      # the driver's alone
def run(variables):
    # Ray gives the path of Python to a shell as it is, which may have a space in it.
    python = shlex.quote(sys.executable)
    ray.init(logging_level="WARNING", log_to_driver=False,
             runtime_env={{"env_vars": variables, "py_executable": python}})
    host = ray.util.get_node_ip_address()
    try:
        job = engine.submit(numbers, runtime="ray", checkpoints="s3://bucket/job", resume="latest")
        assert job.wait_finished(300).output == [0, 1, 2, 3, 4]
    except engine.errors.CheckpointError as error:
        assert f"the worker on host {{host}} cannot write checkpoints: s3://bucket" in str(error)
        print(error)
    finally:
        job.wait_stopped()
        ray.shutdown()
    assert S3.open("s3://bucket/job").list("reach") == []
run({{**mine, "AWS_ACCESS_KEY_ID": "other"}})
assert S3.open("s3://bucket/job").list("data") == []
run(mine)
assert S3.open("s3://bucket/job").list("committed")
print("done")
""")
    assert "S3 answered InvalidAccessKeyId" in printed
    assert "has the environment and the role of its node, not the driver's" in printed
    assert "runtime_env" in printed
    assert printed.endswith("done\n")
