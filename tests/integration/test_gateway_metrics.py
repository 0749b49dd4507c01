"""What gateways tell Prometheus while a job serves."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.gateway import Request, Response
from operators.stream import Stream
from tests.integration.test_http import Client, served
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")

ENDS = ("answered", "expired", "disconnected", "refused")


@pytest.mark.parametrize("gateways", [1, 3])
def test_a_scrape_tells_of_all_gateways_of_the_port(gateways: int, tmp_path: Path) -> None:
    """Each connection comes to one of them, that of the scrape, too."""

    def answer(request: Request) -> Response:
        if request.query:
            wait_until((tmp_path / "go").exists)
        return request.reply("ok")

    def handle(requests: Stream[Request]) -> Stream[Response]:
        requests = requests.with_parallelism(gateways)
        return requests.map(answer).with_parallelism(gateways).on_nodes(0)

    def ask(target: str) -> int:
        return Client(port)("GET", target, authorization="Bearer secret")[0]

    with served(handle, token="secret") as (port, job), ThreadPoolExecutor(12) as threads:
        assert scraped(port) == (0, (0, 0, 0, 0), {})
        assert list(map(ask, ["/"] * 12)) == [200] * 12
        assert Client(port)()[0] == 401  # which comes to no task
        assert [scraped(port) for _ in range(12)] == [(0, (12, 0, 0, 0), {200: 12, 401: 1})] * 12
        waiting = threads.map(ask, ["/?waits"] * 12)
        try:
            wait_until(lambda: scraped(port)[:2] == (12, (12, 0, 0, 0)))
        finally:
            (tmp_path / "go").touch()
        assert list(waiting) == [200] * 12
        assert [scraped(port) for _ in range(12)] == [(0, (24, 0, 0, 0), {200: 24, 401: 1})] * 12
        job.stop()
        statistics = job.wait_finished(300).statistics
        assert statistics.requests_answered == 24
        assert statistics.responses == {"200": 24, "401": 1}


def scraped(port: int) -> tuple[int, tuple[int, ...], dict[int, int]]:
    """How many are under way, how many of each end, and of each status.

    The text is else as it has to be.
    """
    status, headers, body = Client(port)("GET", "/-/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    kinds, values = {}, {}
    for line in body.decode().splitlines(keepends=True):
        if kind := re.fullmatch(r"# TYPE (\w+) (gauge|counter)\n", line):
            kinds[kind[1]] = kind[2]
        elif sample := re.fullmatch(r'(\w+)(?:\{\w+="(\w+)"\})? (\d+)\n', line):
            assert sample[1] in kinds
            assert sample.group(1, 2) not in values
            values[sample.group(1, 2)] = int(sample[3])
        else:
            assert re.fullmatch(r"# HELP \w+ .+\n", line), line
    assert kinds == {
        "oka_requests_in_flight": "gauge",
        "oka_requests_total": "counter",
        "oka_responses_total": "counter",
    }
    in_flight = values.pop(("oka_requests_in_flight", None))
    ends = tuple(values.pop(("oka_requests_total", end)) for end in ENDS)
    return in_flight, ends, {int(code): count for (_, code), count in values.items()}
