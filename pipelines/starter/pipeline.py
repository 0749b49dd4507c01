"""Clicks of each user in windows of one second.

    oka run starter.py --config oka.toml          # for 30 seconds
    oka run starter.py --config oka.toml --ui     # and see it in a browser

The source makes clicks up. Put your own in its place: `operators.sources` has files and topics.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from operators import Count, Mean, Pipeline, Stream, Tumbling, source
from operators.sinks import Callback
from operators.sources import Function


def clicks() -> Iterator[list[dict[str, Any]]]:
    """Five hundred clicks a second, for half a minute."""
    users, rng = ["ann", "bob", "eve"], random.Random(1)
    for _ in range(300):
        now = time.time()
        yield [{"user": rng.choice(users), "ms": rng.randrange(900), "at": now} for _ in range(50)]
        time.sleep(0.1)


def per_second(clicks: Stream[dict[str, Any]]) -> Stream[Any]:
    """The number of clicks of each user in each second, and how long they took: a dict for both."""
    timed = clicks.with_event_time("at", unit="s", out_of_orderness=timedelta(seconds=1))
    windows = timed.key_by("user").window(Tumbling(timedelta(seconds=1)))
    return windows.aggregate(clicks=Count(), mean_ms=Mean("ms"))


def show(result: tuple[str, dict[str, Any], float, float]) -> None:
    """Print a result of a window."""
    user, found, start, _ = result
    clock = time.strftime("%H:%M:%S", time.localtime(start))
    print(
        f"{clock}  {user}  {found['clicks']:4} clicks, {found['mean_ms']:6.1f} ms each", flush=True
    )


pipeline: Pipeline = per_second(source(Function(clicks)).with_parallelism(1)).sink(Callback(show))
