"""Which matches are left out after a match, as Flink's AfterMatchSkipStrategy has it."""

from __future__ import annotations

from bisect import insort
from operator import attrgetter

from operators.patterns.matches import KeyMatches, Match, in_chain
from operators.patterns.stages import AfterMatch, SkipToFirst, SkipToLast, Then


class Skip:
    """Gives complete matches in the order of their first events, and drops those that they skip.

    A match waits while one is under way that began before it, and could still skip it. Of matches
    that begin with the same event and are complete together, that with the earliest events comes
    first.
    """

    def __init__(self, after_match: AfterMatch, pattern: Then) -> None:
        self._after_match = after_match
        self._stage = -1
        if isinstance(after_match, SkipToFirst | SkipToLast):
            self._stage = [stage.name for stage in pattern.events].index(after_match.stage)

    @staticmethod
    def of(after_match: AfterMatch, pattern: Then) -> Skip | None:
        """None where all matches count."""
        return None if after_match == "no_skip" else Skip(after_match, pattern)

    def take(self, kept: KeyMatches, complete: list[Match]) -> list[Match]:
        """Those that are due, of these and of those that waited."""
        for match in sorted(complete, key=_numbers):
            insort(kept.complete, match, key=attrgetter("first"))
        found: list[Match] = []
        while kept.complete:
            match = kept.complete[0]
            if any(other.first < match.first for own in kept.of_state.values() for other in own):
                break
            found.append(match)
            del kept.complete[0]
            self._drop(kept, self._last_skipped(match))
        return found

    def _last_skipped(self, match: Match) -> int:
        """The number of the last event with which no other match may begin."""
        if self._after_match == "skip_to_next":
            return match.first
        if self._after_match == "skip_past_last_event":
            return next(number for _, _, number in in_chain(match.node))
        numbers = [number for stage, _, number in in_chain(match.node) if stage == self._stage]
        if not numbers:
            return -1
        return (numbers[-1] if isinstance(self._after_match, SkipToFirst) else numbers[0]) - 1

    def _drop(self, kept: KeyMatches, last: int) -> None:
        kept.complete = [match for match in kept.complete if match.first > last]
        for state, own in list(kept.of_state.items()):
            kept.set(state, [match for match in own if match.first > last], len(own))


def _numbers(match: Match) -> list[int]:
    return [number for _, _, number in in_chain(match.node)][::-1]
