"""A pipeline with 1 ms of work for each request, which can be overloaded."""

from __future__ import annotations

import time
from functools import partial

from engine.gateway import Request, Response
from operators import Pipeline, source
from operators.sources import HttpSource


def busy(port: int = 8000, work_ms: float = 1.0, max_in_flight: int = 64) -> Pipeline:
    """Compute so long for each request, in another process than the gateway's."""
    requests = source(HttpSource(port, max_in_flight=max_in_flight)).on_nodes(0)
    answer = partial(computed, work_ms)
    return requests.rebalance().map(answer).with_parallelism(1).on_nodes(0).respond()


def computed(work_ms: float, request: Request) -> Response:
    """An answer that takes so much CPU time."""
    end = time.perf_counter() + work_ms / 1000
    while time.perf_counter() < end:
        pass
    return request.reply("ok")
