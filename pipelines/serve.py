"""Requests over HTTP: servers that only answer.

`oka run pipelines/serve.py port=8000` serves until Ctrl-C, in one task that reads requests and
answers them. With `tasks=2` other tasks do the work: each batch goes to one of them by a channel,
and its answers go back to the gateway. `apart=true` has one process for the gateway and one that
answers. In `pipelines/serve.py:ensemble` ten operators, in as many tasks, process each request, and
make one answer together. `pipelines/serve.py:hops` has ten operators in two paths, and a request
takes the path of its user.
"""

from __future__ import annotations

from functools import partial

from engine.gateway import Request, Response
from operators import Pipeline, Stream, combine, source
from operators.sources import HttpSource


def serve(port: int = 8000, tasks: int = 1, apart: bool = False) -> Pipeline:
    """Answer each request with "ok"; apart: never in the gateway's process."""
    requests = source(HttpSource(port)).on_nodes(0)
    if apart:
        requests = requests.rebalance()
    return requests.map(answer).with_parallelism(tasks).on_nodes(0).respond()


def ensemble(port: int = 8000, models: int = 10) -> Pipeline:
    """Send each request to so many operators in tasks of their own; answer with the sum."""
    requests = source(HttpSource(port)).on_nodes(0)
    votes = [requests.map(partial(vote, number)).on_nodes(0) for number in range(models)]
    return combine(*votes).map(total).on_nodes(0).respond()


def hops(port: int = 8000, paths: int = 2, length: int = 5) -> Pipeline:
    """Send each request along one of the paths, over so many operators in tasks of their own."""
    requests = source(HttpSource(port)).on_nodes(0)
    ends: list[Stream[Request]] = []
    for path in range(paths):
        stream = requests.filter(partial(is_on, path, paths))
        for _ in range(length):
            stream = stream.rebalance().map(passed_on).on_nodes(0)
        ends.append(stream)
    return ends[0].union(*ends[1:]).map(answer).on_nodes(0).respond()


def is_on(path: int, paths: int, request: Request) -> bool:
    """Whether the request goes along this path."""
    return int(request.query.get("user", "0")) % paths == path


def passed_on(request: Request) -> Request:
    """The result of an operator on the path."""
    return request


def vote(number: int, request: Request) -> tuple[Request, int]:
    """The part of one of the operators."""
    return request, number


def total(votes: tuple[Request, tuple[int, ...]]) -> Response:
    """The answer from all parts."""
    request, numbers = votes
    return request.reply(sum(numbers))


def answer(request: Request) -> Response:
    """The answer to every request."""
    return request.reply("ok")
