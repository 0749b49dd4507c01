"""The stages of a pattern: what a user says about the events that make a match."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from engine.errors import GraphError
from operators.elementwise import check_function

Condition: TypeAlias = Callable[..., Any]
"""A function of an event; or of an event and the events matched so far, lists by stage."""

Contiguity: TypeAlias = Literal["next", "followed_by", "followed_by_any"]
"""Which events may lie between two of a match: none; those that do not fit; all."""


@dataclass(frozen=True)
class Stage:
    """Events of a match under one name: `Stage("large", lambda payment: payment["amount"] > 500)`.

    `where` says whether an event fits: a function of the event, or of the event and a dict of the
    events that the match has so far, lists by stage. Without it, every event does. It must depend
    on nothing else, since it is called once for an event, whatever number of matches are under way.

    A stage is one event; with `times=3`, three; with `times=(2, 4)`, two to four; with
    `times=(1, None)`, one or more. Between these events others may lie, as `contiguity` says:
    those that do not fit ("followed_by"), none at all ("next"), or any ("followed_by_any", which
    makes a match of each combination). With `optional`, or `times=(0, ...)`, there are matches
    without the stage. A stage of several lengths makes a match of each; with `greedy`, only of the
    greatest. An event for which `until` is true ends the repetition, and is not a part of it.

    The classes `Next`, `FollowedBy` and `FollowedByAny` say how a stage follows the one before; a
    plain `Stage` does as `FollowedBy`. `NotNext` and `NotFollowedBy` are events that must not be.
    """

    name: str
    where: Condition | None = None
    times: int | tuple[int, int | None] = 1
    optional: bool = False
    greedy: bool = False
    contiguity: Contiguity = "followed_by"
    until: Condition | None = None

    relation: ClassVar[str] = "followed_by"

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not isinstance(self.name, str) or not self.name:
            raise GraphError(
                f"{kind}() got the name {self.name!r:.80}, expected a text",
                hint=f'{kind}("large", lambda payment: payment["amount"] > 500)',
            )
        for argument, condition in (("where", self.where), ("until", self.until)):
            if condition is not None:
                arguments = 2 if reads_matched(condition) else 1
                check_function(f"{kind}({self.name!r}): {argument}", condition, arguments)
        if self.contiguity not in get_args(Contiguity):
            raise GraphError(
                f"{kind}({self.name!r}) got contiguity={self.contiguity!r:.80}, expected one of "
                f"{', '.join(map(repr, get_args(Contiguity)))}"
            )
        self._check_times()
        is_repeated = self.most is None or self.most > 1
        if self.until is not None and not is_repeated:
            raise GraphError(
                f"{kind}({self.name!r}) got until and a single event, expected a repetition",
                hint="times=(1, None) is one event or more",
            )
        if self.greedy and self.least == self.most and not self.may_be_left_out:
            raise GraphError(
                f"{kind}({self.name!r}) got greedy and times={self.times!r}, expected several "
                "lengths to choose from",
                hint="times=(1, None) is one event or more",
            )

    @property
    def least(self) -> int:
        """The least number of events, where there are any."""
        low = self.times if isinstance(self.times, int) else self.times[0]
        return max(low, 1)

    @property
    def most(self) -> int | None:
        """The greatest number of events; None is without end."""
        return self.times if isinstance(self.times, int) else self.times[1]

    @property
    def may_be_left_out(self) -> bool:
        """Whether there are matches without such an event."""
        return self.optional or (not isinstance(self.times, int) and self.times[0] == 0)

    @property
    def meaning(self) -> str:
        """What state depends on, in words."""
        most = "or more" if self.most is None else f"to {self.most}"
        words = [f"{self.relation} {self.name!r}: {self.least} {most}"]
        words += [self.contiguity] if self.most is None or self.most > 1 else []
        words += [word for word in ("greedy",) if self.greedy]
        words += ["optional"] if self.may_be_left_out else []
        words += ["until"] if self.until is not None else []
        return ", ".join(words)

    def _check_times(self) -> None:
        times = self.times
        pair = (times, times) if isinstance(times, int) else times
        if isinstance(pair, tuple) and len(pair) == 2 and not isinstance(times, bool):
            low, high = pair
            low_fits = type(low) is int and low >= (1 if isinstance(times, int) else 0)
            if low_fits and (high is None or (type(high) is int and high >= max(low, 1))):
                return
        raise GraphError(
            f"{type(self).__name__}({self.name!r}) got times={times!r:.80}, expected a number of "
            "at least 1, or a pair of the least and the greatest",
            hint="times=(1, None) is one event or more; optional=True, one or none",
        )


@dataclass(frozen=True)
class FollowedBy(Stage):
    """A stage behind the one before; events between them do not fit it (relaxed contiguity)."""


@dataclass(frozen=True)
class Next(Stage):
    """A stage right behind the one before, without any event between them (strict contiguity)."""

    relation: ClassVar[str] = "next"


@dataclass(frozen=True)
class FollowedByAny(Stage):
    """A stage behind the one before, with any events between them, also such that fit.

    So a match goes on with each event that fits, not with the first alone.
    """

    relation: ClassVar[str] = "followed_by_any"


@dataclass(frozen=True)
class _Not(Stage):
    def __post_init__(self) -> None:
        super().__post_init__()
        plain = (self.times, self.optional, self.greedy, self.contiguity, self.until)
        if plain != (1, False, False, "followed_by", None):
            raise GraphError(
                f"{type(self).__name__}({self.name!r}) got a repetition, expected a name and a "
                "condition: it stands for events that must not be"
            )


@dataclass(frozen=True)
class NotNext(_Not):
    """No such event right behind the stage before."""

    relation: ClassVar[str] = "not_next"


@dataclass(frozen=True)
class NotFollowedBy(_Not):
    """No such event between the stage before and the one behind.

    At the end of a pattern, none within its span: the watermark proves that.
    """

    relation: ClassVar[str] = "not_followed_by"


class Then:
    """A pattern: stages of events, one behind the other, as `KeyedStream.pattern` finds them.

    >>> Then(Stage("a"), Next("b"), NotFollowedBy("c"))
    Then(Stage('a'), Next('b'), NotFollowedBy('c'))
    """

    def __init__(self, first: Stage, *others: Stage) -> None:
        self.stages = (first, *others)
        for stage in self.stages:
            if not isinstance(stage, Stage):
                raise GraphError(
                    f"Then() got {type(stage).__name__} {stage!r:.80}, expected stages",
                    hint='Then(Stage("small", f), FollowedBy("large", g))',
                )
        names = [stage.name for stage in self.stages]
        if twice := [name for name in names if names.count(name) > 1]:
            raise GraphError(f"Then() got the stage {twice[0]!r} twice, expected other names")
        if isinstance(first, _Not):
            raise GraphError(
                f"Then() begins with {first.relation} {first.name!r}, expected events that are "
                "there: a match begins with one",
            )
        for stage, following in zip(self.stages, self.stages[1:], strict=False):
            if isinstance(following, _Not) and stage.may_be_left_out:
                raise GraphError(
                    f"Then() got {type(following).__name__}({following.name!r}) behind the stage "
                    f"{stage.name!r}, which may be left out, expected one that is there",
                    hint="two patterns say it: one with this stage, one without",
                )
        self._check_not_empty()
        if (last := self.events[-1]).greedy:
            raise GraphError(
                f"Then() ends with the greedy stage {last.name!r}, expected a stage behind it: no "
                "event says that the repetition is over",
                hint="leave greedy out; after_match='skip_past_last_event' leaves longer ones out",
            )

    @property
    def events(self) -> tuple[Stage, ...]:
        """The stages that have events in a match."""
        return tuple(stage for stage in self.stages if not isinstance(stage, _Not))

    @property
    def meaning(self) -> list[str]:
        """The stages in words, for `Properties.meaning`."""
        return [stage.meaning for stage in self.stages]

    def __repr__(self) -> str:
        stages = ", ".join(f"{type(each).__name__}({each.name!r})" for each in self.stages)
        return f"Then({stages})"

    def _check_not_empty(self) -> None:
        if all(stage.may_be_left_out for stage in self.events):
            raise GraphError(
                f"Then() got stages that may all be left out ({self!r}), expected one that is there"
            )


@dataclass(frozen=True)
class SkipToFirst:
    """After a match, leave out those that begin before its first event of this stage."""

    stage: str


@dataclass(frozen=True)
class SkipToLast:
    """After a match, leave out those that begin before its last event of this stage."""

    stage: str


AfterMatch: TypeAlias = (
    Literal["no_skip", "skip_to_next", "skip_past_last_event"] | SkipToFirst | SkipToLast
)
"""Which other matches count after a match: see `KeyedStream.pattern`."""


def check_after_match(after_match: object, pattern: Then) -> None:
    """Raise `GraphError` unless it says what to skip after a match of this pattern."""
    if isinstance(after_match, SkipToFirst | SkipToLast):
        names = [stage.name for stage in pattern.events]
        if after_match.stage not in names:
            raise GraphError(
                f"pattern() got after_match={after_match!r}, expected a stage that has events: "
                f"{', '.join(names)}"
            )
        return
    known = ("no_skip", "skip_to_next", "skip_past_last_event")
    if after_match not in known:
        raise GraphError(
            f"pattern() got after_match={after_match!r:.80}, expected one of "
            f"{', '.join(map(repr, known))}, SkipToFirst(stage), SkipToLast(stage)"
        )


def reads_matched(condition: Condition) -> bool:
    """Whether a condition takes the events matched so far, too: it has two arguments."""
    try:
        parameters = inspect.signature(condition).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        each
        for each in parameters
        if each.kind in positional and each.default is inspect.Parameter.empty
    ]
    return len(needed) == 2


Matched: TypeAlias = dict[str, list[Any]]
"""The events of a match by stage, in order."""
