"""What events and time do to the matches under way of a key."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, TypeAlias

from operators.patterns.automaton import STAYS, Automaton, Outcome, State
from operators.patterns.matches import FEW, KeyMatches, Match, in_chain
from operators.patterns.skipping import Skip
from operators.patterns.stages import Matched

Plan: TypeAlias = tuple[
    list[tuple[int, Outcome | list[Outcome]]], tuple[tuple[int, int | None, bool], ...]
]
"""What an event does in each state, to all matches or to each, and how a match begins with it."""


class Matcher:
    """Takes the events of keys in their order, and gives matches.

    An event costs as much as there are states with matches that it concerns: matches in a state
    whose conditions read the event alone have one outcome.
    """

    def __init__(
        self, automaton: Automaton, skip: Skip | None, within_us: int | None, *, in_order: bool
    ) -> None:
        """`in_order` is whether a key's events come in the order of their times."""
        self._automaton = automaton
        self._states = automaton.states
        self._start = automaton.states[automaton.start]
        self._skip = skip
        self._within_us = within_us
        self._in_order = in_order
        self.is_exact = skip is not None or any(state.is_proven for state in self._states)
        """Whether the end of a match's time may give results."""
        self._first = [each for each in self._start.conditions if each[0] & self._start.alone]
        self.only = self._first[0] if len(self._first) == 1 else None
        """The only condition that `holds` asks, with its bit, for loops that ask it themselves."""
        self.idle: set[int] = set()
        """What `holds` has given of events with which no match begins."""
        self._selects = not self.is_exact and automaton.is_selective

    def concerned(self, events: list[Any]) -> list[Any] | None:
        """Of each event, whether it may change anything; None is that all may.

        So may all if a condition fails: it need not be asked about each in the end.
        """
        if not self._selects:
            return None
        concerned: list[Any] = [False] * len(events)
        try:
            for _, holds in self._automaton.conditions:
                both = zip(concerned, events, strict=True)
                concerned = [known or holds(event) for known, event in both]
        except Exception:  # noqa: BLE001 - it comes again where it matters
            return None
        return concerned

    def holds(self, event: Any) -> int:
        """Which conditions for the begin of a match hold, of those that read the event alone."""
        true = 0
        for bit, condition in self._first:
            if condition(event):
                true |= bit
        return true

    def plan(self, kept: KeyMatches | None, event: Any, true: int) -> Plan | None:
        """What an event does to the matches of its key; None is nothing.

        `true` is what `holds` gives. It calls further conditions, which may raise, and changes
        nothing.
        """
        planned: list[tuple[int, Outcome | list[Outcome]]] = []
        start = self._start
        seen, first = start.alone, true
        if kept is not None:
            for number, own in kept.of_state.items():
                state = self._states[number]
                alone = state.alone
                if missing := alone & ~seen:
                    for bit, condition in state.conditions:
                        if bit & missing and condition(event):
                            true |= bit
                    seen |= missing
                if state.reads_matched:
                    each = [self._outcome(state, event, match.node, true) for match in own]
                    planned.append((number, each))
                    continue
                outcome = state.outcomes.get(true & alone) or self._of(state, true & alone)
                if outcome is not STAYS:
                    planned.append((number, outcome))
        if first in self.idle:
            return (planned, ()) if planned else None
        if start.reads_matched:
            begins = self._outcome(start, event, None, first).takes
        elif not (begins := self._of(start, first).takes):
            self.idle.add(first)
        return (planned, begins) if planned or begins else None

    def do(
        self, plan: Plan, kept: KeyMatches, event: Any, time_us: int, number: int
    ) -> list[Matched]:
        """Do what was planned with the event; returns the matches that are complete."""
        planned, begins = plan
        added: list[tuple[int, Match]] = []
        complete: list[Match] = []
        for state, outcome in planned:
            own = kept.of_state[state]
            outcomes = outcome if isinstance(outcome, list) else [outcome] * len(own)
            left: list[Match] = []
            for match, (stays, takes, moves, completes) in zip(own, outcomes, strict=True):
                if self._within_us is not None and (
                    abs(time_us - match.start_us) >= self._within_us
                ):
                    if not self._in_order:  # an event that still comes may be in its time
                        left.append(match)
                    continue
                if stays:
                    left.append(match)
                for stage, target, is_complete in takes:
                    node = (match.node, stage, event, number)
                    longer = Match(node, match.first, match.start_us)
                    if target is not None:
                        added.append((target, longer))
                    if is_complete:
                        complete.append(longer)
                added += [(target, match) for target in moves]
                if completes:
                    complete.append(match)
            kept.set(state, left, len(own))
        for stage, target, is_complete in begins:
            match = Match((None, stage, event, number), number, time_us)
            if target is not None:
                added.append((target, match))
            if is_complete:
                complete.append(match)
        if added:
            self._add(kept, added, time_us)
        return self._given(kept, complete)

    def expire(self, kept: KeyMatches, time_us: int) -> list[Matched]:
        """Drop matches whose time is over; returns those that this completes."""
        assert self._within_us is not None
        last = time_us - self._within_us
        complete: list[Match] = []
        if kept.oldest_us <= last:
            for state, own in list(kept.of_state.items()):
                if self._states[state].is_proven:
                    complete += [match for match in own if match.start_us <= last]
                kept.set(state, [match for match in own if match.start_us > last], len(own))
            starts = (match.start_us for own in kept.of_state.values() for match in own)
            kept.oldest_us = min(starts, default=0)
            kept.sweep_at = max(FEW, 2 * kept.size)
        return self._given(kept, complete)

    def finish(self, kept: KeyMatches) -> list[Matched]:
        """The matches that are complete if nothing follows any more."""
        complete = [
            match
            for state, own in kept.of_state.items()
            if self._states[state].is_proven
            for match in own
        ]
        kept.of_state.clear()
        kept.size = 0
        return self._given(kept, complete)

    def _add(self, kept: KeyMatches, added: list[tuple[int, Match]], time_us: int) -> None:
        kept.oldest_us = min(kept.oldest_us, time_us) if kept.of_state else time_us
        for state, match in added:
            kept.oldest_us = min(kept.oldest_us, match.start_us)
            if (own := kept.of_state.get(state)) is None:
                kept.of_state[state] = [match]
            else:
                own.append(match)
        kept.size += len(added)

    def _given(self, kept: KeyMatches, complete: list[Match]) -> list[Matched]:
        if not complete and not kept.complete:
            return []
        if self._skip is None:
            complete.sort(key=attrgetter("first"))
        else:
            complete = self._skip.take(kept, complete)
        return [self._named(match.node) for match in complete]

    def _of(self, state: State, true: int) -> Outcome:
        """The outcome in a state, if of its conditions these hold."""
        return state.outcomes.get(true) or self._automaton.outcome(state, true)

    def _outcome(self, state: State, event: Any, node: Any, true: int) -> Outcome:
        """The outcome for a match, where conditions read its events; of others, these hold."""
        true &= state.alone
        matched = self._named(node)
        for bit, condition in state.conditions:
            if bit & state.reads_matched and condition(event, matched):
                true |= bit
        return self._of(state, true)

    def _named(self, node: Any) -> Matched:
        """The events of a match by stage, in the order of the stages."""
        names = self._automaton.stages
        found: Matched = {}
        for stage, event, _ in reversed(list(in_chain(node))):
            found.setdefault(names[stage], []).append(event)
        return found
