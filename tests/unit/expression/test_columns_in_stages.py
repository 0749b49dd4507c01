"""Stages over columns: what goes on as columns, branches, several stages, and what gives up."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from engine.columns import rows
from engine.expression.columns import ColumnProgram, GaveUp
from engine.expression.lift import Lifted, lift
from engine.network import take_rows
from tests import arrow_types
from tests.column_programs import compared

Function = Callable[[Any], Any]
BATCH = pa.record_batch(
    {
        "id": [1, 2, 3, -4, 5],
        "small": pa.array([1, None, 3, 4, 5], pa.int8()),
        "big": pa.array([1, 2, 3, 4, (1 << 64) - 1], pa.uint64()),
        "price": [1.5, 2.0, -0.0, float("nan"), 1e20],
        "name": ["Ann b", "bob", "é x  y", "", " c\x1cd "],
        "code": pa.array(["u", "v", "u", None, "v"]).dictionary_encode(),
        "view": pa.array(["long enough for a view", None, "", "b", "c"], pa.string_view()),
        "ok": [True, False, True, True, False],
        "maybe": [True, None, False, None, True],
        "user": [{"id": 1, "tags": ["x", "y"]}] * 5,
        "tags": [["a", "b"], [], ["c"], ["a"], ["d", "e", "f"]],
        "nothing": pa.nulls(5),
    }
)


def staged(*stages: tuple[str, Function]) -> list[tuple[str, Function, Any]]:
    found = []
    for form, function in stages:
        lifted = lift(function, 1)
        assert isinstance(lifted, Lifted), lifted
        found.append((form, function, lifted.expression))
    return found


def run(batch: pa.RecordBatch, *stages: tuple[str, Function]) -> Any:
    return ColumnProgram([(form, body) for form, _, body in staged(*stages)]).run(batch)  # type: ignore[misc]


TO_COLUMNS: list[Function] = [
    lambda r: r,
    lambda r: {**r, "more": r["id"] * 2},
    lambda r: r | {"id": str(r["id"]), "name": r["name"].upper()},
    lambda r: {"b": r["id"], "a": r["small"], "c": "text", "d": None, "e": 1.5, "f": b"x"},
    lambda r: {"inner": {"id": r["id"], "code": r["code"]}},
    lambda r: {"list": [r["id"], 0], "none": [], "words": r["name"].split()},
    lambda r: {"x": r["user"]["id"], "y": r["user"]["tags"][1], "z": r["user"]},
    lambda r: {"x": r["small"] if r["small"] is not None else 0},
    lambda r: {"x": r["small"] or -1, "y": r["small"] and r["id"], "z": r["maybe"]},
    lambda r: {"x": r["name"].lower() if r["ok"] else r["view"]},
    lambda r: {"x": 1} if r["maybe"] else {"x": r["small"]},
    lambda r: {"x": "a" if r["id"] < 2 else "b" if r["id"] < 4 else "c"},
    lambda r: {"x": r["id"] // 2 if r["ok"] else -r["id"] % 3, "y": r["id"] and 10 // r["id"]},
    lambda r: {"x": r["name"].split() if r["ok"] else [], "y": r["tags"] if r["ok"] else ["z"]},
    lambda r: {"x": len(r["name"]), "y": r["name"][1:], "z": r["name"][-3:-1]},
    lambda r: {"x": f"{r['id']}:{r['name']!r:>8}", "y": f"{r['price']:.1f}", "z": str(r["ok"])},
    lambda r: {
        "x": [t.upper() for t in r["tags"] if t != "a"],
        "y": [t * 2 for t in ("p", r["name"])],
    },
    lambda r: {"x": "b" in r["tags"], "y": r["id"] in (1, 2, 5), "z": "b" in r["name"]},
    lambda r: {"x": r.get("id"), "y": r.get("none of it"), "z": r.get("none of it", 0)},
    lambda r: {"x": 1 < r["id"] <= 3, "y": r["small"] == 3, "z": r["code"] != "u"},
    lambda r: {"x": min(r["id"], 2), "y": max(0.5, r["price"]), "z": abs(r["id"])},
    lambda r: {"x": r["ok"] + r["ok"], "y": r["ok"] & (r["id"] > 1), "z": not r["name"]},
    lambda r: {"x": sum(x * r["id"] for x in (1, 2)), "y": r["nothing"] is None},
    lambda r: {"x": ",".join(r["tags"]), "y": ",".join([r["name"], "b"]), "z": r["name"] * 2},
    lambda r: {"x": r["ok"] or True, "y": r["ok"] and False, "z": r["ok"] and r["maybe"]},
    lambda r: {"x": r["ok"] or r["maybe"], "y": r["ok"] or None, "z": r["ok"] and None},
    lambda r: {"x": abs(float(-(r is None))), "y": -(r["ok"] is None) + 1},
    lambda r: {"x": isinstance(r["small"], int), "y": isinstance(r["name"], str)},
    lambda r: {name: value for name, value in r.items() if name not in ("id", "tags")},
    lambda r: {name: value for name, value in r.items() if name != "id" and r["id"] != 100},
    lambda r: {k: v if k == "ok" else r["id"] + 1 for k, v in r.items() if k[0] in "iom"},
    lambda r: {"x": [k for k in ("a", "b") if r["ok"]], "y": [k for k in ("a", "b") if k != "b"]},
    lambda r: {k: r[k] * 2 for k in ("id", "price", "name") if r["ok"] or k != "none of it"},
    lambda r: {"x": r["tags"][1:], "y": r["tags"][:-1], "z": r["tags"][-2:9], "w": r["tags"][5:]},
    lambda r: {"x": r["name"].split(" ")[:2], "y": r["tags"][2:1], "z": r["tags"][:]},
    lambda r: dict(zip(("a", "b"), (r["name"] + "-y-z").split("-")[-2:], strict=True)),
]
TO_LISTS: list[Function] = [
    lambda r: r["id"],
    lambda r: (r["id"], r["code"]),
    lambda r: (r["name"], {"a": 1, "b": r}),
    lambda r: [r["id"], r["name"]],
    lambda r: {},
    lambda r: {"x": (1, 2)},
    lambda r: {"x": [r["id"], "b"]},
    lambda r: {1: r["id"], 2: 5},
    lambda r: {"x": 1 << 63},
    lambda r: {"x": "\ud800"},
    lambda r: None,
    lambda r: r["tags"],
    lambda r: r["user"],
    lambda r: r["big"],
]
FILTERS: list[Function] = [
    lambda r: r["id"] > 1,
    lambda r: r["small"],
    lambda r: r["maybe"],
    lambda r: r["code"] == "u",
    lambda r: (r["id"] > 1 and r["name"]) or r["view"],
    lambda r: r["tags"] and r["tags"][0] in ("a", "c"),
    lambda r: r["id"] > 100,
    lambda r: True,
    lambda r: r["id"] % 2 == 0 and 8 // r["id"] > 0,
]
FLAT: list[Function] = [
    lambda r: [r] if r["ok"] else [],
    lambda r: [r, {**r, "id": 0}],
    lambda r: r["name"].split(),
    lambda r: r["tags"],
    lambda r: (r["id"], r["small"]),
    lambda r: [(t, r["id"]) for t in r["tags"]],
    lambda r: [{"t": t, **r} for t in r["tags"] if t != r["code"] and r["id"] > 1],
    lambda r: r["tags"] if r["ok"] else ["x", "y"] if r["id"] == 2 else (),
    lambda r: [],
]
GIVE_UP: list[tuple[str, Function]] = [
    ("no field 'none of it'", lambda r: r["none of it"]),
    ("None among values of type int", lambda r: r["small"] + 1),
    ("overflow", lambda r: r["id"] + ((1 << 63) - 1)),
    ("an integer beyond 64 bits", lambda r: r["id"] + (1 << 63)),
    ("a division by zero", lambda r: r["id"] % (r["id"] - 1)),
    ("divide by zero", lambda r: r["price"] / r["price"]),
    ("int or str in one place", lambda r: r["id"] if r["ok"] else r["name"]),
    ("float or int in one place", lambda r: {"x": [1.5 if r["ok"] else 1]}),
    ("dicts of different fields", lambda r: {"a": 1, "b": 2} if r["ok"] else {"b": 2, "a": 1}),
    ("an integer beyond 64 bits", lambda r: r["big"] + 1),
    ("no item 1", lambda r: r["tags"][1]),
    ("no item 1", lambda r: r["tags"][:2][1]),
    ("other than 2 items to unpack", lambda r: dict(zip(("a", "b"), r["tags"][:2], strict=True))),
    ("a slice of a list", lambda r: r["tags"][: r["id"]]),
    ("an item of a dict", lambda r: {k: r[k] for k in ("id", "name") if r["ok"]}),
    ("too large", lambda r: {"x": 1 << 63 if r["ok"] else 1}),
    ("title of a int", lambda r: r["id"].title()),
    ("str + int", lambda r: r["name"] + r["id"]),
]


@pytest.mark.parametrize("at", range(len(TO_COLUMNS)))
def test_dicts_stay_columns(at: int) -> None:
    batch = BATCH.drop_columns(["big"])
    assert compared(staged(("map", TO_COLUMNS[at])), batch) == "columns"
    assert compared(staged(("map", TO_COLUMNS[at])), batch.slice(1, 3)) == "columns"
    assert compared(staged(("map", TO_COLUMNS[at])), batch.slice(0, 0)) == "list"


@pytest.mark.parametrize("at", range(len(TO_LISTS)))
def test_other_records_are_a_list(at: int) -> None:
    assert compared(staged(("map", TO_LISTS[at])), BATCH) == "list"


@pytest.mark.parametrize("at", range(len(FILTERS)))
def test_a_filter_gives_rows_in_the_types_that_they_have(at: int) -> None:
    batch = BATCH.drop_columns(["price"]).replace_schema_metadata({"of": "a test"})
    assert compared(staged(("filter", FILTERS[at])), batch) == "columns"
    found = run(batch, ("filter", FILTERS[at]))
    places = [at_ for at_, row in enumerate(rows(batch)) if FILTERS[at](row)]
    assert found.equals(take_rows(batch, pa.array(places, "int64")))
    assert found.schema.metadata == batch.schema.metadata


@pytest.mark.parametrize("name", list(arrow_types.ALL))
def test_a_filter_passes_columns_of_each_type(name: str) -> None:
    for batch in arrow_types.batches(name):
        found = run(batch, ("filter", lambda r: r["i"] % 3 != 1))
        if "union" in name:
            assert found == GaveUp(f"a column of type {batch['x'].type}")
            continue
        places = [at for at, row in enumerate(rows(batch)) if row["i"] % 3 != 1]
        assert found.schema == batch.schema
        assert found.equals(take_rows(batch, pa.array(places, "int64")))


@pytest.mark.parametrize("at", range(len(FLAT)))
def test_lists_of_records_are_put_one_behind_the_other(at: int) -> None:
    assert compared(staged(("flat_map", FLAT[at])), BATCH) in ("columns", "list")


@pytest.mark.parametrize(
    "key", [lambda r: r["id"], lambda r: (r["id"] % 2, r["code"]), lambda r: None]
)
def test_keys_are_beside_their_records(key: Function) -> None:
    assert compared(staged(("key", key)), BATCH) == "list"


def test_stages_are_one_behind_the_other() -> None:
    stages = staged(
        ("map", lambda r: {**r, "n": len(r["name"])}),
        ("filter", lambda r: r["n"] > 0 and r["ok"]),
        ("flat_map", lambda r: [(w, r) for w in r["name"].split()]),
        ("filter", lambda p: p[0] != "x"),
        ("map", lambda p: {"word": p[0], "n": p[1]["n"], "big": p[1]["big"]}),
    )
    assert compared(stages, BATCH) == "columns"
    none = staged(("filter", lambda r: r["id"] > 9), ("map", lambda r: 1 // 0))
    assert compared(none, BATCH) == "list"


@pytest.mark.parametrize("at", range(len(GIVE_UP)))
def test_what_is_unusual_gives_up(at: int) -> None:
    reason, function = GIVE_UP[at]
    found = run(BATCH, ("map", function))
    assert isinstance(found, GaveUp)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1, 1 << 60], pa.timestamp("us")), "a timestamp[us] that no object"),
        (pa.array([1], pa.timestamp("ns")), "finer than a microsecond"),
        (pa.array([1], pa.timestamp("us", "Nowhere/Land")), "zoneinfo"),
        (pa.array([-62135596800], pa.timestamp("s", "Europe/Paris")), "no object of Python"),
        (pa.array([3_000_000], pa.int32()).view(pa.date32()), "a date32[day] that no object"),
        (pa.array([90000], pa.int32()).view(pa.time32("s")), "a time32[s] that no object"),
        (pa.array([1 << 50], pa.duration("s")), "a duration[s] that no object"),
        (pa.array([[1]], pa.list_(pa.timestamp("ns"))), "a column of type list<"),
    ],
)
def test_a_time_without_an_object_of_python_gives_up_though_nobody_looks(
    column: pa.Array, reason: str
) -> None:
    batch = pa.record_batch({"t": column, "x": pa.array(range(len(column)))})
    found = run(batch, ("map", lambda r: r["x"]))
    assert isinstance(found, GaveUp)
    assert reason in found.reason


def test_names_have_to_differ_and_rows_need_a_column() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    assert run(twice, ("filter", lambda r: True)) == GaveUp("two columns of a name")
    assert run(pa.record_batch({}), ("filter", lambda r: True)) == GaveUp("rows without columns")


def test_a_program_takes_batches_of_other_schemas() -> None:
    (stage,) = staged(("map", lambda r: {"x": r["x"] + 1}))
    program = ColumnProgram([("map", stage[2])])
    for values, kind in (
        ([1, 2], "int64"),
        ([1.5], "float"),
        ([True], "bool"),
        ([3], "int8"),
        ([], "int8"),
    ):
        batch = pa.record_batch({"x": pa.array(values, kind)})
        found = program.run(batch)
        assert list(rows(found) if len(batch) else found) == [{"x": x + 1} for x in values]
    assert program.run(pa.record_batch({"x": ["a"]})) == GaveUp("str + int")


def test_ways_that_fail_for_other_rows_are_run_for_their_own() -> None:
    stage = staged(("map", lambda r: {"x": 10 // r["id"] if r["id"] else 0}))
    for _ in range(2):
        assert compared(stage, pa.record_batch({"id": [1, 0, -3, 0]})) == "columns"
