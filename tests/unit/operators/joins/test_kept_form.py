"""Joins go on with recorded states of joins; see tests/cases/joins."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from engine.network import KeyedEntries
from engine.state import KeyedState
from operators import Session, Sliding, Stream, Tumbling
from tests.joining import Form, JoinTasks, function_of, keyed
from tests.windowing import us

KINDS: dict[str, Callable[[Any, Any, Any, Any], Stream[Any]]] = {
    "interval": lambda left, right, function, how: left.interval_join(
        right, function, between=(us(-5), us(9)), how=how
    ),
    "tumbling": lambda left, right, function, how: left.window_join(
        right, Tumbling(us(20), us(3)), function, how=how
    ),
    "sliding": lambda left, right, function, how: left.window_join(
        right, Sliding(us(20), us(7)), function, how=how
    ),
    "session": lambda left, right, function, how: left.window_join(
        right, Session(us(6)), function, how=how
    ),
    "temporal": lambda left, right, function, how: left.temporal_join(right, function, how=how),
}
HOWS = ("inner", "left", "right", "full")
RECORDED = Path(__file__).parents[3] / "cases" / "joins" / "states.json.gz"


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def state_of(entries: list[list[Any]], columns: str) -> KeyedState:
    encoded = [(digest, b64decode(key), b64decode(value)) for digest, key, value in entries]
    return KeyedState(KeyedEntries(encoded), b64decode(columns))


def plain(of: Any) -> Any:
    """Lists, as JSON has them."""
    return json.loads(json.dumps(of))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize(
    ("kind", "how"),
    [(kind, how) for kind in KINDS for how in HOWS[: 2 if kind == "temporal" else 4]],
)
def test_a_join_goes_on_with_a_recorded_state(
    kind: str, how: str, form: Form, parallelism: int
) -> None:
    columns = form == "columns"
    (case,) = (
        each
        for each in recorded()["cases"]
        if (each["kind"], each["how"], each["columns"]) == (kind, how, columns)
    )
    states = [state_of(*each) for each in case["states"]]
    stream = KINDS[kind](keyed(form), keyed(form), function_of(form), how)
    tasks = JoinTasks(stream, parallelism, states, form)
    if not columns or kind != "temporal":  # columns had versions that no row could need
        assert tasks.kept == case["kept"]
    if not columns and kind in ("interval", "temporal"):  # windows had another form
        entries = [entry for state in tasks.snapshot() for entry in state.entries]
        assert sorted(entries) == sorted(entry for state in states for entry in state.entries)
    events = recorded()["events"][recorded()["cut"] :]
    given = [tuple(each) if isinstance(each, list) else each for each in events]
    results = [each for step in tasks.take(given) for each in step] + tasks.end()
    assert sorted(plain(results), key=repr) == sorted(case["results"], key=repr)
    assert plain(tasks.late) == case["late"]
