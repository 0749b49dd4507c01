"""A figure with its name and a description in words."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """One figure of a result."""

    name: str
    """Of its file, without folder and suffix; letters, digits and _ only."""
    title: str
    alt: str
    """A description for readers who cannot see it."""
    note: str
    """How to read it."""
    figure: Figure
