"""Ray Serve in a local Ray: `serve_ray.py PORT CASE`. The environment sets its mode.

As in `pipelines/serve.py`, `hops` has ten deployments in two paths of five, and a request takes one
path; `ensemble` calls ten deployments at once. Each has one replica.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any

import ray
from ray import serve


class NoOp:
    """Answers."""

    async def __call__(self, _request: Any) -> str:
        """Answer each request with "ok"."""
        return "ok"


class Hop:
    """One deployment of a path: calls the next one, unless it is the last."""

    def __init__(self, following: Any = None) -> None:
        self._following = following

    async def passed_on(self, user: int) -> str:
        """The answer of the last one of the path."""
        return await self._following.passed_on.remote(user) if self._following else "ok"


class Paths:
    """Sends a request along the path of its user."""

    def __init__(self, *paths: Any) -> None:
        self._paths = paths

    async def __call__(self, request: Any) -> str:
        """Answer with the path's answer."""
        user = int(request.query_params.get("user", "0"))
        answer: str = await self._paths[user % len(self._paths)].passed_on.remote(user)
        return answer


class Vote:
    """One of an ensemble."""

    def __init__(self, number: int) -> None:
        self._number = number

    async def vote(self) -> int:
        """Its answer."""
        return self._number


class Ensemble:
    """Calls all of them at once."""

    def __init__(self, *models: Any) -> None:
        self._models = models

    async def __call__(self, _request: Any) -> str:
        """Answer with the sum of their answers."""
        votes = await asyncio.gather(*(model.vote.remote() for model in self._models))
        return str(sum(votes))


def application(case: str) -> Any:
    """The deployments of a case."""
    if case == "noop":
        return deployed(NoOp).bind()
    if case == "ensemble":
        models = [deployed(Vote, f"vote-{number}").bind(number) for number in range(10)]
        return deployed(Ensemble).bind(*models)
    firsts = []
    for path in range(2):
        hop = deployed(Hop, f"hop-{path}-4").bind()
        for step in reversed(range(4)):
            hop = deployed(Hop, f"hop-{path}-{step}").bind(hop)
        firsts.append(hop)
    return deployed(Paths).bind(*firsts)


def deployed(cls: type, name: str | None = None) -> Any:
    """A deployment of one replica, also on a machine with few cores."""
    return serve.deployment(
        name=name or cls.__name__,
        max_ongoing_requests=1000,
        ray_actor_options={"num_cpus": 0},
        logging_config={"log_level": "WARNING", "enable_access_log": False},
    )(cls)


if __name__ == "__main__":
    ray.init(
        include_dashboard=False,
        logging_level=logging.WARNING,
        _temp_dir=os.environ["TMPDIR"],
        object_store_memory=100 << 20,
    )
    serve.start(
        http_options={"host": "127.0.0.1", "port": int(sys.argv[1])},
        logging_config={"log_level": "WARNING", "enable_access_log": False},
    )
    serve.run(application(sys.argv[2]))
    signal.pause()
