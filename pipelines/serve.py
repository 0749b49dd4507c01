"""Requests over HTTP: what a server does that does nothing but answer.

`oka run pipelines/serve.py port=8000` serves until Ctrl-C, in one task that takes requests and
answers them. With `tasks=2` others do the work: each batch goes to one of them by a channel, and
its answers back to the gateway.
"""

from __future__ import annotations

from engine.gateway import Request, Response
from operators import Pipeline, source
from operators.sources import HttpSource


def serve(port: int = 8000, tasks: int = 1) -> Pipeline:
    """Answer each request with "ok"."""
    requests = source(HttpSource(port)).on_nodes(0)
    return requests.map(answer).with_parallelism(tasks).on_nodes(0).respond()


def answer(request: Request) -> Response:
    """What every request is told."""
    return request.reply("ok")
