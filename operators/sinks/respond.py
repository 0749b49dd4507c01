"""A sink that answers requests."""

import logging
from typing import Any

from engine.columns import is_columns
from engine.gateway import Gateway, Responder, Response, check_answer, gateway_in_use, responses_of
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter

logger = logging.getLogger("oka")


class Respond(SinkOperator[Response]):
    """Answers the requests of an `HttpSource`: its records are results of `request.reply(…)`.

    Rows of columns with `_request` are answered with their other columns, as JSON. A request is
    answered once; later answers are dropped. A record that is no answer is logged, and does not end
    the job; its request in the operator right before gets a 500.
    """

    properties = Properties(services=(Responder(),), accepts_columns=True, check=check_answer)

    def open(self, _context: TaskContext) -> SinkWriter:
        """A writer to the gateways of this worker."""
        return _Writer(gateway_in_use())

    def commit(self, _epoch: int, _committed: list[Any]) -> None:
        """Nothing: the job's result does not include answers."""


class _Writer(SinkWriter):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def write(self, records: Any) -> None:
        """A list of responses, or columns."""
        if is_columns(records):
            try:
                records = responses_of(records, self._gateway.rescue)
            except TypeError as error:
                logger.error(f"{records.num_rows} rows are left out: {error}")
                return
        if records:
            self._gateway.reply(records)
