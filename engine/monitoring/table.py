"""The table of all metrics, in Markdown."""

from __future__ import annotations

from engine.monitoring.families import all_families


def table() -> str:
    """A row for each name, in the order of their declaration; docs/reference/metrics.md has it."""
    rows = ["| name | kind | labels | |", "|---|---|---|---|"]
    for family in all_families():
        labels = ", ".join(family.labels)
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} |")
    return "\n".join(rows)
