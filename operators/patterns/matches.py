"""The matches under way of one key.

A match is a chain of nodes, from its last event to its first. Matches that have begun alike share
their nodes: a new event adds one node to each, and copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Match(NamedTuple):
    """A match, complete or under way."""

    node: Any
    """Its last event: the node of the event before or None, the stage, the event, its number."""
    first: int
    """The number of its first event: events of a key have numbers in their order."""
    start_us: int
    """The time of its first event."""


class KeyMatches:
    """What is kept of one key."""

    __slots__ = ("complete", "due_us", "of_state", "oldest_us", "size", "sweep_at")

    def __init__(self) -> None:
        self.of_state: dict[int, list[Match]] = {}
        """The matches under way, by the number of their state."""
        self.complete: list[Match] = []
        """Complete matches that wait for others, which began before them."""
        self.size = 0
        """The number of all that are under way."""
        self.oldest_us = 0
        """No match under way began before this time."""
        self.sweep_at = FEW
        """With so many, those whose time is over are looked for."""
        self.due_us: int | None = None
        """The watermark at which the key is looked at next; None if it need not be."""

    def __bool__(self) -> bool:
        return bool(self.of_state or self.complete)

    def set(self, state: int, matches: list[Match], before: int) -> None:
        """Replace the matches in a state, of which there were so many."""
        self.size += len(matches) - before
        if matches:
            self.of_state[state] = matches
        else:
            del self.of_state[state]


def in_chain(node: Any) -> Iterator[tuple[int, Any, int]]:
    """The stage, the event and its number, from the last to the first."""
    while node is not None:
        node, stage, event, number = node
        yield stage, event, number


FEW = 64
"""Fewer matches than this are not worth a search for old ones."""
