"""Jobs that go on where they were, whoever dies: what is final at the end is what has to be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

import engine
from engine import ConfigError, JobCancelled, JobConfig, OperatorError
from engine.checkpoint import CheckpointLog, open_storage
from engine.cli.main import commands
from engine.errors import CheckpointError, Fenced, GraphError
from engine.graph.context import TaskContext
from engine.graph.source import SourceOperator
from operators import source
from operators.sinks import Collect, Discard, JsonLines
from operators.sources import At, Collection, Function
from tests.drivers import ray_address, ray_workers
from tests.integration import checkpointed
from tests.integration.checkpointed import HOLD, expected, found, held, left_over, newest
from tests.waiting import pauses, wait_until

RECORDS = 8000


def driver(folder: Path, **settings: object) -> subprocess.Popen[bytes]:
    """The job in a process of its own."""
    program = [sys.executable, "-m", checkpointed.__name__, str(folder), str(RECORDS)]
    return subprocess.Popen([*program, json.dumps(settings)])


def wait_for_epoch(folder: Path, epoch: int) -> None:
    wait_until(lambda: newest(folder) >= epoch)


def test_a_job_with_checkpoints_makes_its_output_final_epoch_by_epoch(tmp_path: Path) -> None:
    result = checkpointed.run(tmp_path, RECORDS)
    assert result.statistics.source_records == RECORDS
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []
    log = CheckpointLog(open_storage(tmp_path / "checkpoints"))
    last = log.manifests()[-1]
    assert last.epoch > 3
    assert all(task.finished for task in last.tasks)
    assert len(log.manifests()) == 3
    assert last.epoch in log.committed()


def test_a_job_goes_on_after_its_driver_was_killed(
    tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime == "ray":
        monkeypatch.setenv("RAY_ADDRESS", ray_address())
    with held(tmp_path), driver(tmp_path, runtime=runtime) as first:
        wait_for_epoch(tmp_path, 2)
        first.send_signal(signal.SIGKILL)
    assert found(tmp_path / "out") != expected(RECORDS)
    checkpointed.run(tmp_path, RECORDS, resume="latest", runtime=runtime)
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


def test_a_job_that_is_over_ends_again_with_the_same(tmp_path: Path) -> None:
    first = checkpointed.run(tmp_path, RECORDS)
    again = checkpointed.run(tmp_path, RECORDS, resume="latest")
    assert again.statistics.source_records == first.statistics.source_records == RECORDS
    assert found(tmp_path / "out") == expected(RECORDS)


def workers(runtime: str) -> list[int]:
    """The processes of the job that runs in this one."""
    if runtime == "ray":
        return [each.pid for each in ray_workers()]
    (server,) = checkpointed.servers()
    return [each.pid for each in server.children()]


@pytest.mark.once_on_ray
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("seed", range(2))
def test_a_job_goes_on_in_place_of_workers_that_are_killed(
    tmp_path: Path, runtime: str, seed: int
) -> None:
    random = Random(seed)
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS, restarts=3, runtime=runtime))
        wait_for_epoch(tmp_path, 1)
        survivors = set(workers(runtime))
        for _ in range(2):
            time.sleep(random.random() * 0.1)
            assert survivors <= set(workers(runtime))
            killed = random.choice(workers(runtime))
            os.kill(killed, signal.SIGKILL)
            survivors.discard(killed)
            # One more may have been under way, and whole; behind that, the job has noticed.
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)
    result = job.wait_finished(300)
    assert result.statistics.restarts == 2
    assert result.statistics.checkpoints > 3
    assert "restarts" in str(result)
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


@pytest.mark.usefixtures("nothing_left")
def test_a_job_goes_on_when_its_fork_server_was_killed(tmp_path: Path) -> None:
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS))
        wait_for_epoch(tmp_path, 1)
        for _ in range(2):
            (server,) = wait_until(checkpointed.servers)  # its workers may outlive it for a moment
            server.kill()
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)
    assert job.wait_finished(300).statistics.restarts == 2
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("gives", ["nothing", "empty batches"])
def test_a_source_that_waits_does_not_hold_up_a_job_that_begins_again(
    tmp_path: Path, gives: str
) -> None:
    """Its worker lives, and is told to do something else."""

    def is_let_go() -> bool:
        return not (tmp_path / HOLD).exists()

    def numbers(context: TaskContext, position: int | None) -> Iterator[At]:
        for number in range(position or 0, 2):
            if number == 1 and gives == "nothing":
                wait_until(is_let_go)
            elif number == 1:
                yield from pauses(is_let_go, At(1, []))
            yield At(number + 1, [number])

    with held(tmp_path):
        doubled = source(Function(numbers)).rebalance().map(lambda number: 2 * number)
        job = engine.submit(
            doubled.sink(Collect()),
            JobConfig(
                checkpoints=str(tmp_path / "checkpoints"),
                checkpoint_interval_seconds=0.1,
                connect_timeout_seconds=10.0,
            ),
        )
        for _ in range(2):
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)
            os.kill(workers("local")[-1], signal.SIGKILL)
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)
    assert job.wait_finished(300).output == [0, 2]
    assert job.statistics().restarts == 2


def test_how_long_inputs_wait_at_a_barrier_for_a_slow_one_is_told(tmp_path: Path) -> None:
    hold = tmp_path / HOLD

    def waiting(_context: TaskContext, position: int | None) -> Iterator[At]:
        for number in range(position or 0, 2):
            if number == 1:
                wait_until(lambda: not hold.exists())
            yield At(number + 1, [number])

    def at_work(number: int) -> int:
        if number == 1:
            wait_until(lambda: not hold.exists())  # no barrier leaves meanwhile
        return number

    def numbers(_context: TaskContext, position: int | None) -> Iterator[At]:
        yield from (At(number + 1, [number]) for number in range(position or 0, 2))

    both = source(Function(waiting)).union(source(Function(numbers)).map(at_work))
    with held(tmp_path):
        job = engine.submit(
            both.rebalance().map(str).sink(Discard()),
            checkpoints=str(tmp_path / "checkpoints"),
            checkpoint_interval_seconds=0.1,
            batch_size=1,
        )
        wait_until(lambda: job.statistics().checkpoint_alignment_ms > 100)
    result = job.wait_finished(300)
    assert result.statistics.checkpoint_alignment_ms > 100
    assert "longest alignment" in str(result)


@pytest.mark.parametrize("parallelisms", [(2, 4, 3), (3, 1)])
def test_a_job_goes_on_with_another_parallelism(
    tmp_path: Path, parallelisms: tuple[int, ...]
) -> None:
    *stopped, last = parallelisms
    name = None
    with held(tmp_path):
        for parallelism in stopped:
            job = engine.submit(
                *checkpointed.job(tmp_path, RECORDS, parallelism=parallelism, resume=name)
            )
            wait_for_epoch(tmp_path, newest(tmp_path) + 1)
            name = f"of-{parallelism}"
            job.savepoint(name, stop="now", timeout=300)
            with pytest.raises(JobCancelled, match="was stopped with the savepoint"):
                job.wait_finished(300)
    checkpointed.run(tmp_path, RECORDS, parallelism=last, resume="latest")
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


def test_a_running_job_is_rescaled(tmp_path: Path) -> None:
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS))
        for parallelism in (4, 3):
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)
            job.rescale(parallelism, timeout=300)
    result = job.wait_finished(300)
    assert result.config.parallelism == 3
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


def test_a_job_that_is_stopped_while_it_is_rescaled_ends(tmp_path: Path) -> None:
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS))
        wait_for_epoch(tmp_path, 1)
        job.stop()
        with suppress(CheckpointError):  # it may be over before
            job.rescale(3, timeout=300)
        job.wait_finished(300)
    with held(tmp_path / "other"):
        job = engine.submit(*checkpointed.job(tmp_path / "other", RECORDS))
        wait_for_epoch(tmp_path / "other", 1)
        job.rescale(3, timeout=300)
        job.stop()
        job.wait_finished(300)


def test_what_a_job_cannot_be_rescaled_to_is_refused_while_it_runs(tmp_path: Path) -> None:
    ports = {"transport": "tcp", "port_range": "23460-23475"}
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS, **ports))
        for wrong in (0, True, "3", None):
            with pytest.raises(GraphError, match=r"parallelism is .*, expected an integer >= 1"):
                job.rescale(wrong)  # type: ignore[arg-type]
        with pytest.raises(CheckpointError, match=r"16 ports, and the tasks .* listen on"):
            job.rescale(9, timeout=300)
        folder = str(tmp_path / "checkpoints")
        done = CliRunner().invoke(commands, ["rescale", folder, "-p", "9"])
        assert "16 ports, and the tasks" in str(done.exception)
    assert job.wait_finished(300).config.parallelism == 2
    assert found(tmp_path / "out") == expected(RECORDS)


def test_two_who_rescale_at_once_are_told(tmp_path: Path) -> None:
    with held(tmp_path), ThreadPoolExecutor() as pool:
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS))
        wait_for_epoch(tmp_path, 1)
        asked = [pool.submit(job.rescale, tasks, timeout=300) for tasks in (3, 4)]
        told = [each.exception() for each in asked]
    assert None in told
    for error in filter(None, told):
        assert isinstance(error, CheckpointError)
        assert "rescaled before: ask again" in str(error) or "has ended" in str(error)
    assert job.wait_finished(300).config.parallelism in (3, 4)
    assert found(tmp_path / "out") == expected(RECORDS)


def test_a_savepoint_stays_and_its_name_is_taken_once(tmp_path: Path) -> None:
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS))
        epoch = job.savepoint("kept", timeout=300)
        with pytest.raises(CheckpointError, match="there is a savepoint 'kept'"):
            job.savepoint("kept", timeout=300)
        last = job.savepoint("end", stop="drain", timeout=300)
    job.wait_finished(300)
    log = CheckpointLog(open_storage(tmp_path / "checkpoints"))
    assert {name: each.epoch for name, each in log.savepoints().items()} == {
        "kept": epoch,
        "end": last,
    }
    assert all(task.finished for task in log.savepoints()["end"].tasks)
    with pytest.raises(CheckpointError, match="the job has ended"):
        job.savepoint("late", timeout=300)


def test_a_job_is_rescaled_while_it_runs(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS, parallelism=2))
        wait_for_epoch(tmp_path, 1)
        for parallelism in ("4", "3"):
            done = CliRunner().invoke(commands, ["rescale", folder, "-p", parallelism])
            assert done.exit_code == 0, done.exception
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)  # a request meanwhile is refused
    assert job.wait_finished(300).config.parallelism == 3
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


def test_a_driver_that_is_stopped_with_a_savepoint_has_not_failed(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    folder = str(tmp_path / "checkpoints")
    command = [sys.executable, "-c", "from engine.cli.main import main; main()"]
    often = ["--set", "checkpoint_interval_seconds=0.2"]
    run = [*command, "run", str(tmp_path / "job.py"), "--checkpoints", folder, *often]
    with subprocess.Popen(run, stderr=subprocess.PIPE, text=True) as driver:
        wait_for_epoch(tmp_path, 1)
        done = CliRunner().invoke(commands, ["savepoint", folder, "--name", "here", "--stop"])
        assert done.output == "here\n"
        _, told = driver.communicate(timeout=300)
    assert driver.returncode == 0
    assert "stopped with the savepoint 'here'" in told
    assert "--resume here" in told
    before = newest(tmp_path)
    with subprocess.Popen([*run, "--resume", "here"], stderr=subprocess.PIPE, text=True) as driver:
        wait_for_epoch(tmp_path, before + 1)
        driver.send_signal(signal.SIGINT)
        _, told = driver.communicate(timeout=300)
    assert driver.returncode == 130
    assert told.endswith("--resume latest goes on behind its last checkpoint\nstopped\n")


PROGRAM = """
from operators import source
from operators.sinks import Counts
from operators.sources import RandomWords

pipeline = source(RandomWords(seconds=60, rate=1000)).key_by(None).count().sink(Counts())
"""


def test_a_record_that_fails_again_and_again_is_named(tmp_path: Path) -> None:
    def failing(number: int) -> int:
        if number == 777:
            raise ValueError("no")
        return number

    config = JobConfig(checkpoints=str(tmp_path / "checkpoints"))
    with pytest.raises(OperatorError, match="on record 777"):
        engine.execute(source(Collection(range(1000))).map(failing).sink(Collect()), config)


def test_records_that_fail_are_on_the_side_once(tmp_path: Path) -> None:
    def inverse(number: int) -> float:
        return 1 / (number % 10)

    def numbers(_context: TaskContext, position: int | None) -> Iterator[At]:
        for number in range(position or 0, 1000):
            if number == 900:
                yield from pauses(lambda: not (tmp_path / HOLD).exists(), At(number, []))
            yield At(number + 1, [number])

    with held(tmp_path):
        inverses = source(Function(numbers)).map(inverse, on_error="side")
        job = engine.submit(
            [
                inverses.sink(Discard()),
                inverses.side("errors")
                .map(lambda failed: failed[0])
                .sink(JsonLines(tmp_path / "bad")),
            ],
            checkpoints=str(tmp_path / "checkpoints"),
            checkpoint_interval_seconds=0.1,
        )
        for _ in range(2):
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)
            os.kill(workers("local")[-1], signal.SIGKILL)
            wait_for_epoch(tmp_path, newest(tmp_path) + 2)
    result = job.wait_finished(300)
    assert result.statistics.restarts == 2
    lines = "".join(path.read_text() for path in (tmp_path / "bad").iterdir())
    assert sorted(map(int, lines.splitlines())) == list(range(0, 1000, 10))


def test_a_source_without_positions_is_refused_at_once(tmp_path: Path) -> None:
    config = JobConfig(checkpoints=str(tmp_path / "checkpoints"))
    with pytest.raises(CheckpointError, match="Unplaced does not tell where it is") as raised:
        engine.execute(source(Unplaced()).sink(Collect()), config)
    assert raised.value.hint is not None


class Unplaced(SourceOperator[int]):
    def open(self, context: TaskContext) -> Iterable[int]:
        return iter(range(10))


def test_a_folder_of_another_job_is_not_written_over(tmp_path: Path) -> None:
    checkpointed.run(tmp_path, 100)
    with pytest.raises(ConfigError, match="resume is None, expected a folder without"):
        checkpointed.run(tmp_path, 100)


def test_checkpoints_of_a_running_job_are_removed_only_by_force(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    remove = ["checkpoint", "delete", folder, "--all"]
    with held(tmp_path):
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS))
        wait_for_epoch(tmp_path, 2)
        refused = CliRunner().invoke(commands, remove)
        assert isinstance(refused.exception, ConfigError)
        assert "is running" in str(refused.exception)
        assert "hint: end it first" in str(refused.exception)
        wait_for_epoch(tmp_path, newest(tmp_path) + 2)
        assert CliRunner().invoke(commands, [*remove, "--force"]).exit_code == 0
        with pytest.raises(Fenced, match=r"taken over|were removed"):
            job.wait_finished(300)
