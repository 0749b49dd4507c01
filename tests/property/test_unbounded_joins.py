"""Joins without a bound against all rows: with any changes, expiry, and other tasks that go on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from operators import key_numbers
from tests.changing import Event, Oracle, Row, Side, Tasks, applied, side_of
from tests.windowing import us

PROGRAMS = 15
"""Of each form and way to join; by hand 500."""
HOWS = ["inner", "left", "right", "full", "semi", "anti"]


@pytest.fixture(autouse=True, scope="module")
def few() -> Iterator[None]:
    """Have numbers of keys and rows let go of as often as with many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_numbers, "_FEW", 2)
        yield


def runs(chance: random.Random, sides: list[Side], keys: list[Any]) -> list[Event]:
    """Batches of both sides, whose changes are those of a table, and watermarks between them."""
    there: tuple[list[Row], list[Row]] = ([], [])
    events: list[Event] = []
    time = chance.choice([0, -50])
    told = time - 20
    for number in range(chance.randint(0, 25)):
        time += chance.randint(0, 10)
        if chance.random() < 0.2:
            told = max(told, time - chance.randint(0, 20))
            events.append(told)
            continue
        side = chance.randint(0, 1)
        batch: list[tuple[str, Row]] = []
        for part in range(chance.randint(1, 4)):
            row = chance.choice(keys), time - chance.randint(0, 15), number * 4 + part
            kind = chance.choice(["add", "add", "again", "remove", "update", "move"])
            rows = there[side]
            if sides[side] == "stream" or kind == "add" or not rows:
                batch.append(("+I", row))
                rows.append(row)
                continue
            old = chance.choice(rows)
            if kind == "again":
                batch.append(("+I", old))
                rows.append(old)
                continue
            rows.remove(old)
            if kind == "remove":
                batch.append(("-D", old))
                continue
            if kind == "update":
                row = (old[0], *row[1:])
            batch += [("-U", old), ("+U", row)]
            rows.append(row)
        events.append((side, batch))
    return events


def joined(sides: list[Side], how: str, keep: int | None, form: str) -> Any:
    left, right = (side_of(what, form) for what in sides)
    expire = {"expire_after": None if keep is None else us(keep)}
    if how == "semi":
        return left.semi_join(right, **expire)
    if how == "anti":
        return left.anti_join(right, **expire)
    if form == "encoded":
        return left.join(right, lambda one, other: (one, other), **expire)
    return left.join(right, how=how, **expire)


def gives_changes(sides: list[Side], how: str) -> bool:
    return "table" in sides or how not in ("inner", "semi")


@pytest.mark.parametrize(
    ("form", "how"),
    [
        *((form, how) for form in ("records", "columns", "undeclared") for how in HOWS),
        ("encoded", "inner"),
    ],
)
def test_unbounded_join(form: str, how: str) -> None:
    for seed in range(PROGRAMS):
        check(f"{form} {how} {seed}", form, how)


def check(seed: str, form: str, how: str) -> None:
    """A failed one names its seed by its traceback's arguments."""
    chance = random.Random(seed)
    kinds: list[Side] = ["stream"] if form == "encoded" else ["stream", "table"]
    sides = [chance.choice(kinds) for _ in range(2)]
    keep = None if form == "undeclared" else chance.choice([None, None, 1, 15, 40])
    keys = ["a", "b", None] if form in ("columns", "undeclared") else ["a", "b", 1, None, ("d", 2)]
    events = runs(chance, sides, keys)
    cut, tasks = chance.randint(0, 25), [chance.randint(1, 3) for _ in range(2)]
    begins_again = chance.random() < 0.5
    stream, are_changes = joined(sides, how, keep, form), gives_changes(sides, how)
    found, wanted = Tasks(stream, sides, form, tasks[0]), Oracle(keep)
    there: Counter[Any] = Counter()
    late: list[Row] = []
    alone: list[list[Row]] = [[], []]
    waits = form == "undeclared"
    for number, event in enumerate(events):
        if number == cut and begins_again:
            states = found.snapshot()
            late += found.aside["late"]
            alone[0] += found.aside.get("left", [])
            kept = found.kept
            found = Tasks(stream, sides, form, tasks[1], states)
            assert found.kept == kept
            watermarks = [each for each in events[:number] if isinstance(each, int)]
            if watermarks:  # the task gives its own again
                applied(there, found.take(max(watermarks)), are_changes)
        applied(there, found.take(event), are_changes)
        wanted.take(event)
        if not waits:
            assert +there == wanted.shown(how)
        elif not isinstance(event, int) and event[1]:
            # Of undeclared columns, results may wait for those of the other side.
            waits = len({each[0] for each in events[: number + 1] if not isinstance(each, int)}) < 2
    came = {event[0] for event in events if not isinstance(event, int)}
    if waits and how in ("right", "full") and came == {1} and found.kept:
        with pytest.raises(TypeError, match="has had nothing of the left"):
            found.end()
        return
    applied(there, found.end(), are_changes)
    wanted.end()
    if form != "undeclared" or not waits:
        assert +there == wanted.shown(how)
    assert Counter([*late, *found.aside["late"]]) == Counter(wanted.late)
    if "left" in found.aside:
        assert Counter([*alone[0], *found.aside["left"]]) == Counter(wanted.alone[0])
    assert found.kept == 0
    assert all(not state.entries for state in found.snapshot())
