"""The page of a report: its figures, a table of all rows, and the settings of each run."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from benchmarks.plots.style import machine_name
from benchmarks.report.rows_table import Table
from benchmarks.schema.rows import Row


@dataclass(frozen=True)
class Picture:
    """A figure of the page."""

    title: str
    alt: str
    note: str
    svg: bytes

    @property
    def url(self) -> str:
        """A URL that contains the image."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


@dataclass(frozen=True)
class Section:
    """The page's section of one result."""

    name: str
    title: str
    method: str
    """How it was measured, if that is special; may be empty."""
    origin: Sequence[str]
    """Machine, date, commit, in a few words."""
    facts: Mapping[str, str]
    """Further settings that the figures depend on."""
    pictures: Sequence[Picture]
    table: Table
    failures: Sequence[tuple[str, str]]
    """Failures: the row in words, and the message."""

    @classmethod
    def of(cls, name: str, result: Mapping[str, Any], pictures: Sequence[Picture]) -> Section:
        """The section of a result."""
        rows = [Row.of(row) for row in result["rows"]]
        benchmark = str(result["benchmark"])
        title, method = _ABOUT.get(benchmark, (benchmark.replace("_", " ").capitalize(), ""))
        others = dict.fromkeys(row.variant.system for row in rows if row.variant.system != "oka")
        if benchmark == "peers" and others:
            title = f"Oka beside {', '.join(others)}"
        return cls(
            name=name,
            title=title,
            method=method,
            origin=_origin(result),
            facts=_facts(result),
            pictures=pictures,
            table=Table.of(result),
            failures=[(_in_words(row), failure) for row in rows for failure in row.failures],
        )

    @property
    def is_long(self) -> bool:
        """Whether its table is shown when it is asked for only."""
        return len(self.table.rows) > _MOST_ROWS


def render(sections: Sequence[Section]) -> str:
    """The HTML of the page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(
        (Path(__file__).parent / "page.html.jinja").read_text(encoding="utf-8")
    )
    return template.render(sections=sections)


def _origin(result: Mapping[str, Any]) -> list[str]:
    machine = dict(result.get("machine") or {})
    parts = [machine_name(result) if machine else "unknown machine"]
    if machine.get("memory_bytes"):
        parts[0] += f", {machine['memory_bytes'] / 1024**3:.3g} GiB"
    if machine.get("system"):
        parts[0] += f", {machine['system']}"
    parts.append(result.get("date") or "unknown date")
    parts.append(f"commit {(result.get('commit') or 'unknown')[:_SHORT_COMMIT]}")
    return parts


def _facts(result: Mapping[str, Any]) -> dict[str, str]:
    return {
        "commit": result.get("commit") or "unknown",
        "versions": _listed(result.get("versions"), " "),
        "settings": _listed(result.get("settings"), " = "),
    }


def _listed(named: Mapping[str, Any] | None, between: str) -> str:
    return ", ".join(f"{key}{between}{value}" for key, value in (named or {}).items()) or "unknown"


def _in_words(row: Row) -> str:
    batch = f", batch {row.batch_size:,}" if row.batch_size is not None else ""
    return (
        f"{row.variant.name}, {row.payload_bytes:,} bytes{batch}, parallelism {row.parallelism}, "
        f"{row.load_name}"
    )


_ABOUT = {
    "broadcast": (
        "Model broadcast",
        "One task publishes a model, the Load tasks of each case receive it. Usable is when the "
        "last of them had all bytes in view, loaded when it had read them all, both counted from "
        "the moment the bytes were ready to publish. Memory is what the fullest host used beyond "
        "what it had before, in models.",
    ),
    "peers": ("Oka beside other systems", ""),
    "serve": (
        "Requests over HTTP",
        "Each run starts its server anew. Under closed load, clients ask again as soon as they are "
        "answered (wrk). Under half load, requests arrive at random moments, at half of the "
        "server's own closed rate, and their latency is from then on. Load 4: as many times that "
        "rate arrive; what is answered counts. CPU time is that of all processes of the server.",
    ),
    "sustainable": ("Sustainable rate", ""),
    "testbed": ("Word count across hosts", ""),
    "word_count": ("Word count", ""),
}
_MOST_ROWS = 12
_SHORT_COMMIT = 10
