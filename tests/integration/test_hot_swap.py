"""A model that is replaced under a stream: no record lost, none reordered, on both runtimes."""

from __future__ import annotations

import json
import os
import random
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import engine
from benchmarks.broadcast.hot_swap import HotSwap, Loaded, Outcome, Seen, Swap, judge, measure
from engine.cli.main import commands
from operators import source
from operators.sinks import Collect
from operators.sources import Collection, Function, Models
from tests.generated_model import generated
from tests.waiting import pauses

pytestmark = pytest.mark.usefixtures("nothing_left")


def check(outcome: Outcome) -> None:
    assert outcome.records_out == outcome.records_in
    assert (outcome.lost, outcome.reordered, outcome.wrong_models) == (0, 0, 0)
    for applied in outcome.versions:
        assert list(applied) == sorted(set(applied))


def test_five_swaps_under_a_hundred_thousand_records_a_second(runtime: str) -> None:
    case = HotSwap(rate=100_000, seconds=2, swaps=5, model_bytes=3_000_000)
    outcome = measure(case, runtime=runtime)
    check(outcome)
    assert outcome.records_in == 200_000
    (applied,) = outcome.versions
    assert len(applied) >= 2  # all six, where the machine has time for it
    assert outcome.overall.records > 0
    # Where the machine falls behind from the start on, no record is outside of it.
    assert outcome.around_swaps.records > 0 or not outcome.outside.records


@pytest.mark.table(2)
@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
@pytest.mark.parametrize("in_background", [True, False])
def test_several_tasks_over_any_channel(transport: str, in_background: bool) -> None:
    case = HotSwap(20_000, 0.6, 4, 200_000, parallelism=2, load_in_background=in_background)
    outcome = measure(case, transport=transport)
    check(outcome)
    assert len(outcome.versions) == 2
    assert all(outcome.versions)


@pytest.mark.again_on_ray
def test_plain_records_are_models_too(runtime: str) -> None:
    case = HotSwap(10_000, 0.5, 3, 10_000, via="records")
    check(measure(case, runtime=runtime))


@pytest.mark.again_on_ray
def test_records_wait_for_the_first_model_and_bound_their_source(
    runtime: str, tmp_path: Path
) -> None:
    def late() -> Iterator[Any]:
        yield from pauses((tmp_path / "emitted").exists)
        yield "late"

    def stamp(record: bytes) -> tuple[bytes, int]:
        at = time.monotonic_ns()
        (tmp_path / "emitted").touch()
        return record, at

    emitted = source(Collection([bytes(1000)] * 20_000)).map(stamp)
    served = emitted.map_batches_with_model(
        source(Function(late)).with_parallelism(1).broadcast(),
        lambda name: (name, time.monotonic_ns()),
        lambda model, batch: [(model[0], model[1], at) for _, at in batch],
    )
    output = engine.execute(served.sink(Collect()), runtime=runtime, progress="none").output
    assert len(output) == 20_000
    assert {name for name, _, _ in output} == {"late"}
    stamps = [at for _, _, at in output]
    assert stamps == sorted(stamps)
    # 20 MB do not fit the windows of the channel: the source went on once the model was there.
    assert stamps[-1] > output[0][1] > stamps[0]


def tell(model: Any) -> str:
    """What the file of a model says; it leaves a mark beside the folder, and may be broken."""
    folder = Path(os.fsdecode(bytes(model.files["marks"])))
    text = bytes(model.files["weights"]).decode()
    (folder / text).touch()
    if text == "broken":
        raise ValueError("no such layer")
    return text


def swap(model: Path, marks: Path, text: str) -> Iterator[list[Any]]:
    """Replace the model, and emit nothing until a task has met it."""
    new = marks / "new"
    new.mkdir()
    (new / "weights").write_text(text)
    (new / "marks").write_bytes(os.fsencode(marks))
    if model.exists():
        model.rename(marks / f"before {text}")
    new.rename(model)
    yield from pauses((marks / text).exists)


@pytest.mark.again_on_ray
def test_a_broken_model_in_a_watched_folder_harms_nothing(
    runtime: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watched, marks = tmp_path / "model", tmp_path / "marks"
    marks.mkdir()
    watched.mkdir()  # and empty

    def records() -> Iterator[Any]:
        for text in ("one", "broken", "three"):
            yield from swap(watched, marks, text)
            yield [text] * 10

    served = (
        source(Function(records))
        .with_parallelism(1)
        .map_batches_with_model(
            source(Models(watch=watched)).broadcast(via="channels"),
            tell,
            lambda model, batch: [(model, record) for record in batch],
        )
        .named("served")
    )
    result = engine.execute(served.sink(Collect()), runtime=runtime, progress="none")
    assert result.output[:20] == [("one", "one")] * 10 + [("one", "broken")] * 10
    # The last one may take over before, between or behind the last records.
    assert [record for _, record in result.output[20:]] == ["three"] * 10
    assert {model for model, _ in result.output[20:]} <= {"one", "three"}
    failures = {each.name: each.failures for each in result.statistics.operators}
    assert failures == {
        **dict.fromkeys(failures, 0),
        "served": 1,
    }
    assert [row["failures"] for row in result.to_dict()["operators"] if row["failures"]] == [1]
    assert "failures" in str(result)
    if runtime == "local":  # the tests' Ray keeps what its workers write
        said = capfd.readouterr().err
        assert said.count("stays, since load raised ValueError: no such layer") == 1
        assert "task served -> collect[0]: <Model 'model' version 1: folder of 2 files" in said


@pytest.mark.again_on_ray
def test_a_model_that_cannot_be_published_harms_nothing(runtime: str, tmp_path: Path) -> None:
    def values() -> Iterator[Any]:
        yield b"one"
        yield from pauses((tmp_path / "one").exists)
        yield tmp_path / "missing"
        yield generated({"weights": (3_000_000, lambda: [bytes(2_000_000)])})  # half of it is there
        yield b"four"
        (tmp_path / "published").touch()
        yield from pauses(lambda: False)

    def records() -> Iterator[Any]:
        yield "first"
        yield from pauses((tmp_path / "published").exists)
        for n in range(4000):  # until the last model has taken over
            if (tmp_path / "four").exists():
                yield "last"
                return
            yield n
            time.sleep(0.01)
        raise AssertionError("no record has met 'four'")

    def serve(model: str, batch: list[Any]) -> list[tuple[str, Any]]:
        (tmp_path / model).touch()
        return [(model, record) for record in batch]

    models = source(Function(values)).with_parallelism(1).named("models").broadcast(via="channels")
    served = (
        source(Function(records))
        .with_parallelism(1)
        .map_batches_with_model(
            models,
            lambda model: bytes(model.value()).decode(),
            serve,
        )
        .sink(Collect())
    )
    result = engine.execute(served, runtime=runtime, progress="none")
    between = range(len(result.output) - 2)
    assert [record for _, record in result.output] == ["first", *between, "last"]
    assert result.output[0] == ("one", "first")
    assert result.output[-1] == ("four", "last")
    failures = {each.name: each.failures for each in result.statistics.operators}
    assert failures["publish"] == 2
    assert sum(failures.values()) == 2


@pytest.mark.again_on_ray
def test_five_records_beside_a_watched_folder_end(runtime: str, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("one")
    models = source(Models(watch=tmp_path)).broadcast(via="channels")
    served = source(Collection(range(5))).map_batches_with_model(
        models, lambda model: bytes(model.value()["weights"]).decode(), lambda m, batch: batch
    )
    result = engine.execute(served.sink(Collect()), runtime=runtime, parallelism=2, progress="none")
    assert sorted(result.output) == list(range(5))


@pytest.mark.ray
def test_a_path_that_is_not_there_fails_its_task_on_a_cluster(ray_cluster: None) -> None:
    models = source(Models(watch="/nowhere/models")).broadcast(via="channels")
    with pytest.raises(engine.OperatorError) as caught:
        engine.execute(models.map(str).sink(Collect()), runtime="ray", progress="none")
    assert caught.value.operator == "models"
    assert "Models watches '/nowhere/models', which does not exist" in str(caught.value)
    assert "hint: make the folder" in str(caught.value)


def test_lost_and_reordered_records_are_seen() -> None:
    case = HotSwap(rate=2000, seconds=0.002, swaps=0, model_bytes=8)
    model = Loaded(1, 0, 0, 0)
    seen = Seen({0: 3}, 1, [(10**9, 5000, 1), (10**9, 7000, 2)], [Swap(model, 10**9)])
    outcome = judge(case, [seen])
    assert (outcome.records_in, outcome.lost, outcome.reordered) == (4, 1, 1)
    assert outcome.wrong_models == 1
    assert (outcome.overall.p50, outcome.overall.max) == (7.0, 7.0)


def test_the_benchmark(tmp_path: Path) -> None:
    found = tmp_path / "hot.json"
    options = ["--rate", "5000", "--seconds", "0.5", "--swaps", "2", "--model-mb", "0.1"]
    done = CliRunner().invoke(commands, ["bench", "hot-swap", *options, "--json", str(found)])
    assert done.exit_code == 0, done.output
    assert "0 lost, 0 reordered" in done.output
    result: dict[str, Any] = json.loads(found.read_text())
    assert result["schema"] == "oka.hot_swap/1"
    assert result["outcome"]["records_out"] == 2500
    assert result["settings"]["model_bytes"] == 100_000
    wrong = CliRunner().invoke(commands, ["bench", "hot-swap", "--seconds", "0.1"])
    assert wrong.exit_code == 2
    assert "--seconds is 0.1, expected at least 0.5" in wrong.output


def look(model: Any) -> tuple[str, int, int, list[str]]:
    """The node, the version, a checksum of the bytes, and where they are in shared memory."""
    import ray

    crc = zlib.crc32(model.buffer)
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = [line.split()[4] for line in lines if "memfd:" in line and "blob" in line]
    return str(ray.get_runtime_context().get_node_id()), model.version, crc, mapped


@pytest.mark.ray
def test_models_cross_a_chain_of_nodes_and_land_once_on_each(ray_cluster: None) -> None:
    blobs = [random.Random(n).randbytes(3_000_000 + n) for n in range(3)]
    models = source(Models(*blobs)).broadcast(via="channels")
    looked = models.map(look).named("load").with_parallelism(6).with_resources(slot=1)
    found = engine.execute(
        looked.sink(Collect()), runtime="ray", placement="parallelism_first", progress="none"
    ).output
    nodes = {node for node, _, _, _ in found}
    assert len(nodes) == 3
    for version, blob in enumerate(blobs, start=1):
        of_version = [each for each in found if each[1] == version]
        assert len(of_version) == 6
        assert {crc for _, _, crc, _ in of_version} == {zlib.crc32(blob)}
        for node in nodes:
            one, other = (set(mapped) for at, _, _, mapped in of_version if at == node)
            assert one & other, "two tasks of a node read one copy"
