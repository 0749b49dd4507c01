"""A sink that answers requests."""

from typing import Any

from engine.gateway import Gateway, Response, gateway_in_use
from engine.graph.operator import Properties, SinkOperator, SinkWriter, TaskContext


class Respond(SinkOperator[Response]):
    """Answers the requests of an `HttpSource`: its records are what `request.reply(…)` makes.

    A request is answered once; later answers to it are dropped.
    """

    properties = Properties(answers=True)

    def open(self, _context: TaskContext) -> SinkWriter:
        """The way to the gateways."""
        return _Writer(gateway_in_use())

    def commit(self, _epoch: int, _committed: list[Any]) -> None:
        """There is nothing that the job's result could say of it."""


class _Writer(SinkWriter):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def write(self, records: list[Response]) -> None:
        if records:
            self._gateway.reply(records)
