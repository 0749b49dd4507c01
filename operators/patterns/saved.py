"""The matches of a key in the form of a checkpoint: events and nodes that they share come once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operators.patterns.in_order import Waiting
from operators.patterns.matches import KeyMatches, Match


def saved(waiting: Iterable[Waiting], kept: KeyMatches | None) -> tuple[Any, ...]:
    """The records that wait; then nodes, the matches under way, and those that are complete."""
    nodes: list[tuple[int, int, int, int]] = []
    events: list[Any] = []
    of_numbers: dict[int, int] = {}
    places: dict[int, int] = {}

    def place_of(node: Any) -> int:
        """The place of a node, behind the one before it."""
        chain = []
        while node is not None and id(node) not in places:
            chain.append(node)
            node = node[0]
        for each in reversed(chain):
            before, stage, event, number = each
            if number not in of_numbers:
                of_numbers[number] = len(events)
                events.append(event)
            places[id(each)] = len(nodes)
            nodes.append(
                (-1 if before is None else places[id(before)], stage, of_numbers[number], number)
            )
        return places[id(chain[0])] if chain else places[id(node)]

    under_way: list[tuple[int, int, int, int]] = []
    complete: list[tuple[int, int, int]] = []
    if kept is not None:
        for state, own in kept.of_state.items():
            for node, first, start_us in own:
                under_way.append((state, place_of(node), first, start_us))
        complete = [(place_of(node), first, start_us) for node, first, start_us in kept.complete]
    records = [(time_us, number, record) for time_us, number, _, record in waiting]
    return records, events, nodes, under_way, complete


def restored(parts: Iterable[Any]) -> tuple[list[tuple[int, int, Any]], KeyMatches, int]:
    """The records that wait, the matches, and the highest number, of what `saved` gave."""
    records, events, kept_nodes, under_way, complete = parts
    nodes: list[Any] = []
    last = max((number for _, number, _ in records), default=0)
    for before, stage, event, number in kept_nodes:
        nodes.append((None if before < 0 else nodes[before], stage, events[event], number))
        last = max(last, number)
    kept = KeyMatches()
    for state, node, first, start_us in under_way:
        kept.of_state.setdefault(state, []).append(Match(nodes[node], first, start_us))
    kept.complete = [Match(nodes[node], first, start_us) for node, first, start_us in complete]
    kept.size = len(under_way)
    kept.oldest_us = min((start_us for *_, start_us in under_way), default=0)
    return records, kept, last
