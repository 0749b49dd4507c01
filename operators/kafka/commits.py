"""Epochs of messages that become final once, whoever commits them, and however often.

`prepare` stages an epoch: its encoded messages go into the checkpoint. `commit` sends them and the
writer's new mark in one transaction, after a look at the mark. The transaction is of the writer's
id, so whoever begins with that id ends whatever another process still had open.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from engine.errors import CheckpointError
from engine.state import decode_value, encode_value, trust
from operators.kafka.commit_table import TABLE, Mark, Marks
from operators.kafka.messages import Message, Parts, messages_of
from operators.kafka.producer import PATIENCE_SECONDS
from operators.sinks.gathered import restored


class Transactions(Protocol):
    """A producer of transactions."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str | None, messages: list[Message], size: int, /) -> None:
        """Send messages in it."""

    def flush(self, seconds: float = ...) -> None:
        """Wait until they have arrived."""

    def commit(self) -> None:
        """Commit it."""

    def close(self) -> None:
        """Give it up."""


@dataclass(frozen=True)
class Staged:
    """The messages of a writer in one epoch."""

    writer: str
    index: int
    """That of the writer's task."""
    topic: str | None
    """The topic of all messages; None: each says its own."""
    content: str = ""
    batches: tuple[bytes, ...] = ()
    """The results of `stage`; those of older checkpoints are pairs of the records' number and
    their bytes."""

    def with_batches(self, batches: Sequence[bytes]) -> Staged:
        """The next epoch of the writer."""
        return replace(self, content=secrets.token_hex(8), batches=tuple(batches))

    def record(self) -> tuple[Any, ...]:
        """In the form of checkpoints."""
        return self.writer, self.index, self.topic, self.content, self.batches

    @classmethod
    def of(cls, record: Sequence[Any]) -> Staged:
        """From `record`, or what a checkpoint makes of it."""
        return cls(*record)


def stage(messages: list[Parts]) -> bytes:
    """A batch of messages as checkpoints keep it."""
    return encode_value(messages, pickle=False)


def _messages(batch: Any) -> tuple[list[Message], int]:
    """The messages of a batch, and its bytes."""
    if isinstance(batch, tuple):
        return restored(batch).to_list(), len(batch[1])
    trust.check("what KafkaSink has staged", batch)
    return [message for parts in decode_value(batch) for message in messages_of(parts)], len(batch)


class Commits:
    """The commits of one writer. One thread at a time.

    After an error it begins anew: only the mark tells whether a transaction was committed.
    """

    def __init__(
        self,
        writer: str,
        connect: Callable[[str], Transactions],
        marks: Marks,
        staged: Mapping[int, Staged] = MappingProxyType({}),
        *,
        is_new: bool = False,
    ) -> None:
        """`connect` makes a producer of the writer's id. A new writer has no mark.

        `staged` are epochs of a checkpoint, each of which may be committed.
        """
        self._writer = writer
        self._connect = connect
        self._marks = marks
        self._contents = {epoch: each.content for epoch, each in staged.items()}
        self._mark = _NONE if is_new else None
        """None where somebody else may have set it."""
        self._producer: Transactions | None = None

    def take_over(self) -> None:
        """End what others have open in this writer's name. Raises StorageError."""
        if self._producer is None:
            self._producer = self._connect(self._writer)

    def begin(self) -> Mark:
        """The writer's mark, once it has taken over. Raises StorageError."""
        self.take_over()
        if self._mark is None:
            try:
                self._mark = self._marks.read(self._writer) or _NONE
            except BaseException:
                self.close()
                raise
        return self._mark

    def commit(self, epoch: int, staged: Staged) -> None:
        """Make the epoch final, if it is not.

        Raises StorageError if that is not known, CheckpointError if the mark is not of this job.
        """
        if not staged.batches:
            return
        self._contents[epoch] = staged.content
        try:
            done = self._done(epoch)
            while done < len(staged.batches):
                done = self._commit_from(done, epoch, staged)
        except BaseException:
            self.close()
            raise
        del self._contents[epoch]

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._producer is not None:
            self._producer.close()
            self._producer = self._mark = None

    def _done(self, epoch: int) -> float:
        """The number of the epoch's batches that are final."""
        mark = self.begin()
        if mark.epoch < epoch:
            return 0
        if self._contents.get(mark.epoch) != mark.content:
            raise CheckpointError(
                f"topic {TABLE!r} has another epoch {mark.epoch} of {self._writer!r}, where epoch "
                f"{epoch} is to be committed: another job goes on from a copy of these checkpoints",
                "a job on a copy needs a sink of another name: .named(…), with drop_state",
            )
        return mark.batches if mark.epoch == epoch else math.inf

    def _commit_from(self, first: float, epoch: int, staged: Staged) -> int:
        """Commit batches in one transaction; returns the number of those that are final now.

        It takes a few at a time, as a transaction has to end before its timeout. The mark comes
        last: readers of the table wait for whatever is open in it.
        """
        producer, place, size = self._producer, int(first), 0
        assert producer is not None
        producer.begin()
        while place < len(staged.batches) and size < _TRANSACTION_BYTES:
            messages, length = _messages(staged.batches[place])
            producer.send(staged.topic, messages, length)
            size += length
            place += 1
        producer.flush(PATIENCE_SECONDS)
        mark = Mark(epoch, place, staged.content)
        producer.send(TABLE, [mark.message(self._writer)], 0)
        producer.commit()
        self._mark = mark
        return place


_NONE = Mark(0, 0, "")
_TRANSACTION_BYTES = 32 << 20
