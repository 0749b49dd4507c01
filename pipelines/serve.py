"""Requests over HTTP: what a server does that does nothing but answer.

`oka run pipelines/serve.py port=8000` serves until Ctrl-C, in one task that takes requests and
answers them. With `tasks=2` others do the work: each batch goes to one of them by a channel, and
its answers back to the gateway; `apart=true` has a process for the gateway and one that answers.
`oka run pipelines/serve.py:ensemble` has ten operators, in as many
tasks, look at each request, and one answer of what they say; `pipelines/serve.py:hops` has ten in
two paths, of which a request goes along the one that its user is on.
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
    """Ask so many operators, each in a task of its own; answer with the sum of what they say."""
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
    """What an operator on the way makes of it."""
    return request


def vote(number: int, request: Request) -> tuple[Request, int]:
    """What one of the operators says."""
    return request, number


def total(votes: tuple[Request, tuple[int, ...]]) -> Response:
    """What they say together."""
    request, numbers = votes
    return request.reply(sum(numbers))


def answer(request: Request) -> Response:
    """What every request is told."""
    return request.reply("ok")
