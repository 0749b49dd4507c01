"""`KeyedStream.pattern`."""

from datetime import timedelta
from typing import Any

from engine.errors import GraphError
from engine.graph.checks import check_integer
from engine.graph.declaration import Input
from engine.graph.operator import OnError
from operators.aggregates import Emit, check_emit
from operators.durations import check_duration, microseconds
from operators.event_time import Time, Unit, time_of
from operators.keys import Key
from operators.patterns.operator import Patterns
from operators.patterns.stages import AfterMatch, NotFollowedBy, Then, check_after_match
from operators.stream import Stream, check_on_error, then


class KeyedPatterns:
    """The patterns of a `KeyedStream`."""

    _inputs: tuple[Input, ...]
    _key: Key
    _paired: bool

    def pattern(
        self,
        pattern: Then,
        *,
        within: timedelta | None = None,
        after_match: AfterMatch = "no_skip",
        emit: Emit = "final",
        time: Time = None,
        unit: Unit = "us",
        max_matches: int = 100_000,
        on_error: OnError = "fail",
    ) -> Stream[dict[str, list[Any]]]:
        """Find sequences of events of a key: a small CEP, with the semantics of Flink's.

        A match is a dict of the events of each stage, in lists, in the order of the stages.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.patterns import FollowedBy, NotFollowedBy, Stage, Then
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> paid = source(Collection([
            ...     ("ann", 1, 0), ("bob", 900, 3), ("ann", 30, 5), ("ann", 800, 9)]))
            >>> cards = paid.with_event_time(2, unit="s").key_by(0)
            >>> stolen = Then(
            ...     Stage("small", lambda payment: payment[1] < 10),
            ...     FollowedBy("large", lambda payment, so_far:
            ...         payment[1] > 100 * so_far["small"][0][1]))
            >>> found = cards.pattern(stolen, within=timedelta(minutes=1))
            >>> engine.testing.run(found.sink(Collect()))["collect"]
            [{'small': [('ann', 1, 0)], 'large': [('ann', 800, 9)]}]
            >>> quiet = Then(
            ...     Stage("large", lambda payment: payment[1] > 500),
            ...     NotFollowedBy("another", lambda payment: True))
            >>> found = cards.pattern(quiet, within=timedelta(minutes=1))
            >>> engine.testing.run(found.sink(Collect()))["collect"]
            [{'large': [('bob', 900, 3)]}, {'large': [('ann', 800, 9)]}]

        Events of a key come in the order of their times, and of arrival where times are equal, when
        the watermark has come to them. One at the watermark or behind it is late: it is left out,
        counted, and goes to `.side("late")`. With `emit="updates"` events come at once, in the
        order of arrival. Times are those of `with_event_time`, or what `time` says, as in `window`.

        Each event of a match is less than `within` from its first one. A pattern that ends with
        `NotFollowedBy` needs it: a match comes when the watermark proves that no such event came in
        that time. One that ends with `NotNext` comes with the next event, or when time is over.

        A match begins with each event that fits the first stage. `after_match` says which others
        count after a match, in the order of their first events: all ("no_skip"); none that begins
        with the same event ("skip_to_next"), or with any up to its last event
        ("skip_past_last_event"); or none that begins before the first or last event of a stage
        (`SkipToFirst("small")`, `SkipToLast("small")`). But for "no_skip", a match waits until none
        is under way that began before it.

        Matches under way are kept for as long as `within` lets them; those that have begun alike
        share their events. Without it they are kept until the pattern decides. A key with more than
        `max_matches` of them fails the job; their number is `partial_matches` in the job's
        statistics. With `on_error`, as in `map`, a record without a time, or one that a condition
        fails on, changes nothing. A match has no time of its own: behind it, say `time=...`, such
        as `time=lambda match: match["large"][-1][2]`; one that came late by its nature, at the end
        of `within` or by `after_match`, may then be behind the watermark.
        """
        if not isinstance(pattern, Then):
            raise GraphError(
                f"pattern() got {type(pattern).__name__} {pattern!r:.80}, expected a Then",
                hint='Then(Stage("small", f), FollowedBy("large", g))',
            )
        within_us = None
        if within is not None:
            check_duration("pattern(): within", within)
            within_us = microseconds(within)
        elif isinstance(last := pattern.stages[-1], NotFollowedBy):
            raise GraphError(
                f"pattern() got {last.name!r}, events that must not follow, at the end, expected "
                "within=...: how long must they not follow?",
                hint="within=timedelta(minutes=1)",
            )
        check_after_match(after_match, pattern)
        check_emit("pattern", emit)
        check_integer("pattern(): max_matches", max_matches, 1)
        check_on_error("pattern", on_error)
        operator = Patterns(
            pattern,
            self._key,
            self._paired,
            time_of(self._inputs, "pattern", time, unit),
            within_us,
            after_match,
            emit,
            max_matches,
            on_error,
        )
        return then(self._inputs, operator, "pattern")
