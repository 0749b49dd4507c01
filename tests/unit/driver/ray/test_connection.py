"""What Ray is told when a job connects its process, and when the process leaves it: no cluster."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from engine.driver.ray import connection as ray_connection  # noqa: E402
from engine.driver.ray.connection import Connection  # noqa: E402
from engine.errors import StartError  # noqa: E402
from engine.notebook import cells  # noqa: E402

MORE_THAN_THERE_ARE = len(os.sched_getaffinity(0)) + 1


class FakeRay:
    """Says what it was told; each `init` is another connection."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.connection: object = None

    def init(self, **settings: Any) -> None:
        self.told.append({name: value for name, value in settings.items() if value is not None})
        self.connection = object()

    def shutdown(self) -> None:
        self.told.append("shutdown")
        self.connection = None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Ray's part in the module, with a cluster to connect to."""
    found = FakeRay()
    named = SimpleNamespace(
        init=found.init,
        shutdown=found.shutdown,
        is_initialized=lambda: found.connection is not None,
    )
    monkeypatch.setattr(ray_connection, "ray", named)
    monkeypatch.setattr(ray_connection, "_current", lambda: found.connection)
    monkeypatch.setattr(ray_connection, "check_ray_address", lambda _: True)
    return found


def names(told: dict[str, Any]) -> set[str]:
    return set(told) - {"logging_level"}


@pytest.mark.parametrize("address", [None, "10.0.0.1:6379", "ray://10.0.0.1:10001"])
def test_a_cluster_that_is_there_is_as_large_as_it_is(fake: FakeRay, address: str | None) -> None:
    Connection(address, {"cpus": MORE_THAN_THERE_ARE, "slot": 3}).leave()
    assert names(fake.told[0]) == ({"address"} if address else set())


def test_one_that_is_started_has_room(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "check_ray_address", lambda _: False)
    Connection(None, {"cpus": MORE_THAN_THERE_ARE, "slot": 2.5, "gpus": 1}).leave()
    assert fake.told[0]["num_cpus"] == MORE_THAN_THERE_ARE
    assert fake.told[0]["resources"] == {"slot": 3}


def test_the_last_job_leaves(fake: FakeRay) -> None:
    first, second = Connection(None, {}), Connection(None, {})
    first.leave()
    first.leave()
    assert not first.is_open
    assert second.is_open
    assert "shutdown" not in fake.told
    second.leave()
    assert fake.told[1:] == ["shutdown"]
    third = Connection(None, {})
    assert third.is_open
    third.leave()
    assert fake.told[-1] == "shutdown"


def test_an_interrupted_cell_ends_the_ray_that_it_was_about_to_start(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**settings: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        fake.init(**settings)  # Ray could not end what it has begun to start

    monkeypatch.setattr(ray_connection, "check_ray_address", lambda _: False)
    monkeypatch.setattr(cells, "are_here", lambda: True)
    monkeypatch.setattr(ray_connection.ray, "init", init)
    with pytest.raises(KeyboardInterrupt):
        Connection(None, {})
    assert fake.told[1:] == ["shutdown"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_was_connected_stays(fake: FakeRay) -> None:
    fake.init()
    Connection(None, {}).leave()
    assert "shutdown" not in fake.told


def test_what_the_program_has_connected_meanwhile_is_its_own(fake: FakeRay) -> None:
    job = Connection(None, {})
    fake.shutdown()
    assert not job.is_open
    with pytest.raises(StartError, match="has left its Ray cluster"), job.calling():
        pytest.fail("Ray would be called")
    fake.init()
    assert not job.is_open
    told = len(fake.told)
    job.leave()
    assert len(fake.told) == told


def test_what_ray_raises_of_a_process_that_leaves_it_is_not_told(fake: FakeRay) -> None:
    job = Connection(None, {})
    with pytest.raises(AttributeError), job.calling():
        raise AttributeError("gcs_client")

    def leave_while_it_calls() -> None:
        with job.calling():
            fake.shutdown()
            raise AttributeError("gcs_client")

    with pytest.raises(StartError, match="has left its Ray cluster"):
        leave_while_it_calls()
    job.leave()


def test_a_token_that_is_missing_is_told(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_settings: Any) -> None:
        raise ray.exceptions.AuthenticationError("no token was found")

    monkeypatch.setattr(ray_connection.ray, "init", refuse)
    with pytest.raises(StartError, match="no token was found") as caught:
        Connection(None, {})
    assert "RAY_AUTH_TOKEN" in str(caught.value.hint)
    monkeypatch.setattr(ray_connection.ray, "init", fake.init)
    Connection(None, {}).leave()  # nobody has been counted
    assert fake.told[-1] == "shutdown"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_is_not_connected(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal() -> str:
        """What a forked process is told that would run a job."""
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                Connection(None, {}).leave()
            except StartError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as told:
            return told.read()

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
    assert "forked from one that was connected to Ray" in refusal()
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    assert refusal() == ""
    Connection(None, {}).leave()
