"""Requests over HTTP that go through a dataflow.

A task that begins in a source of requests has a gateway: a server in Rust with a thread of its own,
in which requests wait to be taken in batches. What operators make of a `Request` is a `Response`,
which goes back to the gateway beside the graph: at once where both are in one task, else over a
local socket.
"""

from engine.gateway.columns import (
    check_answer,
    columns_of_requests,
    is_schema,
    responses_of,
    row_of,
)
from engine.gateway.request import Request, Response
from engine.gateway.service import Gateway, GatewaySettings, Responder, gateway_in_use

__all__ = [
    "Gateway",
    "GatewaySettings",
    "Request",
    "Responder",
    "Response",
    "check_answer",
    "columns_of_requests",
    "gateway_in_use",
    "is_schema",
    "responses_of",
    "row_of",
]
