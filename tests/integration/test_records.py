"""Records of people's own classes through running jobs, wherever the classes are defined."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.cli.main import load_pipeline
from engine.errors import ConfigError, OperatorError
from operators import Stream, source
from operators.sinks import Collect, Counts, Discard
from operators.sources import Collection

ROOT = Path(__file__).parents[2]
PIPELINE = '''
import enum
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import engine
from operators import source
from operators.sinks import Collect, Counts
from operators.sources import Collection

seen = []


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class At(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Key:
    odd: int


@dataclass
class Event:
    n: int
    color: Color
    at: At
    notes: list = field(default_factory=list)

    def __post_init__(self):
        seen.append(self)
        self.notes.append("made")


def event(n):
    return Event(n, Color(n % 2 + 1), At(n, 1))


def checked(event):
    """Runs where the class is known by this very function."""
    assert type(event) is Event and event.notes == ["made"] and not seen, event
    assert event.color in (Color.RED, Color.BLUE) and type(event.at) is At, event
    return event


def pipeline():
    events = source(Collection(range(10))).map(event)
    unseen = events.rebalance().map(lambda event: event).named("knows no class")
    return [
        unseen.rebalance().map(checked).sink(Collect()).named("events"),
        events.key_by(lambda event: Key(event.n % 2)).count().sink(Counts()).named("keys"),
        events.key_by(lambda event: event.color).count().sink(Counts()).named("colors"),
        events.map(lambda event: event.at).named("at").key_by(1).sum(0).sink(Counts()).named("x"),
        events.map(lambda event: defaultdict(Event, at=event)).named("default")
        .rebalance().sink(Collect()).named("defaults"),
    ]


def check(outputs):
    assert sorted(map(checked, outputs["events"]), key=lambda event: event.n) == [
        Event(n, Color(n % 2 + 1), At(n, 1)) for n in range(10)
    ]
    assert outputs["keys"] == {Key(0): 5, Key(1): 5}
    assert outputs["colors"] == {Color.RED: 5, Color.BLUE: 5}
    assert outputs["x"] == {1: 45}
    assert all(each.default_factory is Event for each in outputs["defaults"])
    seen.clear()  # which a job's functions take along


if __name__ == "__main__":
    result = engine.execute(pipeline(), parallelism=2, progress="none")
    check(result.outputs)
    print("equal")
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events_of_mine.py"
    path.write_text(PIPELINE)
    return path


def test_classes_of_a_script(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=file.parent,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "equal\n"


@pytest.mark.usefixtures("nothing_left")
def test_classes_of_a_pipeline_file(
    file: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    pipelines, name = load_pipeline(str(file), ())
    check = sys.modules[file.stem].check
    assert name == file.stem
    # A second job of this process has its classes by the same numbers, whatever the runtime.
    for _ in range(2 if runtime == "local" else 1):
        result = engine.execute(
            pipelines,
            runtime=runtime,
            parallelism=2 if runtime == "local" else 1,  # a Ray actor takes long to start
            placement="parallelism_first",
            progress="none",
        )
        check(result.outputs)
    del sys.modules[file.stem]


MODULE = """
from dataclasses import dataclass

@dataclass
class Reading:
    celsius: float
"""


def readings(folder: Path) -> Stream[Any]:
    """Records of a class that nothing in the pipeline mentions."""

    def read(n: int) -> Any:
        sys.path.append(str(folder))
        import readings_of_mine  # type: ignore[import-not-found]

        return readings_of_mine.Reading(n / 2)

    return source(Collection([1, 2, 3])).map(read)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_classes_of_a_module_are_imported_where_they_arrive(
    tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "readings_of_mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline = readings(tmp_path).rebalance().map(lambda each: each.celsius).sink(Collect())
    result = engine.execute(pipeline, transport=transport, progress="none")
    assert sorted(result.output) == [0.5, 1.0, 1.5]


def test_without_encryption_nothing_is_imported_for_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "readings_of_mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline = readings(tmp_path).rebalance().map(lambda each: each.celsius).sink(Collect())
    with pytest.raises(OperatorError, match=r"readings_of_mine.Reading.*is not imported") as e:
        engine.execute(pipeline, transport="tcp", encryption=False, progress="none")
    assert "hint: leave encryption on" in str(e.value)


class Handle:
    """Nothing that could travel."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


def handles() -> Stream[Handle]:
    return source(Collection([1, 2, 3])).map(Handle)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_any_object_travels_where_the_stream_says_so(transport: str) -> None:
    pickled = handles().with_pickle()
    counts = pickled.key_by(lambda handle: handle.n).count().sink(Counts())
    arrived = pickled.rebalance().map(lambda handle: handle).with_pickle().sink(Collect())
    chained = pickled.sink(Collect()).named("chained")
    passed = pickled.rebalance().filter(bool).take(2).sink(Collect()).named("passed")
    failing = pickled.map(lambda handle: handle.n // 0, on_error="side")
    failing = failing.named("failing").with_pickle()
    failed = failing.side("errors").sink(Collect()).named("failed")
    result = engine.execute(
        [counts, arrived, chained, passed, failing.sink(Discard()), failed],
        transport=transport,
        progress="none",
    )
    assert len(result.outputs["passed"]) == 2
    assert sorted(handle.n for handle, _ in result.outputs["failed"]) == [1, 2, 3]
    assert result.outputs["counts"] == {1: 1, 2: 1, 3: 1}
    assert sorted(handle.n for handle in result.outputs["collect"]) == [1, 2, 3]
    assert result.outputs["chained"] == [Handle(1), Handle(2), Handle(3)]


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_pickles_are_refused_where_strangers_can_write(transport: str) -> None:
    with pytest.raises(ConfigError, match=r"'map' has .with_pickle\(\) and encryption is off"):
        engine.execute(
            handles().with_pickle().sink(Collect()), transport=transport, encryption=False
        )


def test_an_object_that_cannot_be_pickled_either_is_refused() -> None:
    locks = source(Collection([1])).map(lambda _: threading.Lock()).with_pickle()
    with pytest.raises(OperatorError, match=r"_thread.lock cannot be pickled: TypeError"):
        engine.execute(locks.rebalance().sink(Collect()), progress="none")


@pytest.mark.parametrize("sink", [Collect(), Counts()], ids=["collect", "counts"])
def test_driver_sinks_refuse_what_channels_refuse_in_the_same_words(sink: Any) -> None:
    pairs = handles().map(lambda handle: (handle.n, handle))
    told = []
    for stream in (pairs, pairs.rebalance()):
        with pytest.raises(OperatorError) as raised:
            engine.execute(stream.sink(sink), progress="none")
        told.append(re.sub("0x[0-9a-f]+", "…", raised.value.error))
    assert told[0] == told[1]
    assert "test_records.Handle cannot travel in a record" in told[0]
