"""Patterns find what a search in plain Python finds, in any order, batches and tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from operators.patterns import (
    FollowedBy,
    FollowedByAny,
    Next,
    NotFollowedBy,
    NotNext,
    Stage,
    Then,
)
from tests.part import examples
from tests.patterns import after_skipping, flat, matches, search
from tests.windowing import Event, Record, Tasks, us

KINDS = "abcd"


def fits(kinds: str, reads_matched: bool) -> Any:
    """A condition on what kind of event it is, which may take the matched events, too."""

    def alone(event: Record) -> bool:
        return KINDS[event[2] % 4] in kinds

    def with_others(event: Record, so_far: dict[str, list[Record]]) -> bool:
        return alone(event) and all(other[2] < event[2] for own in so_far.values() for other in own)

    return with_others if reads_matched else alone


@st.composite
def patterns(draw: st.DrawFn) -> Then:
    stages: list[Stage] = []
    conditions = st.sampled_from(["a", "b", "c", "ab", "bc", "acd", "d"])
    kinds = [FollowedBy, FollowedByAny, Next]
    for number in range(draw(st.integers(1, 4))):
        before = stages[-1] if stages else None
        may_be_not = before is not None and not before.may_be_left_out
        if may_be_not and draw(st.integers(0, 4)) == 0:
            kind = draw(st.sampled_from([NotFollowedBy, NotNext]))
            if not before.greedy:
                stages.append(kind(f"n{number}", fits(draw(conditions), False)))
        low = draw(st.integers(0, 2))
        high = draw(st.one_of(st.none(), st.integers(max(low, 1), 3)))
        plain = draw(st.booleans())
        until = None
        if not plain and high != 1 and draw(st.integers(0, 3)) == 0:
            until = fits(draw(conditions), False)
        ahead = not stages or not stages[-1].greedy
        greedy = not plain and until is None and high != max(low, 1) and draw(st.booleans())
        times = 1 if plain else (low if ahead else max(low, 1), high)
        stages.append(
            draw(st.sampled_from(kinds))(
                f"s{number}",
                fits(draw(conditions), draw(st.integers(0, 5)) == 0),
                times=times,
                contiguity=draw(st.sampled_from(["next", "followed_by", "followed_by_any"])),
                greedy=greedy,
                until=until,
            )
        )
    if stages[-1].greedy or all(stage.may_be_left_out for stage in stages):
        stages.append(FollowedBy("last", fits(draw(conditions), False)))
    elif not stages[-1].may_be_left_out and draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from([NotFollowedBy, NotNext]))
        stages.append(kind("not", fits(draw(conditions), False)))
    return Then(*stages)


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """Records that come out of order, with watermarks between them, which none comes behind."""
    events: list[Event] = []
    watermark = -1
    for number in range(draw(st.integers(1, 16))):
        if draw(st.integers(0, 3)) == 0:
            watermark += draw(st.integers(0, 9))
            events.append(watermark)
        time = watermark + draw(st.integers(1, 9))
        events.append((draw(st.sampled_from("xxy")), time, 4 * number + draw(st.integers(0, 3))))
    return events


def run(stream: Any, events: list[Event], data: Any) -> list[Any]:
    """What tasks find which stop twice, and go on with another number of tasks."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=2)))
    tasks = Tasks(stream, data.draw(st.integers(1, 4)))
    found: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        if begin:
            tasks = Tasks(stream, data.draw(st.integers(1, 4)), tasks.snapshot())
        batch_size = data.draw(st.integers(1, 7))
        found += [each for given in tasks.take(events[begin:end], batch_size) for each in given]
    found += [each for given in tasks.end() for each in given]
    assert tasks.late == []
    return [flat(match) for match in found]


def ordered(events: list[Event]) -> dict[Any, list[Record]]:
    """The records of each key in the order of time."""
    of_keys: dict[Any, list[Record]] = {}
    records = [event for event in events if isinstance(event, tuple)]
    for record in sorted(records, key=lambda record: record[1]):
        of_keys.setdefault(record[0], []).append(record)
    return of_keys


@settings(max_examples=examples(80))
@given(pattern=patterns(), events=runs(), within=st.none() | st.integers(1, 20), data=st.data())
def test_all_matches(pattern: Then, events: list[Event], within: int | None, data: Any) -> None:
    if isinstance(pattern.stages[-1], NotFollowedBy):
        within = within or 7
    stream = matches(pattern, within=None if within is None else us(within))
    wanted = [found for own in ordered(events).values() for found in search(pattern, own, within)]
    assert Counter(run(stream, events, data)) == Counter(wanted)


@settings(max_examples=examples(40))
@given(
    pattern=patterns(),
    events=runs(),
    within=st.none() | st.integers(1, 20),
    after_match=st.sampled_from(["skip_to_next", "skip_past_last_event"]),
    data=st.data(),
)
def test_matches_that_are_not_skipped(
    pattern: Then, events: list[Event], within: int | None, after_match: Any, data: Any
) -> None:
    # without events that must not be: such matches are not complete with their last event
    pattern = Then(*(each for each in pattern.stages if not each.relation.startswith("not")))
    span = None if within is None else us(within)
    own = ordered(events)
    number = {record: at for each in own.values() for at, record in enumerate(each)}

    def ends(found: list[Any]) -> Counter[Any]:
        """The first and last events: of matches that have both alike, one comes."""
        return Counter((match[0][1], match[-1][1]) for match in found)

    wanted: list[Any] = []
    for each in own.values():
        wanted += after_skipping(search(pattern, each, within), after_match, number)
    stream = matches(pattern, within=span, after_match=after_match)
    assert ends(run(stream, events, data)) == ends(wanted)


@settings(max_examples=examples(25))
@given(pattern=patterns(), events=runs(), data=st.data())
def test_at_once_in_the_order_of_arrival(pattern: Then, events: list[Event], data: Any) -> None:
    if isinstance(pattern.stages[-1], NotFollowedBy):
        pattern = Then(*pattern.stages[:-1])
    own: dict[Any, list[Record]] = {}
    for event in events:
        if isinstance(event, tuple):
            own.setdefault(event[0], []).append(event)
    wanted = [found for each in own.values() for found in search(pattern, each, None)]
    assert Counter(run(matches(pattern, emit="updates"), events, data)) == Counter(wanted)
