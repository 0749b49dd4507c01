"""The operator that decodes a source's messages, behind it in the same tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator, PureFunction
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from operators.formats.format import Format, Rejected

OnMessageError: TypeAlias = Literal["fail", "skip", "dead_letter"]
"""The treatment of a message that cannot be decoded: "fail" ends the job, "skip" leaves it out and
counts it, "dead_letter" counts it and sends (message, error) to the side output of that name."""


class Messages:
    """How a source's messages are put together; these are bytes alone. It is pickled."""

    def values(self, messages: list[Any]) -> list[bytes | None]:
        """The bytes of each."""
        return messages

    def record(self, message: Any) -> Any:
        """The message as a record that can travel, for the side output and the error."""
        return message

    def joined(self, messages: list[Any], decoded: Any) -> Any:
        """The records of these messages, which have been decoded to a list or to columns."""
        del messages
        return decoded


@dataclass(frozen=True)
class Decode(BatchOperator):
    """Decodes messages; a source is `followed_by` it, and has its properties.

    One that polls lists of bytes needs no more:

        @property
        def followed_by(self):
            return Decode(self.format, self.on_error)

        @property
        def properties(self):
            return self.followed_by.properties
    """

    format: Format
    on_error: OnMessageError = "fail"
    messages: Messages = field(default_factory=Messages)

    def __post_init__(self) -> None:
        if not isinstance(self.format, Format):
            raise GraphError(
                f"format is {self.format!r:.80}, expected a format",
                hint="those of operators.formats are objects, such as Json(), Text() and Bytes()",
            )
        if self.on_error not in get_args(OnMessageError):
            words = ", ".join(map(repr, get_args(OnMessageError)))
            raise GraphError(f"on_error is {self.on_error!r:.80}, expected one of {words}")

    @property
    def properties(self) -> Properties:
        """The treatment of messages that are rejected, and whether columns come out."""
        return Properties(
            on_error="side" if self.on_error == "dead_letter" else self.on_error,
            errors=DEAD_LETTER,
            accepts_columns=self.format.emits_columns,
            emits_columns=self.format.emits_columns,
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The format's decoder, with the treatment of what it rejects."""
        decode, messages = self.format.decoder(), self.messages
        reject = _rejecting(context)

        def process(batch: list[Any]) -> Any:
            decoded, rejected = decode(messages.values(batch))
            if rejected:
                for place, error in rejected:
                    reject(messages.record(batch[place]), error)
                batch = _without(batch, rejected)
            return messages.joined(batch, decoded)

        return PureFunction(process)


def _rejecting(context: TaskContext) -> Callable[[Any, Exception], None]:
    rescue = context.rescue
    if rescue is not None:
        return rescue

    def fail(record: Any, error: Exception) -> None:
        context.failing.on(record)
        raise type(error)(f"{error}\n\nhint: {_HINT}") from None

    return fail


def _without(batch: list[Any], rejected: Rejected) -> list[Any]:
    places = {place for place, _ in rejected}
    return [each for place, each in enumerate(batch) if place not in places]


DEAD_LETTER = "dead_letter"
_HINT = (
    "on_error='skip' leaves such messages out and counts them; on_error='dead_letter' sends them "
    "to .side('dead_letter')"
)
