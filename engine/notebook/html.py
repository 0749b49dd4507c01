"""Tables and texts as HTML for a notebook: all text is escaped, and colours are the notebook's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    names: int = 1,
    marked: Collection[int] = (),
) -> str:
    """A table; the first `names` columns are text, the others numbers.

    Without columns it has no head. Rows whose numbers are `marked` stand out; many rows scroll.

    >>> table((), [("a<b",)])
    "<table><tbody><tr><td style='text-align: left'>a&lt;b</td></tr></tbody></table>"
    """
    head = f"<thead><tr>{_cells('th', columns, names)}</tr></thead>" if columns else ""
    body = "".join(
        f"<tr{_MARKED if at in marked else ''}>{_cells('td', row, names)}</tr>"
        for at, row in enumerate(rows)
    )
    whole = f"<table>{head}<tbody>{body}</tbody></table>"
    return f"<div {_SCROLLS}>{whole}</div>" if len(rows) > _MANY_ROWS else whole


def lines(texts: Sequence[str]) -> str:
    """Each text in a line of its own; the first one stands out."""
    first, *others = texts
    told = "".join(f"<br>{escape(text)}" for text in others)
    return f"<div><b>{escape(first)}</b>{told}</div>"


def printed(text: str) -> str:
    """A text as it would be on a terminal, such as a traceback; nothing for an empty one."""
    return f"<pre>{escape(text)}</pre>" if text else ""


def _cells(tag: str, texts: Sequence[str], names: int) -> str:
    return "".join(
        f"<{tag} {_LEFT if at < names else _RIGHT}>{escape(text)}</{tag}>"
        for at, text in enumerate(texts)
    )


_LEFT = "style='text-align: left'"
_RIGHT = "style='text-align: right'"
_MARKED = " style='color: #d33'"
"""A red that can be read on white and on black."""
_SCROLLS = "style='max-height: 40em; overflow: auto'"
_MANY_ROWS = 40
