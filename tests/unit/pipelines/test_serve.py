"""What the pipelines over HTTP do with a request."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import numpy as np
import pytest

import engine
from engine.gateway import Request
from engine.programs.ports import free_port
from operators import Pipeline
from pipelines import online_inference, serve
from pipelines.models import digits
from tests.waiting import wait_until


def request(body: Any = b"") -> Request:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(7, "POST", "/", b"", content, 0.0)


def test_every_request_is_told_the_same() -> None:
    response = serve.answer(request())
    assert (response.id, response.status, response.body) == (7, 200, b"ok")


def test_digits_of_a_batch() -> None:
    images, _ = digits.held_out()
    tensors = {  # a model that says where the brightest pixel of the first ten is
        "layers.0.weight": np.eye(64, 10, dtype=np.float32),
        "layers.0.bias": np.zeros(10, np.float32),
    }
    loaded = online_inference.Loaded(3, tensors)
    batch = [request(images[0].tolist()), request(b"{"), request(images[1].tolist())]
    replies = online_inference.predict(loaded, batch)
    assert [each.status for each in replies] == [200, 422, 200]
    for reply, image in ((replies[0], images[0]), (replies[2], images[1])):
        assert json.loads(reply.body) == {"digit": int(np.argmax(image[:10])), "model": 3}


@pytest.mark.parametrize("wrong", [b"", b"\xff", {}, [], [0.5] * 63, ["a"] * 64, [True] * 64, None])
def test_what_is_no_image(wrong: Any) -> None:
    assert online_inference.image_of(request(wrong)) is None
    assert online_inference.predict(online_inference.Loaded(1, {}), []) == []


def test_what_operators_say_together() -> None:
    asked = request()
    votes = [serve.vote(number, asked) for number in range(10)]
    assert all(each is asked for each, _ in votes)
    reply = serve.total((asked, tuple(vote for _, vote in votes)))
    assert (reply.id, reply.body) == (7, b"45")


@pytest.mark.parametrize("pipeline", [serve.serve, serve.ensemble, serve.hops])
def test_a_request_goes_through(pipeline: Callable[..., Pipeline], nothing_left: None) -> None:
    port = free_port()
    job = engine.submit(pipeline(port), progress="none")

    def ask(target: str) -> bytes:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
            connection.request("GET", target)
            return connection.getresponse().read()

    def is_ready() -> bool:
        with suppress(OSError):
            return ask("/-/readyz") == b"ready\n"
        return False

    wait_until(is_ready)
    expected = b"45" if pipeline is serve.ensemble else b"ok"
    assert [ask(f"/?user={user}") for user in range(4)] == [expected] * 4
    job.stop()
    assert job.wait_finished(300).statistics.requests_answered == 4
