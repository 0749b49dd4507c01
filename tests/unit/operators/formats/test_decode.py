"""Messages that a source's format rejects: they fail the job, are counted, or are put aside."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import engine.testing
from engine import GraphError
from engine.config import JobConfig
from engine.graph.operator import Properties
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Stream, source
from operators.formats import Avro, Bytes, Decode, Format, Json, Messages, Text
from operators.sinks import Collect, Discard
from operators.sources import Collection
from tests.rescaling import braked, run

pytestmark = pytest.mark.usefixtures("nothing_left")


@dataclass(frozen=True)
class Numbered:
    """A message with its place, as a log has it."""

    offset: int
    value: bytes


class InLog(Messages):
    def values(self, messages: list[Any]) -> list[bytes | None]:
        return [value for _, value in messages]

    def record(self, message: Any) -> Any:
        return Numbered(*message)

    def joined(self, messages: list[Any], decoded: Any) -> Any:
        return [(offset, record) for (offset, _), record in zip(messages, decoded, strict=True)]


class Log(Collection[Any]):
    """Messages as a source of a user has them."""

    def __init__(
        self,
        messages: list[Any],
        kind: Any = Bytes(),  # noqa: B008 - a value
        on_error: Any = "fail",
        layout: Messages | None = None,
        rate: float | None = None,
    ) -> None:
        super().__init__(messages, rate)
        self.followed_by = Decode(kind, on_error, layout or Messages())

    @property
    def properties(self) -> Properties:
        return replace(self.followed_by.properties, rate=self.rate)


AVRO = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
FORMATS: dict[str, tuple[Format, Any]] = {
    "text": (Text(), lambda n: (f"{n}".encode(), f"{n}")),
    "json": (Json(), lambda n: (json.dumps({"n": n}).encode(), {"n": n})),
    "columns": (Json({"n": "int64"}), lambda n: (json.dumps({"n": n}).encode(), {"n": n})),
    "avro": (Avro(AVRO), lambda n: (bytes([2 * n % 128]), {"n": n % 64})),
    "avro columns": (
        Avro(AVRO, columns=True),
        lambda n: (bytes([2 * n % 128]), {"n": n % 64}),
    ),
}
POISON = b"\xff" * 10


def messages(kind: str, count: int, poisoned: set[int]) -> tuple[list[bytes], list[Any]]:
    """So many messages of the format, and the records of those that are not poisoned."""
    made = [FORMATS[kind][1](n) for n in range(count)]
    sent = [POISON + b"%d" % n if n in poisoned else made[n][0] for n in range(count)]
    return sent, [record for n, (_, record) in enumerate(made) if n not in poisoned]


kinds = pytest.mark.parametrize("kind", list(FORMATS))
parallelism = pytest.mark.parametrize("parallelism", [1, 3])
batch_size = pytest.mark.parametrize("batch_size", [1, 4, 100])
poisoned = pytest.mark.parametrize("bad", [set(), {0}, {9}, {3, 4}, set(range(10))], ids=str)


def result_of(*pipelines: Any, **settings: Any) -> engine.JobResult:
    config = JobConfig.of({"progress": "none", **settings})
    return JobHandle(Plan.of(list(pipelines), config), ThreadLauncher()).wait_finished()


def ordered(records: list[Any]) -> list[Any]:
    return sorted(records, key=repr)


@pytest.mark.table(5)
@kinds
@parallelism
@batch_size
@poisoned
def test_with_skip_they_are_left_out_and_counted(
    kind: str, parallelism: int, batch_size: int, bad: set[int]
) -> None:
    sent, good = messages(kind, 10, bad)
    log = source(Log(sent, FORMATS[kind][0], "skip"))
    result = result_of(
        log.to_records().sink(Collect()), parallelism=parallelism, batch_size=batch_size
    )
    assert ordered(result.outputs["collect"]) == ordered(good)
    first = result.statistics.operators[0]
    assert (first.name, first.records_in, first.records_out) == ("log", 0, len(good))
    assert first.errors == len(bad)
    assert bool(first.first_error) is bool(bad)
    assert result.statistics.source_records == len(good)


@pytest.mark.table(5)
@kinds
@parallelism
@batch_size
@poisoned
def test_with_dead_letter_they_come_out_of_the_side_output(
    kind: str, parallelism: int, batch_size: int, bad: set[int]
) -> None:
    sent, good = messages(kind, 10, bad)
    log = source(Log(sent, FORMATS[kind][0], "dead_letter"))
    result = result_of(
        log.to_records().sink(Collect()),
        log.side("dead_letter").sink(Collect()).named("dead"),
        parallelism=parallelism,
        batch_size=batch_size,
    )
    assert ordered(result.outputs["collect"]) == ordered(good)
    dead = result.outputs["dead"]
    assert ordered([value for value, _ in dead]) == ordered([sent[n] for n in bad])
    assert all(words.startswith("DecodeError: not ") for _, words in dead)
    assert result.statistics.operators[0].errors == len(bad)


@kinds
def test_by_default_the_first_one_fails_the_job_and_is_named(kind: str) -> None:
    sent, _ = messages(kind, 10, {4})
    log = source(Log(list(enumerate(sent)), FORMATS[kind][0], layout=InLog()))
    with pytest.raises(engine.OperatorError) as raised:
        engine.testing.run(log.sink(Discard()))
    words = str(raised.value)
    assert words.startswith("operator 'log' (task log -> discard[0]) failed on record ")
    assert "Numbered(offset=4, value=b'\\xff" in words
    assert ": DecodeError: not " in words
    assert "hint: on_error='skip' leaves such messages out" in words


def test_a_source_adds_what_it_knows_to_what_is_decoded() -> None:
    sent, _ = messages("json", 4, {1})
    log = source(Log(list(enumerate(sent)), Json(), "dead_letter", InLog()))
    found = engine.testing.run(
        [log.sink(Collect()), log.side("dead_letter").sink(Collect()).named("dead")]
    )
    assert found["collect"] == [(0, {"n": 0}), (2, {"n": 2}), (3, {"n": 3})]
    [(letter, words)] = found["dead"]
    assert letter == Numbered(1, sent[1])
    assert words.startswith("DecodeError: not UTF-8")


def test_the_source_has_one_name_and_one_parallelism() -> None:
    log = source(Log([b"1", b"x"], Json(), "skip")).named("in").with_parallelism(1)
    result = result_of(log.sink(Collect()), parallelism=2)
    first = result.statistics.operators[0]
    assert (first.name, first.parallelism, first.errors) == ("in", 1, 1)


@pytest.mark.table(3)
@pytest.mark.parametrize("rate", [None, 2000.0])
@kinds
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (2, 2)])
@pytest.mark.parametrize("failure", [None, 25])
def test_a_stopped_job_goes_on_and_nothing_is_lost_or_double(
    kind: str, before: int, after: int, failure: int | None, rate: float | None, tmp_path: Path
) -> None:
    bad = {n for n in range(120) if n % 7 == 3}
    sent, good = messages(kind, 120, bad)

    def pipeline() -> list[Any]:
        log: Stream[Any] = source(Log(sent, FORMATS[kind][0], "dead_letter", rate=rate))
        return [
            log.map_batches(braked).to_records().sink(Collect()),
            log.side("dead_letter").map(lambda pair: pair[0]).sink(Collect()).named("dead"),
        ]

    outputs = run(pipeline, before, 50, failure, folder=tmp_path, batch_size=4)
    if outputs is None:
        outputs = run(pipeline, after, folder=tmp_path, batch_size=4)
    assert outputs is not None
    assert Counter(map(repr, outputs["collect"])) == Counter(map(repr, good))
    assert Counter(outputs["dead"]) == Counter(sent[n] for n in bad)


class Unlike(Log):
    """Forgets what its properties have to say."""

    @property
    def properties(self) -> Properties:
        return Properties()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Log([b"1"], "json"), "format is 'json', expected a format"),
        (lambda: Log([b"1"], Json), "format is <class 'operators.formats"),
        (lambda: Log([b"1"], Json(), "side"), "on_error is 'side', expected one of 'fail', 'skip'"),
        (
            lambda: engine.testing.run(source(Log([b"1"], Json(), "dead_letter")).sink(Discard())),
            "operator 'log' sends records that fail to its side output 'dead_letter', and nothing",
        ),
        (
            lambda: source(Log([b"1"], Json(), "skip")).side("dead_letter"),
            "side() got 'dead_letter', expected a side output: 'log' has none",
        ),
        (
            lambda: engine.testing.run(source(Unlike([b"1"], Json(), "skip")).sink(Discard())),
            "source 'unlike' has the property on_error 'fail', and the operator that follows it "
            "'skip', expected the same",
        ),
    ],
)
def test_wrong_use_is_refused(make: Any, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        make()
    assert message in str(raised.value)
