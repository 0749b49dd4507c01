"""Clicks of each user in windows of one second.

    oka run starter.py --config oka.toml          # for 30 seconds
    oka run starter.py --config oka.toml --ui     # and see it in a browser

The source makes clicks up. Put your own in its place: `oka.sources` has files and topics.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import oka


def clicks() -> Iterator[list[dict[str, Any]]]:
    """Five hundred clicks a second, for half a minute."""
    users, rng = ["ann", "bob", "eve"], random.Random(1)
    for _ in range(300):
        now = time.time()
        yield [{"user": rng.choice(users), "ms": rng.randrange(900), "at": now} for _ in range(50)]
        time.sleep(0.1)


def per_second(clicks: oka.Stream[dict[str, Any]]) -> oka.Stream[Any]:
    """The number of clicks of each user in each second, and how long they took: a dict for both."""
    timed = clicks.with_event_time("at", unit="s", out_of_orderness=timedelta(seconds=1))
    windows = timed.key_by("user").window(oka.Tumbling(timedelta(seconds=1)))
    return windows.aggregate(clicks=oka.Count(), mean_ms=oka.Mean("ms"))


def show(result: tuple[str, dict[str, Any], float, float]) -> None:
    """Print a result of a window."""
    user, found, start, _ = result
    clock = time.strftime("%H:%M:%S", time.localtime(start))
    print(
        f"{clock}  {user}  {found['clicks']:4} clicks, {found['mean_ms']:6.1f} ms each", flush=True
    )


source = oka.source(oka.sources.Function(clicks)).with_parallelism(1)
pipeline: oka.Pipeline = per_second(source).sink(oka.sinks.Callback(show))
