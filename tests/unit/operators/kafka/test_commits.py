"""Epochs of `KafkaSink` become final once, wherever a process ends and whoever goes on."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import CheckpointError, StorageError
from engine.network import Batch
from engine.state import decode_value, encode_value
from operators.kafka import commits as module
from operators.kafka.commit_table import TABLE, Mark
from operators.kafka.commits import Commits, Staged, stage
from operators.kafka.messages import messages_of
from operators.sinks.gathered import encoded

WRITER = "oka-job-sink-token-0"


class Killed(BaseException):
    """The process has ended."""


class FakeBroker:
    """Transactions as Kafka has them: of an id, the last producer that began, and nobody else."""

    def __init__(self) -> None:
        self.final: list[tuple[str, Any]] = []
        self.owner: dict[str, FakeProducer] = {}
        self.before_step: Callable[[str], None] = lambda _: None
        self.after_commit: Callable[[], None] = lambda: None
        self.transactions = 0

    def connect(self, writer: str) -> FakeProducer:
        self.before_step("connect")
        self.owner[writer] = producer = FakeProducer(self, writer)
        return producer

    def read(self, writer: str) -> Mark | None:
        self.before_step("read")
        found = [each for topic, each in self.final if topic == TABLE]
        marks = [json.loads(each["value"]) for each in found if each["key"] == writer.encode()]
        return Mark(**marks[-1]) if marks else None

    def values(self) -> list[bytes]:
        return [each["value"] for topic, each in self.final if topic != TABLE]


class FakeProducer:
    def __init__(self, broker: FakeBroker, writer: str) -> None:
        self._broker, self._writer = broker, writer
        self._open: list[tuple[str, Any]] = []

    def _step(self, name: str) -> None:
        self._broker.before_step(name)
        if self._broker.owner[self._writer] is not self:
            raise StorageError("fenced", code="_FENCED")

    def begin(self) -> None:
        self._step("begin")
        self._open = []

    def send(self, topic: str | None, messages: list[Any], size: int) -> None:
        self._step("send")
        self._open += [(topic or "?", each) for each in messages]

    def flush(self, seconds: float = 0.0) -> None:
        self._step("flush")

    def commit(self) -> None:
        self._step("commit")
        self._broker.final += self._open
        self._broker.transactions += 1
        self._broker.after_commit()

    def close(self) -> None:
        return


def staged(epoch: int, batches: int = 3, each: int = 2) -> Staged:
    names = [f"{epoch}-{number}".encode() for number in range(batches * each)]
    cut = [stage([(None, names[at : at + each])]) for at in range(0, len(names), each)]
    return Staged(WRITER, 0, "topic", f"content {epoch}", tuple(cut))


EPOCHS = {4: staged(4), 7: Staged(WRITER, 0, "topic", "empty"), 8: staged(8)}
WANTED = [f"{epoch}-{number}".encode() for epoch in (4, 8) for number in range(6)]


def commit_all(broker: FakeBroker, *, is_new: bool = False) -> None:
    """What a writer does that begins with these epochs, perhaps in another process."""
    commits = Commits(WRITER, broker.connect, broker, EPOCHS, is_new=is_new)
    commits.begin()
    for epoch, each in EPOCHS.items():
        commits.commit(epoch, each)


@pytest.fixture(params=["one transaction", "one for each batch"], autouse=True)
def transactions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of transactions that the epochs take."""
    if request.param == "one transaction":
        return 2
    monkeypatch.setattr(module, "_TRANSACTION_BYTES", 1)
    return 6


def test_epochs_are_committed_in_order_each_once(transactions: int) -> None:
    broker = FakeBroker()
    for _ in range(3):
        commit_all(broker)
    assert broker.values() == WANTED
    assert broker.transactions == transactions


def test_an_epoch_is_committed_once_however_often_it_is_said() -> None:
    broker = FakeBroker()
    commits = Commits(WRITER, broker.connect, broker, is_new=True)
    for epoch in (4, 4, 8, 8):
        commits.commit(epoch, EPOCHS[epoch])
    assert broker.values() == WANTED


@pytest.mark.parametrize("kills", [1, 2])
def test_a_process_that_ends_at_any_step_loses_and_doubles_nothing(kills: int) -> None:
    steps = 0
    for moments in itertools.product(range(40), repeat=kills):
        broker = FakeBroker()
        was_killed = False
        for moment in moments:
            kill_at(broker, moment)
            try:
                commit_all(broker)
            except Killed:
                was_killed = True
        broker.before_step, broker.after_commit = lambda _: None, lambda: None
        commit_all(broker)
        assert broker.values() == WANTED, moments
        steps += was_killed
    assert steps > 10


def kill_at(broker: FakeBroker, moment: int) -> None:
    """End the process in front of this step, or behind a commit of which it hears nothing."""
    count = itertools.count()

    def step(*_: object) -> None:
        if next(count) == moment:
            raise Killed

    broker.before_step = broker.after_commit = step


def test_an_error_at_any_step_is_tried_again_in_the_same_process() -> None:
    failed = 0
    for moment in range(40):
        broker = FakeBroker()
        count = itertools.count()

        def step(*_: object, count: Any = count, moment: int = moment) -> None:
            if next(count) == moment:
                raise StorageError("no answer", code="Unreachable")

        broker.before_step = broker.after_commit = step
        commits = Commits(WRITER, broker.connect, broker, is_new=True)
        for epoch, each in EPOCHS.items():
            try:
                commits.commit(epoch, each)
            except StorageError:
                failed += 1
                commits.commit(epoch, each)
        assert broker.values() == WANTED, moment
    assert failed > 10


def test_a_process_that_was_thought_dead_doubles_nothing_at_any_step() -> None:
    outcomes: Counter[str] = Counter()
    for moment in range(40):
        broker = FakeBroker()
        count = itertools.count()

        def step(*_: object, count: Any = count, moment: int = moment, to: Any = broker) -> None:
            if next(count) == moment:
                commit_all(to)

        broker.before_step = broker.after_commit = step
        try:
            commit_all(broker)
            outcomes["goes on"] += 1
        except StorageError as error:
            outcomes[str(error.code)] += 1
        assert broker.values() == WANTED, moment
    assert outcomes.keys() == {"goes on", "_FENCED"}


def test_a_job_on_a_copy_of_the_checkpoints_is_refused() -> None:
    broker = FakeBroker()
    commits = Commits(WRITER, broker.connect, broker, is_new=True)
    commits.commit(4, EPOCHS[4])
    copy = Commits(WRITER, broker.connect, broker, EPOCHS)
    copy.commit(4, EPOCHS[4])
    other = Staged(WRITER, 0, "topic", "of the copy", EPOCHS[8].batches)
    copy.commit(8, other)
    with pytest.raises(StorageError, match="fenced"):
        commits.commit(8, EPOCHS[8])
    with pytest.raises(CheckpointError, match="a copy of these checkpoints"):
        commits.commit(8, EPOCHS[8])
    with pytest.raises(CheckpointError, match="a copy of these checkpoints"):
        commits.commit(6, EPOCHS[4])


HEADERS = [[("name", b"value"), ("none", None)], None]


@pytest.mark.parametrize(
    "parts",
    [
        (None, [b"one", None]),
        ([b"key", None], [b"one", b"two" * 50_000]),
        (
            [b"key", None],
            [b"one", None],
            ["here", "there"],
            [-1, 3],
            [0, 1_700_000_000_000],
            HEADERS,
        ),
    ],
)
def test_messages_are_sent_as_they_were_staged(parts: Any) -> None:
    broker = FakeBroker()
    messages = messages_of(parts)
    older = encoded(Batch.from_list(messages))  # as checkpoints kept them before
    each = Staged(WRITER, 0, None, "content", (stage([parts, parts]), older))
    restored = Staged.of(decode_value(encode_value(each.record(), pickle=False)))
    for number, staged in enumerate((each, restored)):
        commits = Commits(f"{WRITER}{number}", broker.connect, broker, is_new=True)
        commits.commit(1, staged)
    sent = [message for topic, message in broker.final if topic != TABLE]
    assert sent == messages * 6
