"""The endpoint for Prometheus, and scrapers that are not as they should be."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as text_families

from engine.config import JobConfig
from engine.errors import ConfigError
from engine.monitoring.endpoint import Endpoint
from engine.monitoring.families import Exposition, Family
from engine.report.samples import Sample
from tests.unit.monitoring.tasks import task
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
HOSTILE = 'a "quoted"\nname{with="labels"} \\ \ud800 λ\u2028'
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


def scraped(url: str, accept: str = "", path: str | None = None) -> tuple[int, str, str]:
    """Status, content type and body."""
    address = urlsplit(url)
    with closing(HTTPConnection(address.hostname or "", address.port, timeout=60)) as connection:
        connection.request("GET", path or address.path, headers={"Accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


@contextmanager
def endpoint(tasks: int = 1, host: str = "127.0.0.1") -> Iterator[Endpoint]:
    exposition = Exposition(JobConfig(name=HOSTILE))
    one = [task(HOSTILE, index, latencies_ms=(1, 20), records=5) for index in range(tasks)]
    exposition.take(Sample(0.0, tuple(one)))
    found = Endpoint(host, 0, exposition.families)
    try:
        yield found
    finally:
        found.close()
        found.close()


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_hostile_names_come_through_in_each_format(accept: str) -> None:
    with endpoint() as found:
        status, content_type, text = scraped(found.url, accept)
    assert (status, "openmetrics" in content_type) == (200, bool(accept))
    parse = openmetrics_families if accept else text_families
    families = {family.name: family for family in parse(text)}
    in_full = HOSTILE.replace("\ud800", "\\ud800")
    (sample,) = families["oka_operator_records_in"].samples
    assert sample.labels == {"job": in_full, "operator": in_full, "vertex": in_full, "task": "0"}
    assert sample.value == 5
    assert families["oka_operator_records_in"].type == "counter"
    buckets = {
        each.labels.get("le"): each.value for each in families["oka_latency_seconds"].samples
    }
    assert (buckets["0.005"], buckets["0.025"], buckets["+Inf"]) == (1, 2, 2)


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: apt install prometheus"
)
def test_promtool_finds_nothing() -> None:
    with endpoint() as found:
        text = scraped(found.url)[2]
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_nothing_else_is_there() -> None:
    with endpoint() as found:
        assert scraped(found.url, path="/")[0] == 404
        assert scraped(found.url, path="/metrics?name[]=up")[0] == 200
        address = urlsplit(found.url)
        with closing(HTTPConnection(address.hostname or "", address.port)) as connection:
            connection.request("POST", "/metrics", body="x")
            assert connection.getresponse().status == 501


def test_what_fails_within_shows_up_where_it_is_scraped() -> None:
    def families() -> list[Family]:
        raise KeyError("no such task")

    failing = Endpoint("127.0.0.1", 0, families)
    try:
        status, _, text = scraped(failing.url)
        assert (status, "KeyError" in text) == (500, True)
    finally:
        failing.close()


def test_scrapers_that_do_not_read_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(tasks=500) as found:
        address = urlsplit(found.url)
        at = (address.hostname, address.port)
        slow = [socket.create_connection(at) for _ in range(4)]  # type: ignore[arg-type]
        for each in slow[:2]:
            each.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")  # and reads nothing
        slow[2].sendall(b"GET /met")
        began = time.monotonic()
        assert scraped(found.url)[0] == 200
        assert time.monotonic() - began < 9  # they are given up after 10 s
        for each in slow:
            each.close()


def test_more_scrapers_than_it_takes_are_turned_away() -> None:
    with endpoint() as found:
        address = urlsplit(found.url)
        at = (address.hostname, address.port)
        idle = [socket.create_connection(at) for _ in range(8)]  # type: ignore[arg-type]
        with closing(socket.create_connection(at)) as another:  # type: ignore[arg-type]
            another.settimeout(60)
            assert another.recv(1) == b""
        for each in idle:
            each.close()
        wait_until(lambda: _answers(found.url))


def _answers(url: str) -> bool:
    try:
        return scraped(url)[0] == 200
    except OSError:
        return False


def test_it_closes_while_it_is_scraped() -> None:
    with endpoint(tasks=200) as found:
        ended = threading.Event()
        answers: list[bool] = []

        def scrape() -> None:
            while not ended.is_set():
                answers.append(_answers(found.url))

        threads = [threading.Thread(target=scrape) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: answers.count(True) >= 3)
        found.close()
        wait_until(lambda: answers[-1:] == [False])
        ended.set()
        for thread in threads:
            thread.join()
        with pytest.raises(ConnectionRefusedError):
            scraped(found.url)


def test_a_port_that_is_taken_is_told_before_anything_starts() -> None:
    with endpoint() as found:
        port = urlsplit(found.url).port
        with pytest.raises(
            ConfigError, match=f"metrics_port is {port}, and something else"
        ) as told:
            Endpoint("127.0.0.1", port or 0, list)
    assert "metrics_port=0" in str(told.value.hint)
    again = Endpoint("127.0.0.1", port or 0, list)  # it is free at once
    again.close()


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host.invalid"])
def test_a_host_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="metrics_host is") as told:
        Endpoint(host, 0, list)
    assert "0.0.0.0" in str(told.value.hint)


def test_ipv6() -> None:
    try:
        with endpoint(host="::1") as found:
            assert found.url.startswith("http://[::1]:")
            assert scraped(found.url)[0] == 200
    except ConfigError:
        pytest.skip("this machine has no IPv6")
