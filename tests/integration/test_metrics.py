"""Metrics of running jobs: what Prometheus reads, across restarts and rescales, and its alerts."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

import engine
import engine.monitoring
from engine.errors import ConfigError
from engine.gateway import Request, Response
from engine.job import JobHandle
from engine.model import Model
from engine.programs.beside import Beside
from engine.programs.ports import free_port
from operators import source
from operators.sinks import Discard
from operators.sources import Models, RandomWords
from operators.stream import Stream
from tests.integration.test_http import Client, served
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
MONITORING = Path(engine.monitoring.__file__).parent
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs prometheus and promtool: apt-get install prometheus",
)


def words(**options: Any) -> Any:
    """A count of words without an end."""
    counted = source(RandomWords(rate=5000, words=50, **options)).key_by(lambda word: word).count()
    return counted.sink(Discard())


def samples(url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """All values that are exposed now, by name."""
    with urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(url: str, name: str, **labels: str) -> float:
    """The sum of what has these labels."""
    return sum(
        value for told, value in samples(url).get(name, ()) if labels.items() <= told.items()
    )


@contextmanager
def running(pipeline: Any, **settings: Any) -> Iterator[tuple[JobHandle, str]]:
    """A job, and where it is scraped."""
    handle = engine.submit(pipeline, metrics_port=0, progress="none", **settings)
    try:
        assert handle.metrics_url is not None
        yield handle, handle.metrics_url
    finally:
        handle.cancel()
        handle.wait_stopped()


def test_a_running_job_tells_of_itself_until_it_ends() -> None:
    with running(words(), name="words", parallelism=2) as (handle, url):
        wait_until(lambda: total(url, "oka_operator_records_in_total", operator="discard") > 0)
        found = samples(url)
        assert found["oka_job_info"][0][0]["job"] == "words"
        assert found["oka_job_tasks"] == [({"job": "words"}, 4)]
        tasks = {(each["vertex"], each["task"]) for each, _ in found["oka_task_busy_seconds_total"]}
        assert len(tasks) == 4
        wait_until(lambda: total(url, "oka_latency_seconds_count", operator="discard") > 0)
        handle.stop()
        handle.wait_finished(300)
        with pytest.raises(OSError, match="refused"):
            samples(url)


def test_a_port_in_use_is_told_before_the_job_starts() -> None:
    with running(words()) as (_, url), pytest.raises(ConfigError, match="something else listens"):
        engine.submit(words(), metrics_port=urlsplit(url).port)


def test_counters_go_on_over_restarts_and_rescales(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "checkpoints": str(tmp_path / "kept"),
        "checkpoint_interval_seconds": 0.3,
        "parallelism": 2,
    }
    seen: list[tuple[float, ...]] = []
    names = ("oka_operator_records_in_total", "oka_task_cpu_seconds_total")

    def look(url: str) -> bool:
        found = samples(url)
        values = [
            (*(name for _, name in sorted(told.items())), name, value)
            for name in names
            for told, value in found.get(name, ())
        ]
        for *key, value in values:
            assert value >= highest.get(tuple(key), 0)
            highest[tuple(key)] = value
        seen.append(tuple(value for _, value in found["oka_job_checkpoints_total"]))
        return True

    highest: dict[Any, float] = {}
    with running(words(), **settings) as (handle, url):
        wait_until(lambda: look(url) and total(url, "oka_job_checkpoints_total") >= 2)
        assert total(url, "oka_operator_checkpointed_keys", operator="count") > 0
        wait_until(lambda: total(url, "oka_operator_oldest_key_seconds", operator="count") > 1)
        assert total(url, "oka_task_checkpointed_bytes") > 0
        phases = {told["phase"] for told, _ in samples(url)["oka_checkpoint_duration_seconds"]}
        assert phases == {"write", "store", "commit"}
        before = total(url, "oka_job_checkpoints_total")
        handle._master._workers[0].kill()  # type: ignore[attr-defined]
        wait_until(lambda: look(url) and total(url, "oka_job_restarts_total") == 1)
        wait_until(lambda: look(url) and total(url, "oka_job_checkpoints_total") > before)
        handle.rescale(1)
        wait_until(lambda: look(url) and total(url, "oka_job_tasks") == 2)
        after = total(url, "oka_operator_records_in_total", operator="discard", task="0")
        wait_until(
            lambda: (
                look(url)
                and total(url, "oka_operator_records_in_total", operator="discard", task="0")
                > after
            )
        )
        assert total(url, "oka_job_restarts_total") == 1
    assert seen == sorted(seen)


def test_requests_by_their_ends_and_the_version_of_the_model(tmp_path: Path) -> None:
    def publish(number: int) -> None:
        (tmp_path / "new").write_bytes(bytes([number]))
        (tmp_path / "new").rename(tmp_path / "model")

    def answer(model: bytes, requests: list[Request]) -> list[Response]:
        return [request.reply(model[0]) for request in requests]

    def handle(requests: Stream[Request]) -> Stream[Response]:
        models = source(Models(watch=tmp_path / "model")).broadcast(via="channels")
        return requests.map_batches_with_model(models, _first_byte, answer)

    publish(7)
    with served(handle, config={"metrics_port": 0}) as (port, job):
        url = str(job.metrics_url)
        assert Client(port)("GET", "/")[2] == b"7"
        wait_until(lambda: total(url, "oka_http_requests_total", end="answered") == 1)
        ends = {told["end"] for told, _ in samples(url)["oka_http_requests_total"]}
        assert ends == {"answered", "expired", "disconnected", "refused"}
        assert Client(port)("GET", "/nowhere")[0] == 404
        wait_until(lambda: total(url, "oka_http_responses_total", code="404") == 1)
        assert total(url, "oka_http_responses_total", code="200") == 1
        wait_until(lambda: total(url, "oka_model_version") == 1)
        publish(8)
        wait_until(lambda: Client(port)("GET", "/")[2] == b"8", 60)  # it takes over with a batch
        wait_until(lambda: total(url, "oka_model_version") == 2, 60)


def _first_byte(model: Model) -> bytes:
    return next(iter(model.files.values()))[:1]


def test_the_command_says_where_it_is_scraped() -> None:
    command = [str(Path(sys.executable).parent / "oka"), "run"]
    command += ["pipelines/word_count.py:random_word_count", "seconds=600", "--metrics-port", "0"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stderr is not None
        told = re.fullmatch(
            r"metrics are at (http://127\.0\.0\.1:\d+/metrics)\n", process.stderr.readline()
        )
        assert told is not None
        wait_until(lambda: total(told[1], "oka_operator_records_out_total") > 0)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(300)
        process.stderr.close()  # type: ignore[union-attr]
    assert process.returncode == 130


class Prometheus:
    """A server that scrapes a job five times a second, with the rules for alerts that Oka has."""

    def __init__(self, folder: Path, target: str) -> None:
        self.port = free_port()
        (folder / "rules.yaml").write_text((MONITORING / "rules.yaml").read_text())
        (folder / "prometheus.yaml").write_text(
            f"""
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}
rule_files: [rules.yaml]
scrape_configs:
- job_name: oka
  honor_labels: true
  static_configs: [{{targets: ["{target}"]}}]
"""
        )
        options = {
            "config.file": folder / "prometheus.yaml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
            "log.level": "warn",
        }
        self.log = folder / "log"
        with self.log.open("wb") as errors:
            command = [f"--{name}={value}" for name, value in options.items()]
            self._program = Beside(["prometheus", *command], errors)

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            if error.code != 503:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        except URLError:
            pass
        return {}  # it has not started yet

    def close(self) -> None:
        self._program.terminate(30)


def fails(word: str) -> str:
    if word[0] < "M":
        raise ValueError("no such word")
    return word


@needs_prometheus
def test_prometheus_scrapes_a_job_and_an_alert_fires(tmp_path: Path) -> None:
    pipeline = source(RandomWords(rate=5000)).map(fails, on_error="skip").sink(Discard())
    with running(pipeline, name='a "job"') as (_, url):
        prometheus = Prometheus(tmp_path, urlsplit(url).netloc)
        try:

            def fired() -> list[Any]:
                alerts = prometheus.ask("alerts").get("alerts", ())
                return [each for each in alerts if each["state"] == "firing"]

            (alert,) = wait_until(fired, 120)
            assert alert["labels"]["alertname"] == "OkaErrors"
            assert alert["labels"]["job"] == 'a "job"'
            assert alert["annotations"]["summary"] == 'map of a "job" fails on records'
            (target,) = prometheus.ask("targets")["activeTargets"]
            assert (target["health"], target["lastError"]) == ("up", "")
            for title, expression in expressions():
                told = prometheus.ask("query", query=expression)
                assert told["resultType"] == "vector", title
            assert prometheus.ask("query", query=dict(expressions())["Into operators A"])["result"]
        finally:
            prometheus.close()
    assert "level=error" not in prometheus.log.read_text()


def expressions() -> list[tuple[str, str]]:
    """All queries of the dashboard, with its variables in their places."""
    board = json.loads((MONITORING / "dashboard.json").read_text())
    return [
        (
            f"{panel['title']} {target['refId']}",
            target["expr"].replace("$job", ".*").replace("$__rate_interval", "1m"),
        )
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]
