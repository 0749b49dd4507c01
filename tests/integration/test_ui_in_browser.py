"""The page in a real browser, of real jobs: Debian's Chromium, by Playwright.

With `SCREENSHOTS=docs/images` in the environment, the pictures of docs/reference/ui.md are made
anew.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.history.places import histories
from engine.testing import run
from engine.ui.jobs import Jobs
from engine.ui.page import Page as ServedPage
from operators import source
from operators.sinks import Discard
from operators.sources import Collection, Models, RandomWords
from tests.waiting import wait_until

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright, of the extra dev", exc_type=ImportError
)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", exc_type=ImportError)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium, as Debian's chromium has it"
)
SCREENSHOTS = os.environ.get("SCREENSHOTS")
EVIL = "<img src=x onerror=\"document.title='evil'\">"
VIEWS = ("graph", "timeline", "checkpoints", "errors", "log", "flame", "settings")
LAPTOP = {"width": 1280, "height": 720}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@dataclass
class Tab:
    """A page of the browser, and what it asked for and complained of."""

    page: Any
    origin: str
    asked: list[str]
    complaints: list[str]

    def go(self, place: str) -> None:
        """Show a job, a view or an operator, as the link's hash has it."""
        self.page.evaluate("place => { location.hash = place; }", place)

    def text(self, selector: str = "main") -> str:
        """What a person reads there."""
        return str(self.page.locator(selector).inner_text())

    def wait_for(self, text: str, selector: str = "main", seconds: float = 60) -> None:
        """Until a person reads this there."""
        found = self.page.locator(selector).get_by_text(text).first
        found.wait_for(timeout=seconds * 1000)

    def picture(self, name: str) -> None:
        """A picture for the documentation, where it is asked for."""
        if SCREENSHOTS is not None:
            time.sleep(15)  # until there is more to see
            self.page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"))

    def violations(self) -> list[str]:
        """What axe finds wrong for people who see badly, or who use no mouse."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(axe.Axe().axe_script)
        found = self.page.evaluate(
            "options => axe.run(options).then(({ violations }) => violations)",
            {"resultTypes": ["violations"], "preload": False},
        )
        return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Any]:
    contexts = []
    tabs: list[Tab] = []

    def opened(link: str, theme: str = "light") -> Tab:
        context = browser.new_context(viewport=LAPTOP, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        tab = Tab(page, link.partition("/?")[0], [], [])
        page.on("request", lambda request: tab.asked.append(request.url))
        page.on("console", lambda said: tab.complaints.append(said.text))
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.goto(link)
        tabs.append(tab)
        return tab

    yield opened
    for context in contexts:
        context.close()
    for tab in tabs:
        assert all("status of 400" in each for each in tab.complaints), tab.complaints
        assert tab.asked
        assert all(url.startswith(f"{tab.origin}/") for url in tab.asked), tab.asked


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The link to three past jobs: one failed, one of 66 tasks, one with swapped models."""
    folder = tmp_path_factory.mktemp("past")
    settings = {"history": str(folder), "progress": "none"}

    def parse(n: int) -> int:
        if n == 70:
            raise ValueError(f"no number: {EVIL}")
        if n % 10 == 0:
            print(f"<script>document.title='evil'</script> parsed {n}", file=sys.stderr)
        return n

    numbers = source(Collection([*range(100)], rate=100)).map(parse).named(EVIL)
    failed = engine.submit(numbers.sink(Discard()), name="failed", batch_size=10, **settings)
    swapped = engine.submit(swapping(), name="swapped", batch_size=1, **settings)
    many(settings)
    swapped.wait_finished()
    with pytest.raises(engine.OperatorError):
        failed.wait_finished()
    page = ServedPage(Jobs(lambda: histories(folder)), "127.0.0.1", 0)
    yield page.link
    page.close()


def many(settings: dict[str, Any]) -> None:
    names = source(Collection([f"name-{n}" for n in range(300)], rate=150)).map(str.upper)
    counted = names.rebalance().map(str.lower).key_by(lambda name: name[-1:]).count()
    run(counted.sink(Discard()), **{**settings, "name": "many", "parallelism": 22})


def swapping() -> Any:
    """Answers by a model, which another one replaces soon."""
    numbers = source(Collection([*range(120)], rate=40)).map(lambda n: n)
    models = source(Models(b"first", b"second", every=1.4)).broadcast(via="channels")
    answers = numbers.map_batches_with_model(
        models,
        lambda model: bytes(model.buffer).decode(),
        lambda model, batch: [model] * len(batch),
    )
    return answers.sink(Discard())


def job_of(tab: Tab, name: str) -> str:
    """The job of this name, as links have it."""
    link = tab.page.locator("nav a.job", has_text=name)
    return str(link.get_attribute("href")).removeprefix("#")


def test_a_failure_has_its_operator_record_traceback_and_log_and_no_text_becomes_html(
    past: str, open_tab: Any
) -> None:
    tab = open_tab(past)
    tab.page.locator("nav a.job", has_text="failed").first.click()
    tab.wait_for("Show the error")
    assert f"operator '{EVIL}'" in tab.text(".is-failure")
    assert "failed on record 70: ValueError: no number" in tab.text(".is-failure")
    assert EVIL[:20] in tab.text(".graph")
    tab.page.get_by_role("button", name="Show the error").click()
    tab.wait_for("It ended the job")
    assert f"ValueError: no number: {EVIL}" in tab.text("article h2")
    assert 'raise ValueError(f"no number: {EVIL}")' in tab.text("article")
    tab.page.get_by_role("tab", name="Log").click()
    tab.wait_for("parsed 60", ".log")
    assert "<script>document.title='evil'</script> parsed 60" in tab.text(".log")
    tab.page.get_by_role("searchbox", name="Filter lines of the log").fill("PARSED 60")
    wait_until(lambda: tab.page.locator(".log > div").count() == 1)
    for view in VIEWS:
        tab.go(f"{job_of(tab, 'failed')}/{view}")
        tab.page.locator(f"#tab-{view}[aria-selected=true]").wait_for()
    assert tab.page.locator("main img, main script").count() == 0
    assert tab.page.title() != "evil"


def test_past_jobs_are_listed_with_their_states_swaps_and_tasks(past: str, open_tab: Any) -> None:
    tab = open_tab(past, "dark")
    tab.wait_for("swapped", "nav")
    states = [each.inner_text() for each in tab.page.locator("nav .state").all()]
    assert sorted(states) == ["failed", "finished", "finished"]
    tab.go(f"{job_of(tab, 'swapped')}/timeline")
    for version in (1, 2):
        tab.wait_for(f"tasks use version {version} of the model")
    tab.go(job_of(tab, "swapped"))
    tab.page.locator("[data-operator]", has_text="map_batches_with_model").click()
    tab.wait_for("Latency from source to here")
    header = tab.text(".detail thead")
    assert "model" in header
    assert "p99" in header
    tab.wait_for("there is none (--checkpoints FOLDER)")
    tab.page.locator("[data-operator]", has_text="discard").click()
    tab.wait_for("markers since its tasks began")
    assert re.search(r"≤ [\d.]+ (µs|ms|s)\s+\d+%", tab.text(".detail .bars"))
    tab.go(job_of(tab, "many"))
    tab.wait_for("22 tasks")
    assert "66" in tab.text(".figures")
    assert tab.page.get_by_role("button", name="Cancel").count() == 0
    tab.page.locator("[data-operator]", has_text="count").click()
    tab.wait_for("Share of time")
    assert tab.page.locator(".detail tbody tr").count() == 22
    totals = tab.page.locator(".detail tbody tr td:nth-child(4)").all_inner_texts()
    assert sum(int(each) for each in totals) == 300
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    time.sleep(1.5)
    times = sum(f"/api/jobs/{job_of(tab, 'many')}" in url for url in tab.asked)
    assert times == 1, "a job that has ended is asked for once"


def test_all_goes_by_keys(past: str, open_tab: Any) -> None:
    tab = open_tab(past)
    tab.go(job_of(tab, "many"))
    tab.wait_for("22 tasks")
    press = tab.page.keyboard.press
    tab.page.locator("[data-operator]").first.focus()
    press("ArrowRight")
    press("ArrowDown")
    press("Enter")
    name = tab.page.locator("#detail-title")
    name.wait_for()
    assert name.inner_text() == "key_by"
    press("Escape")
    name.wait_for(state="detached")
    press("2")
    timeline = tab.page.locator(".timeline")
    timeline.focus()
    before = timeline.get_attribute("aria-label")
    press("+")
    wait_until(lambda: timeline.get_attribute("aria-label") != before)
    press("0")
    wait_until(lambda: timeline.get_attribute("aria-label") == before)
    tab.page.get_by_role("tab", name="Timeline").focus()
    press("ArrowRight")
    wait_until(lambda: tab.page.evaluate("document.activeElement.id") == "tab-checkpoints")
    tab.wait_for("No checkpoint yet")
    press("?")
    tab.wait_for("Keys and colours", "dialog")
    press("Escape")
    tab.page.locator("dialog").wait_for(state="detached")
    press("t")
    wait_until(lambda: tab.page.evaluate("document.documentElement.dataset.theme") == "dark")
    press("k")
    wait_until(lambda: "22 tasks" not in tab.text())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_any_view(theme: str, past: str, open_tab: Any) -> None:
    tab = open_tab(past, theme)
    assert tab.page.evaluate("document.documentElement.dataset.theme") == theme
    failed, many, swapped = (job_of(tab, name) for name in ("failed", "many", "swapped"))
    places = [f"{failed}/{view}" for view in VIEWS]
    for place in (*places, f"{many}/graph/1", f"{many}/timeline", f"{swapped}/graph/3"):
        tab.go(place)
        tab.page.locator(f"#tab-{place.split('/')[1]}[aria-selected=true]").wait_for()
        tab.page.locator(f"h1[title='{place.split('/')[0]}']").wait_for()
        assert tab.violations() == [], place
    tab.page.keyboard.press("?")
    assert tab.violations() == []


def test_it_is_there_at_once(past: str, open_tab: Any) -> None:
    tab = open_tab(past)
    paints = []
    for _ in range(3):
        tab.page.reload()
        tab.page.locator("#tab-graph").wait_for()
        script = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        paints.append(tab.page.evaluate(script))
    print(f"first paint after {min(paints):.0f} ms, the best of {len(paints)}")
    assert min(paints) < 500


def spin(word: str) -> str:
    """Some work, on a core."""
    until = time.thread_time() + 4e-4
    while time.thread_time() < until:
        pass
    return word


def test_a_running_job_is_seen_and_acted_on(tmp_path: Path, open_tab: Any) -> None:
    words = source(RandomWords(rate=20_000, words=500)).named("clicks").map(str.upper)
    enriched = words.named("clean").rebalance().map(spin).named("enrich")
    handle = engine.submit(
        enriched.key_by().count().named("per user").sink(Discard()),
        name="clickstream",
        ui_port=0,
        progress="none",
        history=str(tmp_path),
        checkpoints=str(tmp_path / "checkpoints"),
        checkpoint_interval_seconds=1.0,
        batch_size=20,
        channel_window_bytes=65536,
    )
    try:
        tab = open_tab(handle.ui_url)
        tab.wait_for("Backpressure:")
        causes = tab.page.locator(".vertex.is-bottleneck[data-vertex=enrich][data-heat=busy]")
        held_up = tab.page.locator(".vertex[data-heat=blocked]", has_text="clicks")
        wait_until(lambda: causes.count() == held_up.count() == 1)
        red, orange = (
            each.locator(".heat").evaluate("each => getComputedStyle(each).fill")
            for each in (held_up, causes)
        )
        assert red != orange
        rates = tab.page.locator(".edge-rate")
        wait_until(lambda: "/s" in (rates.first.text_content() or ""))
        before = tab.text(".figures")
        wait_until(lambda: tab.text(".figures") != before)
        tab.picture("ui")
        assert tab.violations() == []

        answer = tab.page.locator(".answer")
        tab.page.get_by_role("button", name="Savepoint").click()
        tab.page.get_by_label("Name (optional)").fill("before lunch")
        tab.page.get_by_role("button", name="Store the savepoint").click()
        answer.get_by_text("savepoint's name").wait_for()
        assert "hint:" in answer.inner_text()
        answer.get_by_role("button", name="Close").click()
        tab.page.get_by_role("button", name="Savepoint").click()
        tab.page.get_by_label("Name (optional)").fill("before-lunch")
        tab.page.keyboard.press("Enter")
        tab.page.get_by_role("tab", name="Checkpoints").click()
        tab.wait_for("before-lunch", "table")
        assert "tasks write" in tab.text("table")
        assert "committed" in tab.text("table")

        tab.page.get_by_role("tab", name="Flame graph").click()
        tab.page.get_by_label("Task").select_option("enrich[0]")
        tab.page.get_by_label("Seconds").fill("1")
        tab.page.get_by_role("button", name="Take a flame graph").click()
        hot = tab.page.locator(".flame .frame", has_text="spin").first
        hot.wait_for(timeout=60_000)
        share = int(re.search(r", (\d+)%", str(hot.get_attribute("aria-label")))[1])
        assert share > 50
        tab.picture("ui-flame")
        hot.click()
        tab.page.locator(".frame.is-above", has_text="all").wait_for()
        assert tab.violations() == []

        tab.page.get_by_role("button", name="Rescale").click()
        tab.page.get_by_label("Parallelism").fill("3")
        assert tab.violations() == []
        tab.page.keyboard.press("Enter")
        tab.page.get_by_role("tab", name="Timeline").click()
        tab.wait_for("rescaled, parallelism 3", "table")
        tab.picture("ui-timeline")
        tab.page.locator("#tab-graph").click()
        wait_until(lambda: "3 tasks" in tab.text(".graph"))
        tab.page.locator("[data-operator]", has_text="enrich").click()
        tab.page.keyboard.press("t")
        wait_until(lambda: tab.page.locator(".detail tbody tr").count() == 3)
        tab.wait_for("It is measured where records end, such as in")
        tab.page.locator("[data-operator]", has_text="per user").click()
        tab.wait_for("keys at the last checkpoint; the oldest is kept for")
        for column in ("state", "last written in", "memory"):
            tab.wait_for(column, ".detail thead")
        tab.picture("ui-dark")
        assert tab.violations() == []

        tab.page.get_by_role("button", name="Cancel").click()
        tab.page.get_by_role("button", name="Back", exact=True).click()
        assert "running" in tab.text(".head")
        tab.page.get_by_role("button", name="Cancel").click()
        tab.page.get_by_role("button", name="Cancel the job").click()
        tab.wait_for("cancelled", ".head .title")
        assert tab.page.get_by_role("button", name="Cancel").count() == 0
        with pytest.raises(engine.JobCancelled):
            handle.wait_finished(60)
        tab.wait_for("The program that serves this page has ended")
        assert "cancelled" in tab.text(".head")
        tab.complaints.clear()  # it could not ask
    finally:
        handle.cancel()
        with suppress(engine.EngineError):
            handle.wait_finished(60)
