"""The site of the documentation: `make docs`.

Pages are Markdown, and links are those of the files, so that they hold in the repository, too. The
source is the root of the repository: pages that lie elsewhere, such as ARCHITECTURE.md, are pages
of the site where they are. Nothing is loaded from another host, when it is built or read.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.builders.text import TextBuilder

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Oka"
author = "the authors of Oka"
release = importlib.metadata.version("oka-streams")
root_doc = "docs/index"
include_patterns = ["docs/**.md", "*.md", "benchmarks/**.md", "k8s/*.md"]
exclude_patterns = ["target", ".*", "engine", "operators", "pipelines", "rust", "tests"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
suppress_warnings = ["myst.header"]  # a page may begin with a part of another depth
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nitpicky = False
default_role = "code"  # of docstrings, which write `names` as Markdown does
toc_object_entries = False  # the list of pages stays a list of pages
autodoc_typehints = "none"  # signatures have the defaults; docstrings tell the types
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False}

text_sectionchars = '=-~^"+*'  # which Markdown reads as headings, too

html_theme = "furo"
html_title = "Oka"
html_favicon = "../engine/ui/static/icon.svg"
html_extra_path = ["index.html"]  # the address of the folder leads to the first page
html_copy_source = False  # the pages themselves lie beside the HTML, as Markdown
html_show_sphinx = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """What Sphinx calls first."""
    app.connect("autodoc-process-docstring", _as_rst)
    app.connect("build-finished", _beside_the_html)


def _as_rst(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Docstrings write stars as they are, as Markdown lets them."""
    paragraphs = "\n".join(lines).split("\n\n")
    for number, text in enumerate(paragraphs):
        if (
            text.endswith(":")
            and paragraphs[number + 1 : number + 2][0:1]
            and paragraphs[number + 1].startswith("    ")
        ):
            text += ":"
        if not text.lstrip().startswith(">>>"):
            paragraphs[number] = re.sub(r"(`[^`]*`)|\*", lambda found: found[1] or r"\*", text)
    lines[:] = "\n\n".join(paragraphs).split("\n")


def _beside_the_html(app: Sphinx, error: Exception | None) -> None:
    """Each page as Markdown beside its HTML, with its pictures, and `llms.txt`, which lists them.

    Pages that are made of docstrings are there as text.
    """
    if error is not None or app.builder.name != "html":
        return
    text = TextBuilder(app, app.env)
    text.init()
    text.out_suffix = ".md"
    for page in app.env.all_docs:
        written = Path(app.outdir, f"{page}.md")
        if "docs/reference/api" in page:
            text.prepare_writing({page})
            text.write_doc(page, app.env.get_doctree(page))
        else:
            shutil.copyfile(app.env.doc2path(page), written)
    for picture in app.env.images:
        copied = Path(app.outdir, picture)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(app.srcdir, picture), copied)
    Path(app.outdir, "llms.txt").write_text("\n".join(_llms(app.env)) + "\n", encoding="utf-8")


def _llms(env: Any) -> list[str]:
    """The lines of `llms.txt`: what Oka is, and the pages by the room that they are in."""
    lines = [
        f"# {project}",
        "",
        "> A streaming dataflow engine: pipelines in Python, records moved by Rust.",
    ]
    for room in env.toctree_includes[root_doc]:
        lines += ["", f"## {env.titles[room].astext()}", ""]
        lines += [f"- [{env.titles[page].astext()}]({page}.md)" for page in _below(env, room)]
    return lines


def _below(env: Any, page: str) -> list[str]:
    return [
        page,
        *(each for child in env.toctree_includes.get(page, []) for each in _below(env, child)),
    ]
