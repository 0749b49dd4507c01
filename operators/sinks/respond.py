"""A sink that answers requests."""

from typing import Any

from engine.columns import is_columns
from engine.gateway import Gateway, Response, gateway_in_use, responses_of
from engine.graph.operator import Properties, SinkOperator, SinkWriter, TaskContext


class Respond(SinkOperator[Response]):
    """Answers the requests of an `HttpSource`: its records are what `request.reply(…)` makes.

    Rows of columns with `_request` are answered with what else is in them, as JSON. A request is
    answered once; later answers to it are dropped.
    """

    properties = Properties(answers=True, accepts_columns=True)

    def open(self, _context: TaskContext) -> SinkWriter:
        """The way to the gateways."""
        return _Writer(gateway_in_use())

    def commit(self, _epoch: int, _committed: list[Any]) -> None:
        """There is nothing that the job's result could say of it."""


class _Writer(SinkWriter):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def write(self, records: Any) -> None:
        """A list of responses, or columns."""
        if is_columns(records):
            records = responses_of(records, self._gateway.rescue)
        if records:
            self._gateway.reply(records)
