"""What nodes that are about to go are called, and what it means that the head knows none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

from ray.exceptions import AuthenticationError

from engine.driver.ray import connection, draining
from engine.errors import DriverLost


def node(address: str, node_id: str, *, alive: bool = True) -> Any:
    return SimpleNamespace(
        node_manager_address=address,
        node_manager_port=1,
        node_name=address,
        node_id=bytes.fromhex(node_id),
        state=0 if alive else 1,
        resources_total={"CPU": 1.0},
    )


def told_of(monkeypatch: pytest.MonkeyPatch, *nodes: Any, own: str) -> list[str]:
    """What those are called that drain: all of them."""
    context = SimpleNamespace(get_node_id=lambda: own)
    gcs = SimpleNamespace(
        get_all_node_info=lambda timeout: dict(enumerate(nodes)),
        get_draining_nodes=lambda timeout: {each.node_id.hex(): 0 for each in nodes},
    )
    monkeypatch.setattr(draining.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(draining, "head", lambda: gcs)
    monkeypatch.setattr(draining, "by_client", lambda: False)
    return [each.name for each in draining.living_nodes()[1]]


def test_a_node_that_was_there_before_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = node("10.0.0.2", "a1", alive=False), node("10.0.0.2", "b2")
    assert told_of(monkeypatch, before, now, own="b2") == ["10.0.0.2"]
    other = node("10.0.0.2", "c3")
    assert told_of(monkeypatch, now, other, own="b2") == ["10.0.0.2 (b2)", "10.0.0.2 (c3)"]
    with pytest.raises(DriverLost, match=r"^the Ray node of 10\.0\.0\.2 is gone"):
        told_of(monkeypatch, before, now, own="a1")


@pytest.mark.parametrize("words", ["WrongClusterID: …", "InvalidAuthToken"])
def test_a_head_that_has_begun_anew_is_another(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    def ask(*_: object, **__: object) -> None:
        raise AuthenticationError(words)

    worker = SimpleNamespace(gcs_client=SimpleNamespace(internal_kv_exists=ask))
    monkeypatch.setattr(connection.ray._private.worker, "global_worker", worker)
    monkeypatch.setattr(connection, "by_client", lambda: False)
    is_another = words.startswith("Wrong")
    with pytest.raises(DriverLost if is_another else AuthenticationError) as raised:
        connection.check_cluster()
    assert ("has begun anew" in str(raised.value)) == is_another
