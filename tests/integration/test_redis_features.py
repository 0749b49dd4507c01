"""Features in Redis, by the program of docs/howto/features-in-redis.md: its sink, and all of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oka
from engine.programs.ports import free_port
from tests.docs import pages
from tests.first_hour import readme
from tests.kafka import Broker
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="needs redis-server: apt-get install redis-server"
)

PAGE = pages.DOCS / "howto/features-in-redis.md"
MINUTE = 60_000
PAYMENTS = [
    {"card": "a", "at": MINUTE, "amount": 5},
    {"card": "b", "at": MINUTE, "amount": 4},
    {"card": "a", "at": MINUTE + 1, "amount": 7},
]
LATER = {"card": "c", "at": 60 * MINUTE, "amount": 1}
"""The watermark that it brings completes the windows of the others."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Any]:
    """A client of a server that keeps nothing on the disk."""
    client = pytest.importorskip("redis", reason="its client is missing: the extra `dev`")
    port = free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as server:
        connected = client.Redis(port=port, decode_responses=True)

        def answers() -> bool:
            try:
                return bool(connected.ping())
            except client.ConnectionError:
                return False

        try:
            wait_until(answers)
            yield connected
        finally:
            connected.close()
            server.terminate()


def program(redis: Any, servers: str = "localhost:9092") -> dict[str, Any]:
    """What the page's program declares, for these servers."""
    text = readme.programs(PAGE)[0].replace("localhost:9092", servers)
    text = text.replace("redis://localhost", url(redis))
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(text, str(PAGE), "exec"), names)
    return names


def url(redis: Any) -> str:
    return f"redis://localhost:{redis.connection_pool.connection_kwargs['port']}"


def features(redis: Any) -> dict[str, dict[str, str]]:
    return {key: redis.hgetall(key) for key in redis.keys("card:*")}


LAST = {  # of the ten windows of a payment, the last one
    "card:a": {"n": "2", "total": "12", "most": "7", "until": str(11 * MINUTE)},
    "card:b": {"n": "1", "total": "4", "most": "4", "until": str(11 * MINUTE)},
}


def test_the_sink_writes_each_key_and_writes_it_again(redis: Any, nothing_left: None) -> None:
    page = program(redis)
    timed = page["features"](oka.source(oka.sources.Collection(PAYMENTS)))
    for _ in range(2):  # as after a failure
        oka.testing.run(timed.sink(page["RedisHashes"](url(redis))))
        assert features(redis) == LAST


def test_from_a_topic_to_redis(redis: Any, kafka: Broker, nothing_left: None) -> None:
    topic = kafka.topic(1, "payments")
    kafka.produce(topic, [json.dumps(each).encode() for each in (*PAYMENTS, LATER)])
    kafka.produce(topic, [b"no JSON"])
    page = program(redis, kafka.servers)
    with pages.started(page["pipeline"], None) as job:
        wait_until(lambda: {key: features(redis).get(key) for key in LAST} == LAST)
        job.stop()
        job.wait_finished()
    assert redis.hget("card:c", "total") == "1"
