"""A figure together with its name and what it shows in words."""

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
    """What somebody who cannot see it should know."""
    note: str
    """How to read it."""
    figure: Figure
