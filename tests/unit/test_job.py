"""What a plan tells its user before anything starts."""

from __future__ import annotations

import logging
import pickle

import pytest

import engine
from engine.config import JobConfig
from engine.errors import ConfigError
from engine.plan import Plan
from engine.testing import run
from engine.testing.threads import ThreadLauncher
from operators import Stream, source
from operators.sinks import Collect
from operators.sources import Collection

NOTE = (
    "runtime 'local' gives out no gpus, slot, which operators ask for: all tasks share what this "
    "machine has"
)


def numbers() -> Stream[int]:
    return source(Collection([1])).with_resources(cpus=0.5, memory=1e9, gpus=1)


def test_resources_that_the_runtime_does_not_give_out_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = numbers().rebalance().map(str).with_resources(slot=1, gpus=2, none=0).sink(Collect())
    assert Plan.of(pipeline, JobConfig(runtime="ray")).in_vain is None
    with caplog.at_level(logging.WARNING, "oka"):
        assert run(pipeline) == {"collect": ["1"]}
    assert [record.message for record in caplog.records] == [NOTE]
    launcher = ThreadLauncher()
    assert NOTE in Plan.of(pipeline, JobConfig()).place(launcher).notes
    launcher.shutdown()


def test_cpus_and_memory_are_shared_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = source(Collection([1])).with_resources(cpus=64, memory=1e15).sink(Collect())
    with caplog.at_level(logging.WARNING, "oka"):
        run(pipeline, resources={"*": {"gpus": 0}})
    assert caplog.records == []


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"paralelism": 2}, "did you mean 'parallelism'"),
        ("job.toml", r"config is str 'job.toml', expected a JobConfig or a dict"),
        ({"parallelism": 0}, "parallelism is 0"),
    ],
)
def test_a_config_that_is_none(config: object, told: str) -> None:
    pipeline = source(Collection([1])).sink(Collect())
    with pytest.raises(ConfigError, match=told):
        engine.submit(pipeline, config)  # type: ignore[arg-type]


def test_a_config_may_be_a_dict() -> None:
    pipeline = source(Collection([1])).sink(Collect())
    assert engine.execute(pipeline, {"name": "mine", "progress": "none"}).output == [1]


def test_a_handle_says_why_it_stays() -> None:
    handle = engine.submit(numbers().sink(Collect()))
    with pytest.raises(TypeError, match="the job runs in a thread of this one") as caught:
        pickle.dumps(handle)
    assert "hint: send what its methods return" in str(caught.value)
    assert pickle.loads(pickle.dumps(handle.wait_finished())).output == [1]
    handle.wait_stopped()
