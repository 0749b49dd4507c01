"""Cases of the tests of Flink's CEP (apache/flink, flink-cep/src/test, Apache-2.0), as data.

They are NFAITCase (00ce3f1b, up to testBranchingPatternSkipTillNext), AfterMatchSkipITCase
(01c950f8), NotPatternITCase (1a0227f8), GreedyITCase (d78d52b2), TimesRangeITCase (08c3b6c4) and
UntilConditionITCase (0f3b63a7). Of these 156 tests, 140 are here. The other 16 do not apply:

- what is left in a shared buffer, or timed out: 6 (NFAITCase's four ClearingBuffer and
  testSimplePatternWithTimeoutHandling, testSharedBufferIsProperlyCleared); that nothing is left is
  in `test_patterns`;
- an exception where there is no event to skip to: 3 (testSkipToFirstElementOfMatch,
  testSkipTo{First,Last}NonExistentPosition);
- a greedy stage at the end, which is refused: 3 (testEndWithZeroOrMoreGreedy,
  testEndWithZeroOrMoreConsecutiveGreedy, testEndWithGreedyTimesRange);
- stages that may all be left out, which are refused: 2 (testStartAndEndWithZeroOrMore,
  testStartWithZeroOrMoreStrict);
- groups of stages: 1 (testGreedyZeroOrMoreBeforeGroupPattern);
- a time between each two events: 1 (testNotFollowedByWithinPreviousAndCurrentAtEnd).

An event is a name: the letters in it say which stages it fits, "!" that it ends a repetition, and
digits are its price. In a pattern, stages are letters, "-" any event; "then" is followedBy, "any"
followedByAny, "all" allowCombinations, "strict" consecutive.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from operators.patterns import (
    FollowedBy,
    FollowedByAny,
    Next,
    NotFollowedBy,
    NotNext,
    SkipToFirst,
    SkipToLast,
    Stage,
    Then,
)
from tests.patterns import flat, matches
from tests.windowing import Tasks

Case = tuple[str, str, str]
"""A pattern, events, and its matches."""

ONE = "c f a1 f a2 a3 b"
"""Flink's ConsecutiveData, with events between them."""
TWO = "c d a1 a2 a3 d a4 b"
THREE = "c a1 f a2 f a3 b"
PLAIN = "c a1 a2 a3 b"
BRANCHES = "s f1 f2 f3 n1 n2 e"

CASES: dict[str, Case] = {
    "NoConditionNFA": ("- | then -", "a b c d e", "a b, b c, c d, d e"),
    "AnyWithNoConditionNFA": (
        "- | any -",
        "a b c d e",
        "a b, a c, a d, a e, b c, b d, b e, c d, c e, d e",
    ),
    "SimplePatternNFA": ("s | then f | then e", "s1 x y f s2 e", "s1 f e"),
    "StrictContinuityWithResults": ("a | next b", "a b", "a b"),
    "StrictContinuityNoResults": ("a | next b", "a c b", ""),
    "SimplePatternWithTimeWindowNFA": (
        "s | then m | then e | within 10",
        "s1@1 s2@2 m@3 f@4 e1@11 e2@13",
        "s2 m e1",
    ),
    "BranchingPattern": (
        "s | any f | any n | any e",
        BRANCHES,
        "s f1 n1 e, s f2 n1 e, s f3 n1 e, s f1 n2 e, s f2 n2 e, s f3 n2 e",
    ),
    "ComplexBranchingAfterZeroOrMore": (
        "c | any a* all | any b | any d | any e",
        "c a1 a2 a3 b d1 d2 e",
        "c a1 a2 a3 b d1 e, c a1 a2 b d1 e, c a1 a3 b d1 e, c a2 a3 b d1 e, c a1 b d1 e, "
        "c a2 b d1 e, c a3 b d1 e, c b d1 e, c a1 a2 a3 b d2 e, c a1 a2 b d2 e, c a1 a3 b d2 e, "
        "c a2 a3 b d2 e, c a1 b d2 e, c a2 b d2 e, c a3 b d2 e, c b d2 e",
    ),
    "ZeroOrMore": ("c | any a* all | then b", "c a1 a2 b", "c a1 a2 b, c a1 b, c a2 b, c b"),
    "EagerZeroOrMore": (
        "c | then a* | then b",
        "c a1 a2 d a3 b",
        "c a1 a2 a3 b, c a1 a2 b, c a1 b, c b",
    ),
    "BeginWithZeroOrMore": (
        "a* | then b",
        "a1 a2 a3 b",
        "a1 a2 a3 b, a1 a2 b, a2 a3 b, a1 b, a2 b, a3 b, b",
    ),
    "ZeroOrMoreAfterZeroOrMore": (
        "c | any a* all | then d* all | then e",
        "c a d1 d2 e",
        "c a d1 d2 e, c a d1 e, c d1 d2 e, c d1 e, c a e, c e",
    ),
    "ZeroOrMoreAfterBranching": (
        "c | any a | any f | any d* all | then e",
        "c a1 a2 f d1 d2 e",
        "c a1 f e, c a1 f d1 e, c a1 f d2 e, c a1 f d1 d2 e, c a2 f e, c a2 f d1 e, c a2 f d2 e, "
        "c a2 f d1 d2 e",
    ),
    "StrictContinuityNoResultsAfterZeroOrMore": ("d | then a* | next b", "d a1 a2 c b", ""),
    "StrictContinuityResultsAfterZeroOrMore": (
        "d | any a* all | next b",
        "d a1 a2 b",
        "d a1 a2 b, d a2 b",
    ),
    "AtLeastOne": ("c | any a+ all | any b", "c a1 a2 b", "c a1 a2 b, c a1 b, c a2 b"),
    "BeginWithAtLeastOne": (
        "a+ all | then b",
        "a1 a2 a3 b",
        "a1 a2 a3 b, a1 a2 b, a1 a3 b, a2 a3 b, a1 b, a2 b, a3 b",
    ),
    "NextZeroOrMore": ("s | next m* strict | then e", "s x m1 m2 m3 e", "s e"),
    "AtLeastOneEager": (
        "c | any a+ | any b",
        PLAIN,
        "c a1 a2 a3 b, c a1 a2 b, c a2 a3 b, c a3 b, c a2 b, c a1 b",
    ),
    "Optional": ("c | then a? | then b", "c a b", "c a b, c b"),
    "Times": ("c | next a{2} all | then b", PLAIN, "c a1 a2 b, c a1 a3 b"),
    "StartWithTimes": ("a{2} strict | then b", "a1 a2 a3 b", "a1 a2 b, a2 a3 b"),
    "TimesNonStrictWithNext": ("c | next a{2} all | then b", THREE, "c a1 a2 b, c a1 a3 b"),
    "TimesNotStrictWithFollowedByEager": ("c | then a{2} | then b", PLAIN, "c a1 a2 b"),
    "TimesNotStrictWithFollowedByNotEager": (
        "c | any a{2} all | then b",
        PLAIN,
        "c a1 a2 b, c a2 a3 b, c a1 a3 b",
    ),
    "TimesStrictWithNextAndConsecutive": ("c | next a{2} strict | then b", "c a1 f a2 a3 b", ""),
    "StartWithOptional": ("c? | then b", "c b", "c b, b"),
    "EndWithZeroOrMore": ("c | then a*", "c a1 a2 a3", "c a1 a2 a3, c a1 a2, c a1, c"),
    "EndWithOptional": ("c | then a?", "c a", "c a, c"),
    "EndWithOneOrMore": ("c | then a+", "c a1 a2 a3", "c a1 a2 a3, c a1 a2, c a1"),
    "TimesNonStrictOptional1": ("c | then a{3} ? | then b", "c f b", "c b"),
    "TimesNonStrictOptional2": (
        "c | any a{2} all ? | then b",
        ONE,
        "c a1 a2 b, c a1 a3 b, c a2 a3 b, c b",
    ),
    "TimesNonStrictOptional3": ("c | any a{2} ? | then b", ONE, "c a1 a2 b, c a2 a3 b, c b"),
    "TimesStrictOptional": ("c | any a{2} strict ? | then b", ONE, "c a2 a3 b, c b"),
    "OneOrMoreStrictOptional": (
        "c | any a* strict | then b",
        ONE,
        "c a2 a3 b, c a1 b, c a2 b, c a3 b, c b",
    ),
    "TimesStrictOptional1": ("c | next a{2} strict ? | then b", PLAIN, "c a1 a2 b, c b"),
    "OptionalTimesNonStrictWithNext": (
        "c | next a{2} all ? | then b",
        THREE,
        "c a1 a2 b, c a1 a3 b, c b",
    ),
    "StrictOneOrMore": ("c | then a+ strict | then b", TWO, "c a1 a2 a3 b, c a1 a2 b, c a1 b"),
    "SkipTillNextOneOrMore": (
        "c | then a+ | then b",
        TWO,
        "c a1 a2 a3 a4 b, c a1 a2 a3 b, c a1 a2 b, c a1 b",
    ),
    "SkipTillAnyOneOrMore": (
        "c | then a+ all | then b",
        TWO,
        "c a1 a2 a3 a4 b, c a1 a3 a4 b, c a1 a2 a3 b, c a1 a2 a4 b, c a1 a2 b, c a1 a3 b, "
        "c a1 a4 b, c a1 b",
    ),
    "StrictEagerZeroOrMore": (
        "c | then a* strict | then b",
        TWO,
        "c a1 a2 a3 b, c a1 a2 b, c a1 b, c b",
    ),
    "SkipTillAnyZeroOrMore": (
        "c | then a* all | then b",
        TWO,
        "c a1 a2 a3 a4 b, c a1 a2 a4 b, c a1 a3 a4 b, c a1 a4 b, c a1 a2 a3 b, c a1 a2 b, "
        "c a1 a3 b, c a1 b, c b",
    ),
    "SkipTillNextZeroOrMore": (
        "c | then a* | then b",
        TWO,
        "c a1 a2 a3 a4 b, c a1 a2 a3 b, c a1 a2 b, c a1 b, c b",
    ),
    "TimesStrict": ("c | any a{2} strict | then b", ONE, "c a2 a3 b"),
    "TimesNonStrict": ("c | any a{2} all | then b", ONE, "c a1 a2 b, c a1 a3 b, c a2 a3 b"),
    "StartWithOneOrMoreStrict": ("a+ strict", "c a1 c a2 a3", "a1, a2 a3, a2, a3"),
    "BranchingPatternSkipTillNext": ("s | then f | then n | any e", BRANCHES, "s f1 n1 e"),
    "NoSkip": ("a{3}", "a1 a2 a3 a4 a5 a6", "a1 a2 a3, a2 a3 a4, a3 a4 a5, a4 a5 a6"),
    "NoSkipWithFollowedByAny": ("a | any b", "a1 b1 a2 b2", "a1 b1, a1 b2, a2 b2"),
    "SkipToNextWithFollowedByAny": ("a | any b | skip next", "a1 b1 a2 b2", "a1 b1, a2 b2"),
    "NoSkipWithQuantifierAtTheEnd": ("a | next b+", "a b1 b2 b3", "a b1 b2 b3, a b1 b2, a b1"),
    "SkipToNextWithQuantifierAtTheEnd": ("a | next b+ | skip next", "a b1 b2 b3", "a b1"),
    "SkipPastLast": ("a{3} | skip past", "a1 a2 a3 a4 a5 a6", "a1 a2 a3, a4 a5 a6"),
    "SkipToFirst": (
        "a{2} | next b{2} | skip first 1",
        "ab1 ab2 ab3 ab4 ab5 ab6",
        "ab1 ab2 ab3 ab4, ab3 ab4 ab5 ab6",
    ),
    "SkipToLast": (
        "a{2} | next b{2} | skip last 1",
        "ab1 ab2 ab3 ab4 ab5 ab6 ab7",
        "ab1 ab2 ab3 ab4, ab4 ab5 ab6 ab7",
    ),
    "SkipPastLast2": (
        "a | any b | any c | then d | skip past",
        "a1 a2 b1 b2 c1 c2 d1 d2",
        "a1 b1 c1 d1",
    ),
    "SkipPastLast3": ("a | next b | skip past", "a1 c a2 b2", "a2 b2"),
    "SkipToFirstWithOptionalMatch": (
        "x* | next b | next c | skip first 1",
        "ab1 c1 ab2 c2",
        "ab1 c1, ab2 c2",
    ),
    "SkipToFirstAtStartPosition": ("b | next c | skip first 0", "ab1 c1 ab2 c2", "ab1 c1, ab2 c2"),
    "SkipToFirstWithOneOrMore": (
        "a | next b+ strict | skip first 1",
        "a1 b1 a2 b2 b3 a3 b4",
        "a1 b1, a2 b2, a3 b4",
    ),
    "SkipToFirstNonExistentPositionWithoutException": (
        "a | next b* strict | next c | skip first 1",
        "a c",
        "a c",
    ),
    "SkipToLastNonExistentPositionWithoutException": (
        "a | next b* strict | next c | skip last 1",
        "a c",
        "a c",
    ),
    "SkipToLastWithOneOrMore": (
        "a | next b+ strict | skip last 1",
        "a1 b1 a2 b2 b3 a3 b4",
        "a1 b1, a2 b2, a3 b4",
    ),
    "SkipPastLastWithOneOrMoreAtBeginning": (
        "a+ strict greedy | next b | skip past",
        "a1 a2 a3 b",
        "a1 a2 a3 b",
    ),
    "SkipToLastWithOneOrMoreAtBeginning": (
        "a+ strict greedy | next b | skip last 0",
        "a1 a2 a3 b",
        "a1 a2 a3 b, a3 b",
    ),
    "SkipToFirstWithOneOrMoreAtBeginning": (
        "a+ strict greedy | next b | skip first 0",
        "a1 a2 a3 b",
        "a1 a2 a3 b, a2 a3 b, a3 b",
    ),
    "NoSkipWithOneOrMoreAtBeginning": (
        "a+ strict greedy | next b",
        "a1 a2 a3 b",
        "a1 a2 a3 b, a2 a3 b, a3 b",
    ),
    "SkipToFirstDiscarding": (
        "ac | then bc | then c+ greedy | then d | skip first 2",
        "a b c1 c2 c3 d",
        "a b c1 c2 c3 d, c1 c2 c3 d",
    ),
    "NotNext": ("a | not-next b | any c | then d", "a c1 b c2 d", "a c1 d, a c2 d"),
    "NotNextNoMatches": ("a | not-next b | then c | then d", "a b c1 c2 d", ""),
    "NotNextNoMatchesAtTheEnd": ("a | any c | any d | not-next b", "a c1 c2 d b", ""),
    "NotFollowedBy": ("a | not b | any c | then d", "a c1 b c2 d", "a c1 d"),
    "NotFollowedByBeforeOptional": ("a | not b | any c? | then d", "a c1 b c2 d", "a c1 d"),
    "TimesWithNotFollowedBy": ("a | any b{2} | not c | then d", "a b1 c b2 d", ""),
    "IgnoreStateOfTimesWithNotFollowedBy": (
        "a | not b | any c{2} ? | then d",
        "a d1 e b c1 c2 d2",
        "a d1",
    ),
    "TimesWithNotFollowedByAfter": ("a | any b{2} | not c | then d", "a d1 e b1 b2 c d2", ""),
    "NotFollowedByBeforeOptionalAtTheEnd": ("a | not b | any c?", "a c1 b c2", "a c1, a"),
    "NotFollowedByBeforeOptionalTimes": (
        "a | not b | any c{2} ? | then d",
        "a c1 b c2 d",
        "a c1 c2 d",
    ),
    "NotFollowedByWithBranchingAtStart": (
        "a | not b | then c | then d",
        "a1 b c1 a2 c2 d",
        "a2 c2 d",
    ),
    "NotNextAfterOneOrMoreSkipTillNext": ("a | then b+ | not-next c | then d", "a b1 c b2 d", ""),
    "NotNextAfterOneOrMoreSkipTillAny": (
        "a | any b+ | not-next c | then d",
        "a b1 c b2 d",
        "a b2 d",
    ),
    "NotFollowedByNextAfterOneOrMoreEager": (
        "a | then b+ | not c | then d",
        "a b1 b2 b3 c b4 b5 b6 d",
        "",
    ),
    "NotFollowedByAnyAfterOneOrMoreEager": (
        "a | any b+ | not c | then d",
        "a b1 b2 b3 c b4 b5 b6 d",
        "a b4 b5 b6 d, a b4 b5 d, a b4 d, a b5 b6 d, a b5 d, a b6 d",
    ),
    "NotFollowedByNextAfterOneOrMoreCombinations": (
        "a | then b+ all | not c | then d",
        "a b1 b2 b3 c b4 b5 b6 d",
        "",
    ),
    "NotFollowedByAnyAfterOneOrMoreCombinations": (
        "a | any b+ all | not c | then d",
        "a b1 b2 b3 c b4 b5 b6 d",
        "a b4 b5 b6 d, a b4 b5 d, a b4 b6 d, a b4 d, a b5 b6 d, a b5 d, a b6 d",
    ),
    **{
        f"NotFollowedBy{'Any' if any_ == 'any' else ''}Before{kind}{'Eager' if not all_ else ''}": (
            f"a | not c | {any_} b{'+' if kind == 'OneOrMore' else '*'}{all_} | then d",
            "a b1 c b4 b5 b6 d",
            "a b1 b4 b5 b6 d, a b1 b4 b5 d, a b1 b4 d, a b1 d"
            + (", a b1 b4 b6 d, a b1 b5 b6 d, a b1 b5 d, a b1 b6 d" if all_ else ""),
        )
        for kind in ("OneOrMore", "ZeroOrMore")
        for any_ in ("any", "then")
        for all_ in ("", " all")
    },
    "NotFollowedByWithinFirstAndLastAtEnd": (
        "a | not b | within 3",
        "a1@1 b1@2 a2@4 c@5 b2@10 a3@11 b3@13",
        "a2",
    ),
    "NotFollowByBeforeTimesWithin": (
        "a | not b | then c{0,2} | within 3",
        "a1@1 b1@2 a2@10 c1@11 c2@12 a3@20 c3@21 c4@24",
        "a1, a2, a2 c1, a2 c1 c2, a3, a3 c3",
    ),
    "NotFollowedByWithinAtEndAfterMatch": (
        "a+ all | then c | not b | within 5 | skip past",
        "a1@1 a2@2 a3@3 c1@4 c2@10",
        "a1 a2 a3 c1",
    ),
    "GreedyZeroOrMore": ("c | then a* greedy | then d", "c a1 a2 a3 d", "c a1 a2 a3 d"),
    "GreedyZeroOrMoreInBetween": (
        "c | then a* greedy | then d",
        "c x a1 x a2 x a3 d",
        "c a1 a2 a3 d",
    ),
    "GreedyZeroOrMoreWithDummyEventsAfterQuantifier": (
        "c | then a* greedy | then d",
        "c a1 a2 x d",
        "c a1 a2 d",
    ),
    "GreedyZeroOrMoreWithDummyEventsBeforeQuantifier": (
        "c | then a* greedy | then d",
        "c x d",
        "c d",
    ),
    "GreedyUntilZeroOrMoreWithDummyEventsAfterQuantifier": (
        "c | then a* greedy until | then d",
        "c a1 a2 a3 a! d",
        "c a1 a2 a3 d",
    ),
    "GreedyUntilWithDummyEventsBeforeQuantifier": (
        "c | then a* greedy until | then d",
        "c a! a1 a2 a3 d",
        "c d",
    ),
    "GreedyOneOrMore": ("c | then a+ greedy | then d", "c a1 a2 a3 d", "c a1 a2 a3 d"),
    "GreedyOneOrMoreInBetween": (
        "c | then a+ greedy | then d",
        "c x a1 x a2 x a3 d",
        "c a1 a2 a3 d",
    ),
    "GreedyOneOrMoreWithDummyEventsAfterQuantifier": (
        "c | then a+ greedy | then d",
        "c a1 a2 x d",
        "c a1 a2 d",
    ),
    "GreedyOneOrMoreWithDummyEventsBeforeQuantifier": ("c | then a+ greedy | then d", "c x d", ""),
    "GreedyUntilOneOrMoreWithDummyEventsAfterQuantifier": (
        "c | then a+ greedy until | then d",
        "c a1 a2 a3 a! d",
        "c a1 a2 a3 d",
    ),
    "GreedyUntilOneOrMoreWithDummyEventsBeforeQuantifier": (
        "c | then a+ greedy until | then d",
        "c a! a1 a2 a3 d",
        "",
    ),
    "GreedyTimesRange": ("c | then a{2,5} greedy | then d", "c a1 a2 a3 a4 d", "c a1 a2 a3 a4 d"),
    "TimesRange": (
        "c | next a{1,3} all | then b",
        PLAIN,
        "c a1 a2 a3 b, c a1 a2 b, c a1 a3 b, c a1 b",
    ),
    "TimesRangeFromZero": (
        "c | next a{0,2} all | then b",
        PLAIN,
        "c a1 a2 b, c a1 a3 b, c a1 b, c b",
    ),
    "TimesRangeNonStrict": (
        "c | any a{1,3} all | then b",
        ONE,
        "c a1 a2 a3 b, c a1 a2 b, c a1 a3 b, c a2 a3 b, c a1 b, c a2 b, c a3 b",
    ),
    "TimesRangeStrict": (
        "c | any a{0,3} strict | then b",
        ONE,
        "c a2 a3 b, c a1 b, c a2 b, c a3 b, c b",
    ),
    "TimesRangeStrictOptional": (
        "c | any a{1,3} strict ? | then b",
        ONE,
        "c a2 a3 b, c a1 b, c a2 b, c a3 b, c b",
    ),
    "TimesRangeStrictOptional1": (
        "c | next a{1,3} strict ? | then b",
        PLAIN,
        "c a1 a2 a3 b, c a1 a2 b, c a1 b, c b",
    ),
    "TimesRangeNonStrictOptional1": ("c | then a{1,3} ? | then b", "c f b", "c b"),
    "TimesRangeNonStrictOptional2": (
        "c | any a{2,3} all ? | then b",
        ONE,
        "c a1 a2 a3 b, c a1 a2 b, c a1 a3 b, c a2 a3 b, c b",
    ),
    "TimesRangeNonStrictOptional3": (
        "c | any a{2,3} ? | then b",
        ONE,
        "c a1 a2 a3 b, c a1 a2 b, c a2 a3 b, c b",
    ),
    "TimesRangeNonStrictWithNext": (
        "c | next a{2,3} all | then b",
        THREE,
        "c a1 a2 a3 b, c a1 a2 b, c a1 a3 b",
    ),
    "TimesRangeNotStrictWithFollowedBy": (
        "c | then a{2,3} | then b",
        PLAIN,
        "c a1 a2 a3 b, c a1 a2 b",
    ),
    "TimesRangeNotStrictWithFollowedByAny": (
        "c | any a{2,3} all | then b",
        PLAIN,
        "c a1 a2 a3 b, c a1 a2 b, c a2 a3 b, c a1 a3 b",
    ),
    **{
        f"UntilConditionFollowedBy{kind}OrMore{name}": (
            f"c | then a{'+' if kind == 'One' else '*'}{words} until | then !",
            "c a1 a2 a! a9" if not words.startswith(" all") else "c a1 a2 a3 a! a9",
            {
                "": "c a1 a2 a!, c a1 a!",
                " strict": "c a1 a2 a!, c a1 a!",
                " all": "c a1 a2 a3 a!, c a1 a2 a!, c a1 a3 a!, c a1 a!",
            }[words]
            + (", c a!" if kind == "Zero" else ""),
        )
        for kind in ("One", "Zero")
        for name, words in (("", ""), ("Combinations", " all"), ("Consecutive", " strict"))
    },
    "UntilConditionFollowedByAnyOneOrMore": (
        "c | any a+ until",
        "c a1 a2 a! a3",
        "c a1 a2, c a1, c a2, c a3",
    ),
    "UntilConditionFollowedByAnyZeroOrMore": (
        "c | any a* until",
        "c a1 a2 a! a3",
        "c a1 a2, c a1, c a2, c a3, c",
    ),
    "UntilConditionWithEmptyWhere": (
        "c | then -+ until",
        "c a1 a2 d a! a9",
        "c a1 a2 d, c a1 a2, c a1",
    ),
    "IterativeWithBranchingPatternEager": (
        "s | then f+ sum<5 | then e",
        "s1 f1 f2 s2 f3 f1b n e",
        "s1 f1 f2 f1b e, s1 f1 f2 e, s1 f1 e, s2 f3 f1b e, s2 f3 e",
    ),
    "IterativeWithBranchingPatternCombinations": (
        "s | then f+ all sum<5 | then e",
        "s1 f1 f2 s2 f3 f1b n e",
        "s1 f1 f2 f1b e, s1 f1 f2 e, s1 f1 f3 e, s2 f3 f1b e, s1 f1 f1b e, s1 f1 e, s2 f3 e",
    ),
    "IterativeWithLoopingStartingEager": (
        "s* sum<5 | then e",
        "s1 s2 s3 e",
        "s1 s2 e, s1 e, s2 e, s3 e, e",
    ),
    "IterativeWithLoopingStartingCombination": (
        "s* all sum<5 | then e",
        "s1 s2 s3 e",
        "s1 s2 e, s1 s3 e, s1 e, s2 e, s3 e, e",
    ),
    "IterativeWithPrevPatternDependency": ("s+ | then e first>=2", "s1 s2 e", "s1 s2 e, s2 e"),
    "IterativeWithABACPattern": (
        "s | any f | then s+ sum<6 | then e",
        "s1 f1 s2 s3 f2 s4 f3 f1b e",
        "s1 f1 s2 s3 e, s1 f1 s2 e, s1 f2 s4 e, s2 f2 s4 e, s3 f2 s4 e",
    ),
    "IterativeWithPrevPatternDependencyAfterBranching": (
        "s+ | any f | any e first>=2",
        "s1 s2 f1 s3 f2 e",
        "s1 s2 f1 e, s2 f1 e, s1 s2 f2 e, s1 s2 s3 f2 e, s2 s3 f2 e, s2 f2 e, s3 f2 e",
    ),
    "SkipBeforeOtherAlreadyCompleted": (
        "a | then c | then b first=own | skip first 1",
        "a0 c0 a1 c1 b1 b0",
        "a0 c0 b0, a1 c1 b1",
    ),
    "IterativeUntilConditionOneOrMore": (
        "c | then -+ until6",
        "c1 a2 a3 d1 a5 a6",
        "c1 a2 a3 d1, c1 a2 a3, c1 a2",
    ),
    "IterativeUntilConditionZeroOrMore": (
        "c | then -* until6",
        "c1 a2 a3 d1 a5 a6",
        "c1 a2 a3 d1, c1 a2 a3, c1 a2, c1",
    ),
}

KINDS: dict[str, type[Stage]] = {
    "then": FollowedBy,
    "any": FollowedByAny,
    "next": Next,
    "not": NotFollowedBy,
    "not-next": NotNext,
}


def price(*events: Any) -> int:
    return sum(int(re.sub(r"\D", "", event[2])) for event in events)


def stage_of(number: int, words: list[str]) -> Stage:
    kind = KINDS[words.pop(0)] if words[0] in KINDS else Stage
    spelled = re.fullmatch(r"([\w!-]+?)(?:([*+?])|\{(\d)(?:,(\d))?\})?", words.pop(0))
    assert spelled is not None
    letters, sign, low, high = spelled.groups()
    times: Any = {"*": (0, None), "+": (1, None), "?": (0, 1), None: 1}[sign]
    if low is not None:
        times = int(low) if high is None else (int(low), int(high))
    name = f"{number} {letters}"
    fits = None if letters == "-" else lambda event: any(each in event[2] for each in letters)
    settings: dict[str, Any] = {"times": times, "where": fits}
    for word in words:
        settings |= {
            "sum<5": {"where": lambda e, so: fits(e) and price(e, *so.get(name, ())) < 5},
            "sum<6": {"where": lambda e, so: fits(e) and price(e, *so.get(name, ())) < 6},
            "first>=2": {"where": lambda e, so: fits(e) and price(*next(iter(so.values()))) >= 2},
            "first=own": {"where": lambda e, so: fits(e) and price(e) == price(*so["0 a"])},
            "until6": {"until": lambda _, so: price(*so.get(name, ())) == 6},
            "all": {"contiguity": "followed_by_any"},
            "strict": {"contiguity": "next"},
            "greedy": {"greedy": True},
            "until": {"until": lambda event: "!" in event[2]},
            "?": {"optional": True},
        }[word]
    return kind(name, **settings)


def parsed(text: str) -> tuple[Then, dict[str, Any]]:
    stages: list[Stage] = []
    settings: dict[str, Any] = {}
    for number, part in enumerate(text.split(" | ")):
        words = part.split()
        if words[0] == "within":
            settings["within"] = timedelta(microseconds=int(words[1]))
        elif words[0] == "skip":
            name = stages[int(words[2])].name if len(words) > 2 else ""
            settings["after_match"] = {
                "next": "skip_to_next",
                "past": "skip_past_last_event",
                "first": SkipToFirst(name),
                "last": SkipToLast(name),
            }[words[1]]
        else:
            stages.append(stage_of(number, words))
    return Then(*stages), settings


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("emit", ["final", "updates"])
def test_as_in_flink(name: str, emit: str) -> None:
    text, spelled, wanted = CASES[name]
    pattern, settings = parsed(text)
    events = []
    for number, word in enumerate(spelled.split()):
        event, _, time = word.partition("@")
        events.append(("key", int(time or number), event))
    tasks = Tasks(matches(pattern, emit=emit, **settings))
    given = [match for batch in tasks.take([*events, events[-1][1]]) for match in batch]  # type: ignore[list-item]
    found = sorted(" ".join(event[2] for _, event in flat(match)) for match in given)
    assert found == sorted(filter(None, wanted.split(", ")))
