"""What somebody puts into the folder of a job's checkpoints, who may write there, runs nothing.

Each place of a snapshot gets a pickle that makes a file, or the name of a class whose module makes
one when it is imported; its checksums are right.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.checkpoint import CheckpointLog, open_storage
from engine.checkpoint.entries import entry
from engine.checkpoint.manifest import seal, unseal
from engine.checkpoint.snapshot_file import pack, unpack
from engine.driver import checkpoints
from engine.errors import CheckpointError, EngineError
from engine.network import KeyedEntries
from engine.record import registry as record_registry
from engine.state import decode_value, encode_value
from operators import ProcessFunction, TaskContext, ValueState, source
from operators.sinks import Collect, Counts
from operators.sources import At, Function
from tests.halves import Halves, run_half, run_rest
from tests.waiting import pauses

RECORDS = [(number % 3, number) for number in range(20)]


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that is there when something ran; a module `bomb` makes it, too."""
    mark = tmp_path / "ran"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "oka_bomb.py").write_text(
        "from dataclasses import dataclass\nfrom pathlib import Path\n"
        f"Path({str(mark)!r}).touch()\n"
        "@dataclass(frozen=True)\nclass Seen:\n    number: int\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    for told in ("_kept", "_known"):  # what jobs of other tests in this process have told
        monkeypatch.setattr(record_registry, told, {})
    monkeypatch.setattr(checkpoints, "_told", set())
    before = record_registry.is_trusted()
    yield mark
    sys.modules.pop("oka_bomb", None)
    record_registry.trust(before)


class Last(ProcessFunction):
    seen = ValueState(None)

    def process(self, record: Any, context: Any) -> list[Any]:
        self.seen = record
        return [(context.key, self.seen)]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "native": lambda it: it.key_by(0).first(1).named("kept").sink(Collect()),
    "reduce": lambda it: it.key_by(0).reduce(max).named("kept").sink(Counts()),
    "process": lambda it: it.key_by(0).process(Last()).named("kept").sink(Collect()),
}


def pickled(mark: Path) -> bytes:
    return encode_value(Bomb(str(mark)), pickle=True)


def named(_mark: Path) -> bytes:
    """An object of a dataclass by the name of its class: [“oka_bomb:Seen”, 1], of code 7."""
    payload = b"\x92\xad" + b"oka_bomb:Seen" + b"\x01"
    return b"\xc7" + bytes([len(payload)]) + b"\x07" + payload


def nested(value: bytes) -> bytes:
    """Deep in lists, dicts and an object of Python's."""
    listed = b"\x91" + value
    for _ in range(3):
        listed = b"\x81\xa1k" + b"\xc9" + len(listed).to_bytes(4, "big") + b"\x01" + listed
        listed = b"\x91" + listed
    return b"\xc9" + (2 + len(listed)).to_bytes(4, "big") + b"\x27" + b"\x92\xfc" + listed


VALUES: dict[str, Callable[[Path], bytes]] = {
    "a pickle": pickled,
    "a nested pickle": lambda mark: nested(pickled(mark)),
    "a class": named,
    "a nested class": lambda mark: nested(named(mark)),
}
PLACES = ("key", "value", "shared", "own", "positions", "prepared", "gathered", "hidden")


def changed(folder: Path, place: str, value: bytes) -> None:
    """Put the value into this place of the first file that has it, and make all checksums right."""
    storage = open_storage(folder)
    manifest = CheckpointLog(storage).find("half")
    number = max(int(name.rpartition("/")[2]) for name in storage.list("log"))
    told = unseal(entry(number), storage.get(entry(number)))
    for task in told["tasks"]:
        (file,) = task["files"]
        head, parts = unpack(file["name"], storage.get(file["name"]))
        made = _with(head, dict(parts), place, value)
        if made is None:
            continue
        head.pop("parts"), head.pop("format")
        packed = pack(head, {name: [bytes(part)] for name, part in made.items()})
        storage.put(file["name"], *packed)
        file["bytes"], file["checksum"] = sum(map(len, packed)), packed[-1].hex()
        break
    else:
        raise AssertionError(f"no task has {place}")
    storage.delete([entry(number)])
    storage.create(entry(number), seal(told.pop("kind"), told))
    assert manifest.savepoint == "half"


def _with(
    head: dict[str, Any], parts: dict[tuple[str, str], Any], place: str, value: bytes
) -> dict[tuple[str, str], Any] | None:
    if place in ("positions", "prepared"):
        what = b"\x81\xa4kept" + value
        return {**parts, (place, ""): what}
    if place == "gathered":
        sinks = list(decode_value(bytes(parts["prepared", ""])))
        if not sinks:
            return None
        (sink,) = sinks
        batch = (1, value)
        what = [(1, (0, 1, [batch] if "collect" in sink else ([batch], {})))]
        return {**parts, ("prepared", ""): encode_value({sink: what}, False)}
    if "kept" not in head["operators"]:
        return None
    if place in ("shared", "own"):
        own = encode_value({0: b"\x91" + value}, False)
        return {**parts, (place, "kept"): value if place == "shared" else own}
    entries = KeyedEntries.from_bytes(bytes(parts["entries", "kept"]), head["operators"]["kept"])
    all_of = [entries[at] for at in range(len(entries))]
    hash_, key, _ = all_of[0]
    one = (hash_, value, encode_value(1, False)) if place == "key" else (hash_, key, value)
    others = all_of[1:]
    if place == "hidden":  # behind a value that is cut off
        second = others[0]
        one = (hash_, key, b"\xc5\xff\xff")
        others = [(second[0], second[1], value), *others[1:]]
    made = KeyedEntries([one, *others])
    return {**parts, ("entries", "kept"): b"".join(bytes(each) for each in made.to_parts())}


@pytest.mark.table(4)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_was_put_into_a_snapshot_is_refused(
    tmp_path: Path, mark: Path, program: str, kind: str, place: str
) -> None:
    folder = tmp_path / "checkpoints"
    records = Halves(RECORDS, 11)
    run_half(PROGRAMS[program](source(records)), folder, records)
    changed(folder, place, VALUES[kind](mark))
    with pytest.raises(EngineError) as told:
        run_rest(PROGRAMS[program](source(Halves(RECORDS, 11))), folder, restarts=0)
    assert not mark.exists()
    assert isinstance(told.value, CheckpointError), told.value
    if place != "hidden":
        expected = "has a pickle" if "pickle" in kind else "has an object of class 'oka_bomb.Seen'"
        assert expected in str(told.value)


def test_a_module_that_a_manifest_names_is_not_imported(tmp_path: Path, mark: Path) -> None:
    folder = tmp_path / "checkpoints"
    records = Halves(RECORDS, 11)
    run_half(PROGRAMS["native"](source(records)), folder, records)
    storage = open_storage(folder)
    number = max(int(name.rpartition("/")[2]) for name in storage.list("log"))
    told = unseal(entry(number), storage.get(entry(number)))
    for task in told["tasks"]:
        task["classes"] = [
            [9, ["oka_bomb:Seen", ["number"]]],
            ["oka_bomb:Seen", ["oka_bomb:Seen", []]],
        ]
    storage.put(entry(number), seal(told.pop("kind"), told))
    run_rest(PROGRAMS["native"](source(Halves(RECORDS, 11))), folder)
    assert not mark.exists()


def test_a_job_that_pickles_reads_its_pickles(tmp_path: Path, mark: Path) -> None:
    def job(records: Halves) -> Any:
        pairs = source(records).map(lambda pair: (pair[0], Own(pair[1]))).with_pickle()
        return pairs.key_by(0).reduce(_later).with_pickle()

    folder = tmp_path / "checkpoints"
    records = Halves(RECORDS, 11)
    run_half(job(records).named("kept").sink(Collect()), folder, records)
    output = run_rest(job(Halves(RECORDS, 11)).named("kept").sink(Collect()), folder)["collect"]
    assert {key: own.number for key, own in output} == {0: 18, 1: 19, 2: 17}


class Own:
    def __init__(self, number: int) -> None:
        self.number = number


def _later(_one: Any, other: Any) -> Any:
    return other


@pytest.mark.parametrize("place", ["requests/x", "answers/x", "log/00000009", "committed/x"])
def test_other_files_are_data(tmp_path: Path, mark: Path, place: str) -> None:
    folder = tmp_path / "checkpoints"
    records = Halves(RECORDS, 11)
    run_half(PROGRAMS["native"](source(records)), folder, records)
    path = folder / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickled(mark))
    with suppress(EngineError):
        run_rest(PROGRAMS["native"](source(Halves(RECORDS, 11))), folder)
    assert not mark.exists()


def shown(folder: Path, once: Path, end: str) -> Any:
    """Objects of a module that nothing but its source imports, as keys; it ends once in between.

    That is as soon as state has some of them.
    """

    def objects(context: TaskContext, position: int | None) -> Iterator[Any]:
        from oka_shop import Item  # type: ignore[import-not-found]  # as a library may do it

        for number in range(position or 0, 40):
            if number == 20 and not once.exists():
                known = len(list((folder / "log").iterdir()))
                yield from pauses(partial(are_epochs, known + 3), At(number, []))
                yield At(number, [(end, 0)])
            yield At(number + 1, [(Item(number % 4), number)])

    def are_epochs(number: int) -> bool:
        return len(list((folder / "log").iterdir())) >= number

    def may_end(batch: list[Any]) -> list[Any]:
        if any(key in ("die", "fail") for key, _ in batch) and not once.exists():
            once.touch()
            if end == "die":
                os._exit(1)
            raise LookupError("this comes once")
        return [number for key, number in batch if key != end]  # which the driver can read

    keyed = source(Function(objects)).key_by(0).last(1).named("kept")
    return keyed.map_batches(may_end).sink(Collect())


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "oka_shop.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Item:\n    number: int\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    yield "oka_shop"
    sys.modules.pop("oka_shop", None)


LASTS = {36, 37, 38, 39}
SETTINGS: Any = {"parallelism": 2, "checkpoint_interval_seconds": 0.1, "progress": "none"}


def test_a_worker_that_died_is_replaced_whatever_imported_its_classes(
    tmp_path: Path, shop: str
) -> None:
    folder, once = tmp_path / "checkpoints", tmp_path / "once"
    result = engine.execute(shown(folder, once, "die"), checkpoints=str(folder), **SETTINGS)
    assert once.exists()
    assert shop not in sys.modules
    assert result.statistics.restarts == 1
    assert set(result.outputs["collect"]) >= LASTS


@pytest.mark.parametrize("known_by", ["its import", "its tasks", "nothing"])
def test_state_of_a_module_that_the_driver_knows_is_read(
    tmp_path: Path,
    shop: str,
    known_by: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(checkpoints, "_told", set())  # what jobs of other tests have told
    folder, once = tmp_path / "checkpoints", tmp_path / "once"
    job = shown(folder, once, "fail")
    with pytest.raises(EngineError, match="this comes once"):
        engine.execute(job, checkpoints=str(folder), restarts=0, **SETTINGS)
    assert shop not in sys.modules
    (warned,) = [line for line in caplog.messages if "oka_shop" in line]
    assert warned.endswith("hint: import oka_shop at the top of the pipeline's file")
    again = {**SETTINGS, "checkpoints": str(folder), "resume": "latest", "parallelism": 3}
    if known_by != "its tasks":  # as in another process
        monkeypatch.setattr(checkpoints, "_told", set())
    if known_by == "its import":
        importlib.import_module(shop)
    if known_by != "nothing":
        assert set(engine.execute(job, **again).outputs["collect"]) >= LASTS
    else:
        with pytest.raises(CheckpointError, match=r"'oka_shop\.Item', whose module is no"):
            engine.execute(job, **again)
