"""The writers of `KafkaSink`: one sends at once, the other stages epochs."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from engine.errors import CheckpointError, StorageError
from engine.graph.context import TaskContext
from engine.graph.sink import SinkWriter
from operators.kafka.commit_table import CommitTable
from operators.kafka.commits import Commits, Staged, stage
from operators.kafka.errors import HINT_TOO_LARGE
from operators.kafka.messages import MessageForm, Messages, Parts, messages_of, size
from operators.kafka.producer import PATIENCE_SECONDS, Producer
from operators.kafka.topics import Topics


class Output(NamedTuple):
    """What is written to Kafka."""

    form: MessageForm
    settings: Mapping[str, Any]
    """The client's."""
    partitions: int | None
    """Those of a topic that is made if it is missing."""


class _Writer(SinkWriter):
    """What both do: records become messages that the broker will take."""

    def __init__(self, output: Output, context: TaskContext) -> None:
        form, settings, partitions = output
        self._context = context
        self._topics = topics = Topics(settings)
        self._encode = form.encoder(topics.partitions)
        self._is_plain = form.is_plain
        self._topic = form.topic if isinstance(form.topic, str) else None
        most = int(settings.get("message.max.bytes", _MESSAGE_BYTES))
        if self._topic is not None:
            if partitions is not None:
                topics.make(self._topic, partitions)
            topics.partitions(self._topic)
            most = min(most, int(topics.settings(self._topic).get("max.message.bytes", most)))
        self._most = most
        self._settings = {**settings, "message.max.bytes": most}
        self._table = CommitTable(self._settings, topics)
        self._connect = partial(Producer, self._settings)

    def _messages(self, records: Any) -> Messages:
        """The messages of a batch; ValueError for one that is too large."""
        messages = self._encode(records, self._context.failing)
        if messages.largest > self._most:
            self._check(records, messages.parts)
        return messages

    def _check(self, records: Any, parts: Parts) -> None:
        for place, message in enumerate(messages_of(parts)):
            if size(message) > self._most:
                if isinstance(records, list):
                    self._context.failing.on(records[place])
                raise ValueError(
                    f"its message has {size(message)} bytes, expected at most {self._most}\n\n"
                    f"hint: {HINT_TOO_LARGE}"
                )

    def _commit_earlier(self, prepared: Iterable[tuple[int, Any]], epoch: int) -> list[_Earlier]:
        """Commit what earlier writers had staged up to this epoch; their ids and commits.

        It first ends what each of them had open: who reads the table waits for all transactions.
        """
        by_writer: dict[str, dict[int, Staged]] = {}
        for number, record in prepared:
            if record is not None:
                staged = Staged.of(record)
                by_writer.setdefault(staged.writer, {})[number] = staged
        earlier = [
            (Commits(writer, self._connect, self._table, epochs), epochs)
            for writer, epochs in by_writer.items()
        ]
        for commits, _ in earlier:
            commits.take_over()
        for commits, epochs in earlier:
            self._check_before(epoch, commits.begin().epoch)
            for number, staged in epochs.items():
                if number > self._context.committed:
                    commits.commit(number, staged)
        return [(next(iter(epochs.values())), commits) for commits, epochs in earlier]

    def _check_before(self, epoch: int, committed: int) -> None:
        if committed > epoch:
            raise CheckpointError(
                f"topic {self._topic!r} has output of epoch {committed}, behind epoch {epoch}, "
                "which the job goes on from, expected none: it would be there twice",
                "go on from the last epoch; or, to write it again, name the sink anew by "
                f".named(…), with drop_state={[self._context.identity]!r}",
            )

    def abort(self) -> None:
        """Disconnect; what has not arrived is dropped."""
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._topics.close()


class SendingWriter(_Writer):
    """Sends as records come, at least once: all have arrived when a checkpoint or the job ends."""

    def __init__(self, output: Output, context: TaskContext) -> None:
        super().__init__(output, context)
        self._producer = Producer(self._settings)

    def write(self, records: Any) -> None:
        """Send a message for each record."""
        messages = self._messages(records)
        topic = self._topic if self._is_plain else None
        self._producer.send(topic, messages_of(messages.parts), messages.size)

    def prepare(self, _epoch: int) -> None:
        """Wait until all have arrived; with checkpoints not for long: the next try goes on."""
        if self._context.checkpoints:
            self._producer.flush(PATIENCE_SECONDS)
        else:
            self._producer.flush()

    def restore(self, epoch: int, prepared: list[tuple[int, Any]]) -> None:
        """Commit what is staged, of a job that was exactly once before."""
        for _, commits in self._commit_earlier(prepared, epoch):
            commits.close()

    def close(self) -> None:
        """Disconnect."""
        self._producer.close()
        super().close()


class StagingWriter(_Writer):
    """Stages epochs: exactly once.

    A task that stages faster than brokers take it waits for the epoch that is on its way, so a
    task holds a bounded part of what comes.
    """

    def __init__(self, output: Output, context: TaskContext) -> None:
        super().__init__(output, context)
        self._table.make()
        of_task = (
            f"oka-{context.job_name}-{context.identity}-{secrets.token_hex(8)}-{context.index}"
        )
        self._staged = Staged(of_task, context.index, self._topic if self._is_plain else None)
        self._commits = Commits(of_task, self._connect, self._table, is_new=True)
        self._waiting: list[Parts] = []
        """Messages that are no batch yet."""
        self._waiting_bytes = 0
        self._batches: list[bytes] = []
        self._size = 0
        self._committing = threading.Lock()
        """Held while an epoch is made final."""
        self._is_late = False
        """Whether the broker was away when an epoch was to be final."""

    def restore(self, epoch: int, prepared: list[tuple[int, Any]]) -> None:
        """Commit what is staged, of all writers whose indexes are this task's now."""
        for staged, commits in self._commit_earlier(prepared, epoch):
            if staged.index == self._context.index:  # this one goes on under its id
                self._staged = replace(self._staged, writer=staged.writer)
                self._commits = commits
            else:
                commits.close()
        self._commits.begin()  # whatever forbids it is told now

    def write(self, records: Any) -> None:
        """Keep a message for each record."""
        messages = self._messages(records)
        self._waiting.append(messages.parts)
        self._waiting_bytes += messages.size + len(records)
        if self._waiting_bytes >= _BATCH_BYTES:
            self._stage()
        if self._size > _MOST_AHEAD_BYTES:
            with self._committing:  # never for an epoch that is not stored: its barrier comes here
                pass
        if self._is_late and self._size > _MOST_LATE_BYTES:
            raise StorageError(
                f"KafkaSink has {self._size >> 20} MiB for topic {self._topic!r}, and the epoch "
                "before waits for a broker that does not answer",
                code="Unreachable",
            )

    def prepare(self, _epoch: int) -> tuple[Any, ...]:
        """The messages of the epoch."""
        self._stage()
        staged = self._staged.with_batches(self._batches)
        self._batches, self._size = [], 0
        return staged.record()

    def _stage(self) -> None:
        if self._waiting:
            self._batches.append(stage(self._waiting))
            self._size += len(self._batches[-1])
            self._waiting, self._waiting_bytes = [], 0

    def commit(self, epoch: int, prepared: tuple[Any, ...]) -> None:
        """Send the messages of the epoch, unless they are final."""
        try:
            with self._committing:
                self._commits.commit(epoch, Staged.of(prepared))
            self._is_late = False
        except StorageError as error:
            self._is_late = error.is_away
            raise

    def close(self) -> None:
        """Disconnect."""
        self._commits.close()
        super().close()


_Earlier: TypeAlias = tuple[Staged, Commits]
_MESSAGE_BYTES = 1_000_000
"""librdkafka's own limit."""
_BATCH_BYTES = 1 << 19
_MOST_AHEAD_BYTES = 128 << 20
"""A task that has staged more waits while the epoch before is made final."""
_MOST_LATE_BYTES = 1 << 30
"""A task that stages more, while the broker is away, begins again and waits."""
