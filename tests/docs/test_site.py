"""The site of the documentation: built without a warning, searched, and walked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs import pages

if sys.version_info < (3, 11):
    pytest.skip("Sphinx 9 needs Python 3.11", allow_module_level=True)

from sphinx.search.en import SearchEnglish

pytestmark = pytest.mark.xdist_group("site")

WORDS = {
    "window": "reference/windows",
    "watermark": "explanation/time",
    "late": "explanation/time",
    "join": "reference/joins",
    "kafka": "reference/connectors",
    "parquet": "howto/write-parquet",
    "checkpoint": "explanation/recovery",
    "exactly": "explanation/recovery",
    "savepoint": "explanation/recovery",
    "parallelism": "reference/running",
    "backpressure": "reference/running",
    "ray": "howto/run-on-ray",
    "kubernetes": "howto/deploy-on-kubernetes",
    "http": "howto/serve-over-http",
    "model": "reference/models",
    "async": "howto/call-an-api",
    "retries": "howto/call-an-api",
    "session": "reference/windows",
    "prometheus": "reference/metrics",
    "test": "howto/test-with-time",
    "notebook": "howto/notebooks",
    "timeout": "reference/serving",
    "encryption": "explanation/security",
    "s3": "reference/s3",
}
"""What users look for, and a page that the search has to find by it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it: a warning fails, such as a link to what is not there."""
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-c", "docs", "-b", "html", ".", str(built)],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return built


def test_the_search_finds_what_users_look_for(site: Path) -> None:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    stem = SearchEnglish({}).stem
    for word, page in WORDS.items():
        found = [index[kind].get(stem(word), []) for kind in ("terms", "titleterms")]
        numbers = {n for each in found for n in (each if isinstance(each, list) else [each])}
        assert f"docs/{page}" in {index["docnames"][n] for n in numbers}, word


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loads = re.compile(
        r"""(?:<(?:script|img|iframe|source|video)\b[^>]*\bsrc|<link\b[^>]*\bhref)=["']?(//|https?:)"""
    )
    styles = re.compile(r"""(?:url\(|@import\s+)["']?(?://|https?:)""")
    for file in site.rglob("*"):
        if file.suffix in {".html", ".css", ".js"}:
            text = file.read_text(encoding="utf-8")
            pattern = styles if file.suffix == ".css" else loads
            assert not (found := pattern.search(text)), f"{file}: {found}"


def test_each_page_of_how_to_is_two_clicks_away(site: Path) -> None:
    first = site / "docs/index.html"
    near = set(linked([first]))
    near |= set(linked(near))
    for page in (pages.DOCS / "howto").glob("*.md"):
        assert (site / "docs/howto" / page.name).with_suffix(".html") in near, page


def test_each_page_is_there_as_markdown_and_in_the_list(site: Path) -> None:
    told = (site / "llms.txt").read_text(encoding="utf-8")
    for page in pages.PAGES:
        name = page.relative_to(pages.ROOT).as_posix()
        title, below, *_ = (site / name).read_text(encoding="utf-8").splitlines()
        assert title.startswith("# ") or set(below) == {"="}
        assert name == "docs/index.md" or f"({name})" in told
    assert "class oka.Tumbling" in (site / "docs/reference/api/windows.md").read_text()


def linked(found: Iterable[Path]) -> Iterable[Path]:
    """Where the text of these pages leads to, without what stands beside it on every page."""
    for page in found:
        text = page.read_text(encoding="utf-8")
        main = text[text.index('<article role="main"') : text.index("</article>")]
        for target in re.findall(r'href="([^":#]+\.html)', main):
            yield (page.parent / target).resolve()
