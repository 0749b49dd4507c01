"""What it costs the driver to be watched: `python -m benchmarks.steps.watching [32] [20] [3]`.

The arguments are the parallelism, seconds and rounds. One job goes on at a low rate, and is
watched in one way after the other, each for so many seconds: by nobody (it writes its history), by
a Prometheus that scrapes it each 15 s, by an open page, by the cell of a notebook. A line has the
driver's CPU time as a share of a core, the records per second at the sinks, and the least and the
most of each. Who asks is a process of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import engine
from engine.history.cell import LiveCell
from engine.job import JobHandle
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords


def main() -> None:
    """Watch a job in all ways, and print a line for each."""
    parallelism, seconds, rounds = [*map(int, sys.argv[1:]), *(32, 20, 3)[len(sys.argv) - 1 :]]
    words = source(RandomWords(rate=20 * parallelism, words=100))
    pipeline = words.key_by().count().sink(Discard())
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="oka-watching-") as folder:
        config = engine.JobConfig(
            parallelism=parallelism, history=folder, metrics_port=0, ui_port=0, progress="none"
        )
        handle = engine.submit(pipeline, config)
        try:
            while not handle.statistics().records:
                time.sleep(0.1)
            for _ in range(rounds):
                for name, way in WAYS.items():
                    with way(handle):
                        time.sleep(2.0)
                        found.setdefault(name, []).append(measured(handle, seconds))
        finally:
            handle.cancel()
            handle.wait_stopped()
    print(f"{2 * parallelism} tasks  driver, % of a core    records/s")
    for name, figures in found.items():
        cpu, rates = zip(*figures, strict=True)
        told = f"{statistics.median(cpu):5.2f} ({min(cpu):.2f}-{max(cpu):.2f})"
        rate = f"{statistics.median(rates):9,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"
        print(f"{name:10} {told:22} {rate}")


def measured(handle: JobHandle, seconds: int) -> tuple[float, float]:
    """The driver's CPU in percent of a core, and records per second, over so many seconds."""
    cpu, began, records = time.process_time(), time.monotonic(), handle.statistics().records
    time.sleep(seconds)
    took = time.monotonic() - began
    records = handle.statistics().records - records
    return 100 * (time.process_time() - cpu) / took, records / took


@contextmanager
def nobody(_: JobHandle) -> Iterator[None]:
    """The job alone."""
    yield


@contextmanager
def prometheus(handle: JobHandle) -> Iterator[None]:
    """A scrape of its metrics each 15 s."""
    with asking(SCRAPE, str(handle.metrics_url)):
        yield


@contextmanager
def page(handle: JobHandle) -> Iterator[None]:
    """An open page, which asks each second for what is new."""
    with asking(PAGE, str(handle.ui_url)):
        yield


@contextmanager
def cell(handle: JobHandle) -> Iterator[None]:
    """The cell of a notebook, but for sending what it shows."""
    live = LiveCell(lambda: repr(handle), lambda: handle.history, lambda: "")
    try:
        yield
    finally:
        live.end("")


@contextmanager
def asking(program: str, address: str) -> Iterator[None]:
    """A process that asks the driver."""
    with subprocess.Popen([sys.executable, "-c", program, address]) as process:
        try:
            yield
            assert process.poll() is None, "who asks has failed"
        finally:
            process.kill()


SCRAPE = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1]).read()
    time.sleep(15)
"""
PAGE = """
import http.cookiejar, json, sys, time, urllib.parse, urllib.request
cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
opener = urllib.request.build_opener(cookies)
link = sys.argv[1]
opener.open(link).read()
get = lambda path: json.loads(opener.open(urllib.parse.urljoin(link, path)).read())
job = urllib.parse.quote(get("/api/jobs")["current"], safe="")
generation, after = "", 0
while True:
    found = get(f"/api/jobs/{job}?generation={generation}&after={after}")
    generation, after = found["generation"], found["next"]
    time.sleep(1)
"""
WAYS: dict[str, Callable[[JobHandle], AbstractContextManager[None]]] = {
    "nobody": nobody,
    "Prometheus": prometheus,
    "page": page,
    "cell": cell,
}

if __name__ == "__main__":
    main()
