"""One task's client of Kafka: it reads all partitions of the task, and hands each its messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

from engine.errors import CheckpointError, StorageError
from engine.graph.partitions import PartitionReader
from operators.kafka.availability import Availability
from operators.kafka.errors import storage_error
from operators.kafka.offsets import ANSWER_SECONDS, Offsets
from operators.kafka.partition import KafkaPartition
from operators.kafka.settings import import_kafka
from operators.kafka.subscription import Subscription
from operators.kafka.topic_ids import NO_TOPIC, topic_ids


class KafkaReader(PartitionReader):
    """The partitions of one task.

    Invariant: messages are taken from the client only when no partition has any that it has not
    given, so few of them are held.
    """

    def __init__(self, subscription: Subscription, job: str, task: str) -> None:
        kafka = import_kafka("KafkaSource")
        self._subscription, self._task = subscription, task
        self._servers = str(subscription.settings["bootstrap.servers"])
        self.availability = Availability(f"{task}: KafkaSource", self._servers)
        self._error_of = kafka.Message.error
        self._partition_of, self._topic_of = kafka.Message.partition, kafka.Message.topic
        self._at = kafka.TopicPartition
        self._exception = kafka.KafkaException
        self._consumer = kafka.Consumer
        self._no_topic = kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
        self._missing: set[tuple[str, int]] = set()
        """Open partitions that the last answer did not have."""
        self._settings = {**_DEFAULTS, "group.id": f"oka-{job}", "client.id": task}
        self._settings |= subscription.settings | _FIXED | {"error_cb": self.availability}
        self._connect(subscription.start)
        self._open: dict[tuple[str, int], KafkaPartition] = {}
        self._of_number: dict[int, KafkaPartition | None] = {}
        """The open partition of each number; None if several topics have it."""
        self._new: list[KafkaPartition] = []
        """Open partitions that are not read yet."""
        self._waiting = 0
        """The messages that partitions have not given."""
        self._committed: dict[tuple[str, int], int] = {}
        """Final offsets that the broker does not know."""
        self._names: list[str] | None = None
        """The partitions that there were last."""

    def _connect(self, start: Any) -> None:
        try:
            self._client = self._consumer(self._settings)
        except self._exception as error:
            raise self.error("start", error.args[0]) from None
        self._offsets = Offsets(self._client, start)

    def _connect_anew(self) -> None:
        """Read on with another client. No partition has a message that it has not given."""
        self._client.close()
        self._connect(self._offsets.start)
        read = [each for each in self._open.values() if each.is_assigned and each.is_there]
        self._client.incremental_assign([self._at(*each.of, each.position[0]) for each in read])

    def restore(self, names: Iterable[str]) -> None:
        """Partitions that the checkpoint does not have are new: they are read from their start."""
        del names
        self._offsets.start = "earliest"

    def partitions(self) -> list[str]:
        """The partitions of all topics. Raises StorageError for a topic that is not there."""
        is_first = self._names is None
        if not is_first and self.availability.is_away:
            return self._names or []
        topics = self._subscription.topics
        try:
            if isinstance(topics, tuple):
                found = [self._metadata(topic, is_first) for topic in topics]
            else:
                every = self._ask(lambda: self._client.list_topics(timeout=ANSWER_SECONDS))
                found = [
                    each
                    for name, each in every.topics.items()
                    if topics.fullmatch(name) and not name.startswith("__")
                ]
            self._check_topics(self._open.values())
        except StorageError as error:
            if is_first or not error.is_away:
                raise
            return self._names or []
        self._names = [f"{each.topic}/{n}" for each in found for n in sorted(each.partitions)]
        if not is_first:
            self._offsets.start = "earliest"  # what was added meanwhile is read from its start
            self._find_deleted(set(self._names))
        return self._names

    def check(self) -> None:
        """Raise StorageError if a topic is missing, or the brokers that have it do not answer."""
        found = [name.rpartition("/") for name in self.partitions()]
        if found:
            self._ask(lambda: self._offsets.ends([(topic, int(n)) for topic, _, n in found]))

    def _metadata(self, topic: str, is_first: bool) -> Any:
        found = self._ask(lambda: self._client.list_topics(topic, ANSWER_SECONDS)).topics[topic]
        if found.error is not None and (is_first or found.error.name() not in NO_TOPIC):
            raise self.error(f"find topic {topic!r}", found.error)
        return found

    def _is_gone(self, partition: KafkaPartition) -> bool:
        """Whether the broker says that there is no such partition."""
        found = self._metadata(partition.topic, False)
        return found.error is not None or partition.number not in found.partitions

    def _check_topics(self, partitions: Collection[KafkaPartition]) -> None:
        """End or fail those whose offsets are in a topic that was there before this one."""
        topics = {each.topic for each in partitions}
        if not topics:
            return
        settings = self._subscription.settings
        ids = self._ask(lambda: topic_ids(settings, topics, ANSWER_SECONDS))
        for each in partitions:
            each.topic_id = each.topic_id or ids.get(each.topic)
            if each.is_there and each.topic_id != ids.get(each.topic, each.topic_id):
                if each.is_assigned:
                    self._client.pause([self._at(*each.of)])
                self._end_or_fail(
                    each,
                    "it was deleted, and another one of this name was made",
                    "to read that one from its start, give the source another name: .named(…), "
                    "with drop_state",
                )

    def _find_deleted(self, names: set[str]) -> None:
        """End or fail partitions that are gone; a broker that has just started may not know one."""
        missing = {of for of, each in self._open.items() if each.name not in names}
        for of in missing & self._missing:
            self._fail(self._open[of], self._no_topic)
        self._missing = missing

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The answer of a broker. Waits for one that does not answer."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return question()
            except self._exception as failed:
                error = failed.args[0]
                self._hand_out(self._client.consume(1, 0.1))  # it tells why none answers
                is_unsure = error.name() in _UNSURE  # the client may have looked nowhere
                if not (self.availability.note(error) or is_unsure) or time.monotonic() > until:
                    why = self.availability.error if is_unsure else None
                    raise self.error("reach the broker", why or error) from None
                self.availability.tell()

    def open_partition(self, name: str, position: Any) -> KafkaPartition:
        """Begin at an offset, or where the source says."""
        topic, _, number = name.rpartition("/")
        made = KafkaPartition(self, topic, int(number), position, self._subscription.values)
        self._open[made.of] = made
        self._of_number[made.number] = None if made.number in self._of_number else made
        self._new.append(made)
        return made

    def begin(self) -> None:
        """Find the offsets of the new partitions, and read on from there."""
        new, self._new = self._new, []
        names = self._names or ()
        for each in new:
            if each.name not in names and self._is_gone(each):
                self._fail(each, self._no_topic)
        self._check_topics([each for each in new if each.is_there])
        new = [each for each in new if each.is_there]
        starts = self._offsets_of([each for each in new if each.offset is None], "start")
        for each in new:
            if each.offset is None and each.of in starts:
                each.offset = starts[each.of]
        if self._subscription.end is not None:
            ends = self._offsets_of([each for each in new if each.end is None], "end")
            for each in new:
                if each.end is None and each.of in ends:
                    each.end = ends[each.of]
        there = [each for each in new if each.is_there and each.offset is not None]
        if there:
            self._client.incremental_assign([self._at(*each.of, each.offset) for each in there])
        for each in there:
            each.is_assigned = True

    def _offsets_of(self, new: list[KafkaPartition], which: str) -> dict[tuple[str, int], int]:
        """The offset of each partition; one that is not there any more ends or fails."""
        if not new:
            return {}
        ask = self._offsets.starts if which == "start" else self._offsets.ends
        asked = self._ask(lambda: ask([each.of for each in new]))
        for each, found in zip(new, asked, strict=True):
            if found.error is not None:
                self._fail(each, found.error)
        return {(each.topic, each.partition): each.offset for each in asked if each.error is None}

    def _fail(self, partition: KafkaPartition, error: Any) -> None:
        """Note why a partition cannot be read."""
        where = _reading(partition)
        if error.name() in NO_TOPIC:
            self._end_or_fail(partition, "it is not there any more", _HINT_DELETED)
        elif error.name() == "_AUTO_OFFSET_RESET":
            low, high = self._client.get_watermark_offsets(
                self._at(*partition.of), timeout=ANSWER_SECONDS
            )
            partition.fail(
                CheckpointError(
                    f"KafkaSource could not {where} at offset {partition.offset}: its log has "
                    f"offsets from {low} to {high}, so messages are lost, or the topic is another",
                    "auto_offset_reset='earliest' or 'latest' goes on without them",
                )
            )
        else:
            partition.fail(self.error(where, error))

    def _end_or_fail(self, partition: KafkaPartition, why: str, hint: str) -> None:
        """End or fail a partition that is gone."""
        if self._subscription.on_deleted == "end":
            partition.fail(None)
            return
        what = f"KafkaSource could not {_reading(partition)}: {why}"
        partition.fail(CheckpointError(what, hint))

    def fetch(self, limit: int) -> None:
        """Hand out the next messages of all partitions, unless some have not been given."""
        if self._waiting:
            return
        if self._new:
            self.begin()
        if self._committed:
            self._commit()
        self._hand_out(self._client.consume(limit, 0))

    def _hand_out(self, messages: list[Any]) -> None:
        if not messages:
            return
        if any(map(self._error_of, messages)):
            messages = self._without_errors(messages)
            if not messages:
                return
        self.availability.answers()
        self._waiting += len(messages)
        numbers = list(map(self._partition_of, messages))
        first = self._of_number.get(numbers[0])
        if first is not None and numbers.count(numbers[0]) == len(numbers):
            first.waiting += messages
            return
        topics = map(self._topic_of, messages)
        for of, message in zip(zip(topics, numbers, strict=True), messages, strict=True):
            self._open[of].waiting.append(message)

    def _without_errors(self, messages: list[Any]) -> list[Any]:
        """The messages; errors among them go to their partitions."""
        found = []
        for message in messages:
            error = message.error()
            partition = self._open.get((message.topic(), message.partition()))
            if error is None:
                if partition is not None:
                    found.append(message)
            elif error.name() == "_PARTITION_EOF":
                self.availability.answers()
                if partition is not None:
                    partition.reached = max(partition.reached, message.offset())
            elif partition is not None and error.name() not in _PASSING:
                self._fail(partition, error)
            elif partition is None and not error.retriable() and error.name() not in _PASSING:
                raise self.error("read", error)
        return found

    def given(self, count: int) -> None:
        """Note that a partition has given so many."""
        self._waiting -= count

    def wait(self, seconds: float) -> None:
        """Wait for a message of any partition."""
        if self._waiting or self._new:
            return
        if self._committed:
            self._commit()
        if first := self._client.consume(1, seconds):
            self._hand_out(first + self._client.consume(_TOGETHER, 0))
        self.availability.look(lambda: self._client.list_topics("", _LOOK_SECONDS))
        if not self._waiting and self.availability.is_renewal_due():
            self._connect_anew()

    def lag(self, partition: KafkaPartition, offset: int) -> int | None:
        """The messages behind the offset, as the last answer of the broker had it."""
        found = self._client.get_watermark_offsets(self._at(*partition.of), cached=True)
        return None if found is None or found[1] < 0 else max(0, int(found[1]) - offset)

    def committed(self, partition: KafkaPartition, offset: int) -> None:
        """Have the broker told, with the next request."""
        self._committed[partition.of] = offset

    def _commit(self) -> None:
        """Tell the broker of final offsets; nobody depends on it, so it may fail."""
        offsets = [self._at(*of, offset) for of, offset in self._committed.items()]
        self._committed.clear()
        with suppress(self._exception):
            self._client.commit(offsets=offsets, asynchronous=True)

    def forget(self, partition: KafkaPartition) -> None:
        """Read no more of a partition."""
        if self._open.pop(partition.of, None) is None:
            return
        if self._of_number.get(partition.number) is partition:
            del self._of_number[partition.number]
        self._waiting -= len(partition.waiting)
        if partition in self._new:
            self._new.remove(partition)
        if partition.is_assigned:
            self._client.incremental_unassign([self._at(*partition.of)])

    def close(self) -> None:
        """Tell the broker of the last offsets, and disconnect."""
        if self._committed:
            self._commit()
        self._client.close()
        del self._client, self._offsets  # a client ends with the last reference to it

    def error(self, what: str, error: Any) -> StorageError:
        """The engine's error for one of Kafka's."""
        told = f"KafkaSource could not {what}"
        return storage_error(told, error, self._servers, self.availability)


def _reading(partition: KafkaPartition) -> str:
    return f"read partition {partition.number} of topic {partition.topic!r}"


_DEFAULTS = {
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "fetch.queue.backoff.ms": 10,  # with a full queue it asked again a second later: 4x slower
    "reconnect.backoff.max.ms": 2000,
    "log_level": 2,  # the errors come by `error_cb`, too
}
_FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}
_PATIENCE_SECONDS = 15.0
"""The longest wait for a broker, at the start and where offsets are unknown."""
_LOOK_SECONDS = 0.2
_TOGETHER = 999
"""Messages that are taken at once with the first that comes."""
_HINT_DELETED = "if the topic was deleted on purpose, on_deleted='end' goes on without it"
_UNSURE = ("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC")
_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_WAIT_COORD")
"""Errors of connections, which the client makes again."""
