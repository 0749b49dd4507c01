"""Patterns in tests: the operator's tasks without a job, and what plain Python finds.

Records are (key, time, number), as in `tests.windowing`. The search in plain Python knows no
states: it tries the events that may come next, as the rules of contiguity name them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from operators import Stream, source
from operators.patterns import NotFollowedBy, NotNext, Stage, Then
from operators.patterns.stages import reads_matched
from operators.sources import Collection
from tests.windowing import Record

Found = tuple[tuple[str, Record], ...]
"""The stages and events of a match, in their order."""


def matches(pattern: Then, **settings: Any) -> Stream[Any]:
    """A pattern in records by their first item, with their second as their time."""
    timed = source(Collection([])).with_event_time(1)
    return timed.key_by(0).pattern(pattern, **settings)


def flat(match: dict[str, list[Record]]) -> Found:
    """A match as the search gives it."""
    return tuple((stage, event) for stage, events in match.items() for event in events)


def search(pattern: Then, events: list[Record], within: int | None) -> list[Found]:
    """All matches in the events of a key, which are in order."""
    return list(_Search(pattern, events, within).all())


def after_skipping(found: list[Found], after_match: str, number: dict[Record, int]) -> list[Found]:
    """The matches of a key that are left, of those that are complete with their last event.

    `number` has the place of each event.
    """
    left: list[Found] = []
    last = -1

    def ends(match: Found) -> tuple[int, int]:
        return number[match[0][1]], number[match[-1][1]]

    for match in sorted(found, key=ends):
        first, end = ends(match)
        if first > last:
            left.append(match)
            last = first if after_match == "skip_to_next" else end
    return left


class _So(NamedTuple):
    """What has been chosen, and what must not come until the next choice."""

    chosen: tuple[tuple[int, int], ...]
    """Stages and places of events."""
    nots: tuple[Any, ...] = ()
    not_next: tuple[Any, ...] = ()

    @property
    def place(self) -> int:
        return self.chosen[-1][1] if self.chosen else -1


class _Search:
    def __init__(self, pattern: Then, events: list[Record], within: int | None) -> None:
        self.stages = list(pattern.events)
        self.events = events
        self.within = within
        self.nots: dict[type, list[tuple[Any, ...]]] = {
            kind: [() for _ in range(len(self.stages) + 1)] for kind in (NotFollowedBy, NotNext)
        }
        behind = 0
        for stage in pattern.stages:
            if type(stage) in self.nots:
                self.nots[type(stage)][behind] += (stage.where,)
            else:
                behind += 1

    def all(self) -> Iterator[Found]:
        for so in self._wait(0, _So(())):
            yield tuple((self.stages[stage].name, self.events[at]) for stage, at in so.chosen)

    def _wait(self, number: int, so: _So) -> Iterator[_So]:
        so = so._replace(
            nots=so.nots + self.nots[NotFollowedBy][number],
            not_next=so.not_next + self.nots[NotNext][number],
        )
        if number == len(self.stages):
            if self._is_over(so):
                yield so
            return
        stage = self.stages[number]
        if stage.may_be_left_out:
            yield from self._wait(number + 1, self._behind(stage, so))
        for at in self._places(stage, stage.relation, so):
            if self._may_pass(so, at):
                yield from self._repeat(number, 1, so._replace(chosen=(*so.chosen, (number, at))))

    def _repeat(self, number: int, taken: int, so: _So) -> Iterator[_So]:
        stage, at = self.stages[number], so.place
        so = _So(so.chosen)
        if self._is_too_late(so, at):
            return
        if taken >= stage.least:
            yield from self._wait(number + 1, self._behind(stage, so))
        if stage.most is None or taken < stage.most:
            not_next = self.nots[NotNext][number + 1] if taken >= stage.least else ()
            behind = _So(so.chosen, self.nots[NotFollowedBy][number + 1], not_next)
            for place in self._places(stage, stage.contiguity, behind, stage.until):
                if self._may_pass(behind, place):
                    longer = so._replace(chosen=(*so.chosen, (number, place)))
                    yield from self._repeat(number, taken + 1, longer)

    def _behind(self, stage: Stage, so: _So) -> _So:
        """What must not come behind a greedy stage: an event that it would take."""
        return so._replace(nots=(*so.nots, stage.where)) if stage.greedy else so

    def _places(self, stage: Stage, relation: str, so: _So, until: Any = None) -> Iterator[int]:
        """Where the next event of a stage may be."""
        for place in range(so.place + 1, len(self.events)):
            event = self.events[place]
            fits = self._holds(stage.where, event, so)
            ends = stage.until is not None and stage.until(event)
            if fits and not ends:
                yield place
            if not so.chosen:
                continue
            if relation == "next" or (relation == "followed_by" and fits):
                return
            if until is not None and ends:
                return

    def _may_pass(self, so: _So, place: int) -> bool:
        """Whether no event from the last chosen one to this place is one that must not be."""
        passed = self.events[so.place + 1 if so.chosen else place : place + 1]
        return not any(
            self._holds(test, event, so) for event in passed for test in so.nots
        ) and not any(test(passed[0]) for test in so.not_next)

    def _is_over(self, so: _So) -> bool:
        """Whether no event behind a match is one that must not be."""
        behind = [
            event
            for at, event in enumerate(self.events)
            if at > so.place and not self._is_too_late(so, at)
        ]
        nots = self.nots[NotFollowedBy][-1]
        return not any(test(event) for event in behind for test in nots) and not any(
            test(event) for event in behind[:1] for test in so.not_next
        )

    def _holds(self, condition: Any, event: Record, so: _So) -> bool:
        if condition is None or not reads_matched(condition):
            return condition is None or bool(condition(event))
        matched: dict[str, list[Record]] = {}
        for stage, at in so.chosen:
            matched.setdefault(self.stages[stage].name, []).append(self.events[at])
        return bool(condition(event, matched))

    def _is_too_late(self, so: _So, at: int) -> bool:
        start = self.events[so.chosen[0][1]][1]
        return self.within is not None and self.events[at][1] - start >= self.within
