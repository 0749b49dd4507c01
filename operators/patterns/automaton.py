"""The automaton of a pattern: its states, and what an event does in each.

As in Flink's NFA, a state has edges that take an event, ignore it, or proceed: they try the same
event in the next state. A state that waits within a repetition, or for a stage that may be left
out, is there twice: fresh, when it has just been reached, and after it has ignored an event. Only
the fresh one proceeds, so that each way through the automaton is gone once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from operators.patterns.stages import Condition, NotFollowedBy, NotNext, Stage, Then
from operators.patterns.stages import reads_matched as reads_matched_of

Action: TypeAlias = Literal["take", "ignore", "proceed", "stop"]


class Outcome(NamedTuple):
    """What an event does to a match under way in some state."""

    stays: bool
    """Whether the match also goes on in this state without the event."""
    takes: tuple[tuple[int, int | None, bool], ...]
    """With the event: as which stage, in which state it goes on (None if in none), and whether it
    is complete."""
    moves: tuple[int, ...]
    """The other states in which it goes on without the event."""
    completes: bool
    """Whether it is complete without the event."""


STAYS = Outcome(stays=True, takes=(), moves=(), completes=False)
"""Nothing."""


class Test(NamedTuple):
    """A test of the conditions that hold, which are bits."""

    bits: int
    holds: Callable[[int], bool]


class Edge(NamedTuple):
    """An edge from a state."""

    action: Action
    test: Test
    target: int
    stage: int = 0


class State:
    """A state, with the outcomes for the conditions that hold."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.edges: list[Edge] = []
        self.bits = 0
        """The conditions that an outcome depends on."""
        self.alone = 0
        """Those of them that read the event alone."""
        self.reads_matched = 0
        """Those that read the events matched so far, too."""
        self.conditions: list[tuple[int, Condition]] = []
        """All of them, by their bits."""
        self.outcomes: dict[int, Outcome] = {}
        """The outcomes that have come up, by the conditions that hold."""
        self.looks_at_next = False
        """Whether the next event decides, whatever it is."""
        self.waits_for_time = False
        """Whether a match in this state is complete when its time is over."""
        self.is_proven = False
        """The same of the states to which it proceeds, too."""


class Automaton:
    """The states of a pattern; the first is the start."""

    def __init__(self, pattern: Then) -> None:
        self.stages = [stage.name for stage in pattern.events]
        self.conditions: list[tuple[int, Condition]] = []
        """The conditions by their bits, each a single one."""
        self.reads_matched = 0
        """The bits of conditions that read the events matched so far."""
        self.states: list[State] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._events = list(pattern.events)
        self._takes = [self._take(stage) for stage in self._events]
        self._untils = [self._test(stage.until) for stage in self._events]
        self._wheres = [self._test(stage.where) for stage in self._events]
        self._nots: dict[type[Stage], list[list[Test]]] = {
            kind: [[] for _ in range(len(self._events) + 1)] for kind in (NotNext, NotFollowedBy)
        }
        """Tests of events that must not be, by the number of the stage behind them."""
        behind = 0
        for stage in pattern.stages:
            if type(stage) in self._nots:
                self._nots[type(stage)][behind].append(self._test(stage.where) or ALWAYS)
            else:
                behind += 1
        self._final = self._state(("final",), lambda _state: None)
        self.start = self._wait(0, 0, guarded=False)
        for state in self.states:
            for test in self._tests(state.number):
                state.bits |= test.bits
            state.reads_matched = state.bits & self.reads_matched
            state.alone = state.bits & ~self.reads_matched
            state.conditions = [each for each in self.conditions if each[0] & state.bits]
            state.is_proven = self._is_proven(state.number)

    @property
    def is_selective(self) -> bool:
        """Whether an event of which no condition holds may be missed, whatever came before."""
        start = self.states[self.start]
        others = (each for each in self.states if each.number not in (self.start, self._final))
        return (
            not self.reads_matched
            and not self.outcome(start, 0).takes
            and all(self._may_miss(state) for state in others)
        )

    def _may_miss(self, state: State) -> bool:
        """Whether a match in this state may miss an event of which no condition holds.

        It would stay there, or go on in states that do together what this one does: a repetition
        that suffices leaves the next stage to another state when an event passes.
        """
        passed = self.outcome(state, 0)
        if passed is STAYS:
            return True
        if passed.takes or passed.completes:
            return False
        then = [*passed.moves, *[state.number] * passed.stays]
        bits = state.bits
        for number in then:
            bits |= self.states[number].bits
        if bits.bit_count() > _MOST_BITS:
            return False
        masks = (true for true in range(bits + 1) if not true & ~bits)
        return all(self._step([state.number], true) == self._step(then, true) for true in masks)

    def _step(self, numbers: list[int], true: int) -> tuple[list[Any], list[int]]:
        """What becomes of a match in these states: how it takes an event, and where it waits."""
        takes: list[Any] = []
        waits: list[int] = []
        for number in numbers:
            found = self._outcome(self.states[number], true)
            takes += found.takes
            waits += [*found.moves, *[number] * found.stays, *[self._final] * found.completes]
        return sorted(takes, key=repr), sorted(waits)

    def outcome(self, state: State, true: int) -> Outcome:
        """What an event does for which of the state's conditions these hold."""
        found = self._outcome(state, true)
        state.outcomes[true] = found = STAYS if found == STAYS else found
        return found

    def _outcome(self, state: State, true: int) -> Outcome:
        takes: list[tuple[int, int | None, bool]] = []
        moves: list[int] = []
        completes = False
        for edge in self._edges_of(state.number, true):
            if edge.action == "stop":
                return Outcome(stays=False, takes=(), moves=(), completes=False)
            if edge.action == "take":
                is_final = self._reaches_final(edge.target, true)
                goes_on = None if edge.target == self._final else edge.target
                takes.append((edge.stage, goes_on, is_final))
            elif edge.target == self._final:
                completes = True
            else:
                moves.append(edge.target)
        others = tuple(target for target in moves if target != state.number)
        return Outcome(len(others) < len(moves), tuple(takes), others, completes)

    def _edges_of(self, number: int, true: int) -> Iterator[Edge]:
        """The edges that such an event goes, from this state and those to which it proceeds."""
        for edge in self.states[number].edges:
            if edge.test.holds(true):
                if edge.action == "proceed":
                    yield from self._edges_of(edge.target, true)
                else:
                    yield edge

    def _reaches_final(self, number: int, true: int) -> bool:
        """Whether a match in this state is complete: nothing that it waits for has to come."""
        state = self.states[number]
        return number == self._final or any(
            edge.action == "proceed"
            and edge.test.holds(true)
            and self._reaches_final(edge.target, true)
            for edge in (() if state.looks_at_next else state.edges)
        )

    def _is_proven(self, number: int) -> bool:
        return self.states[number].waits_for_time or any(
            edge.action == "proceed" and self._is_proven(edge.target)
            for edge in self.states[number].edges
        )

    def _tests(self, number: int, after: bool = False) -> Iterator[Test]:
        """The tests on the ways from this state, and those of what may complete a match."""
        for edge in self.states[number].edges:
            if edge.action == "proceed" or not after:
                yield edge.test
            if edge.action == "proceed":
                yield from self._tests(edge.target, after)
            if edge.action == "take" and not after:
                yield from self._tests(edge.target, after=True)

    def _enter(self, stage: int, since: int, guarded: bool) -> int:
        """The state in front of a stage, or behind the last.

        Events that must not follow count from the stage `since` on: those behind it were left out.
        `guarded` is whether the stage before is greedy: then no event that fits it may pass.
        """
        if self._nots[NotNext][stage]:
            return self._state(
                ("not_next", stage, since, guarded), partial(self._not_next, stage, since, guarded)
            )
        if stage < len(self._events):
            return self._wait(stage, since, guarded)
        if self._nots[NotFollowedBy][stage]:
            return self._end()
        return self._final

    def _not_next(self, stage: int, since: int, guarded: bool, state: State) -> None:
        nots = self._nots[NotNext][stage]
        guard = self._guard(stage, guarded)
        for test in nots:
            state.edges.append(Edge("stop", both(test, guard), 0))
        none = both(*(no(test) for test in nots), guard)
        state.looks_at_next = True
        if stage < len(self._events):
            state.edges.append(Edge("proceed", none, self._wait(stage, since, guarded=False)))
        elif self._nots[NotFollowedBy][stage]:
            state.edges.append(Edge("proceed", none, self._end()))
            return
        if all(each.may_be_left_out for each in self._events[stage:]):
            state.waits_for_time = True
            state.edges.append(Edge("ignore", none, self._final))

    def _end(self) -> int:
        """The state in which only time completes a match."""

        def make(state: State) -> None:
            state.waits_for_time = True
            nots = self._nots[NotFollowedBy][-1]
            state.edges += [Edge("stop", test, 0) for test in nots]
            state.edges.append(Edge("ignore", both(*map(no, nots)), state.number))

        return self._state(("end",), make)

    def _wait(self, stage: int, since: int, guarded: bool, fresh: bool = True) -> int:
        """The state that waits for the first event of a stage."""

        def make(state: State) -> None:
            of = self._events[stage]
            guard = self._guard(stage, guarded)
            for nots in self._nots[NotFollowedBy][since : stage + 1]:
                state.edges += [Edge("stop", both(test, guard), 0) for test in nots]
            self._add_take(state, stage, 1, guard)
            if of.may_be_left_out and fresh:
                self._add_proceed(state, stage, since, guard)
            target = state.number
            if of.relation != "next":
                if of.may_be_left_out and fresh:
                    target = self._wait(stage, since, guarded=False, fresh=False)
                passes = self._passes(stage, of.relation)
                state.edges.append(Edge("ignore", both(passes, guard), target))

        return self._state(("wait", stage, since, guarded, fresh), make)

    def _repeat(self, stage: int, taken: int, fresh: bool = True) -> int:
        """The state that has some events of a stage, and may take more."""

        def make(state: State) -> None:
            of = self._events[stage]
            state.edges += [Edge("stop", test, 0) for test in self._nots[NotFollowedBy][stage + 1]]
            self._add_take(state, stage, taken + 1, ALWAYS)
            suffices = taken >= of.least
            if suffices and fresh:
                self._add_proceed(state, stage, stage + 1, ALWAYS)
            if of.contiguity != "next":
                target = state.number
                if suffices and fresh:
                    target = self._repeat(stage, taken, fresh=False)
                passes = self._passes(stage, of.contiguity)
                until = self._untils[stage]
                test = passes if until is None else both(passes, no(until))
                state.edges.append(Edge("ignore", test, target))

        return self._state(("repeat", stage, taken, fresh), make)

    def _add_take(self, state: State, stage: int, taken: int, guard: Test) -> None:
        of = self._events[stage]
        if of.most is None:
            target = self._repeat(stage, min(taken, of.least))
        elif taken < of.most:
            target = self._repeat(stage, taken)
        else:
            target = self._enter(stage + 1, stage + 1, of.greedy)
        state.edges.append(Edge("take", both(self._takes[stage], guard), target, stage))

    def _add_proceed(self, state: State, stage: int, since: int, guard: Test) -> None:
        """The way past a stage: behind a greedy one guarded, but not after its `until`."""
        of, until = self._events[stage], self._untils[stage]
        if of.greedy and until is not None:
            target = self._enter(stage + 1, since, guarded=False)
            state.edges.append(Edge("proceed", both(until, guard), target))
            guard = both(no(until), guard)
        state.edges.append(Edge("proceed", guard, self._enter(stage + 1, since, of.greedy)))

    def _passes(self, stage: int, contiguity: str) -> Test:
        """Whether an event may lie in front of one of this stage."""
        where = self._wheres[stage]
        if contiguity == "followed_by_any":
            return ALWAYS
        return NEVER if where is None else no(where)

    def _guard(self, stage: int, guarded: bool) -> Test:
        return no(self._takes[stage - 1]) if guarded else ALWAYS

    def _take(self, stage: Stage) -> Test:
        where, until = self._test(stage.where), self._test(stage.until)
        return both(*(test for test in (where, until and no(until)) if test is not None))

    def _test(self, condition: Condition | None) -> Test | None:
        if condition is None:
            return None
        bit = next((bit for bit, known in self.conditions if known is condition), 0)
        if not bit:
            bit = 1 << len(self.conditions)
            self.conditions.append((bit, condition))
            if reads_matched_of(condition):
                self.reads_matched |= bit
        return Test(bit, lambda true: bool(true & bit))

    def _state(self, key: tuple[Any, ...], make: Callable[[State], None]) -> int:
        """The number of a state, which is made when it is asked for first."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.states)
            state = State(number)
            self.states.append(state)
            make(state)
        return number


def no(test: Test) -> Test:
    """The opposite."""
    return Test(test.bits, lambda true: not test.holds(true))


def both(*tests: Test) -> Test:
    """All of them."""
    bits = 0
    for test in tests:
        bits |= test.bits
    return Test(bits, lambda true: all(test.holds(true) for test in tests))


ALWAYS = Test(0, lambda true: True)  # noqa: ARG005 - whatever holds
NEVER = no(ALWAYS)


_MOST_BITS = 8
"""So many conditions are tried in all combinations."""
