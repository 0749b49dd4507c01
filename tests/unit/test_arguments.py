"""NAME=VALUE as the type of a parameter says, or refused with the type."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Optional, Union
from uuid import UUID

import pytest

from engine.arguments import call_arguments, split_assignments, value_of
from engine.errors import ConfigError

if TYPE_CHECKING:
    from somewhere import Absent


class Color(enum.Enum):
    RED = "r"
    BLUE = 7


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Own:
    pass


Cents = NewType("Cents", int)
ID = UUID("12345678-1234-5678-1234-567812345678")

RIGHT: list[tuple[Any, str, Any]] = [
    (bool, "true", True),
    (bool, "False", False),
    (bool, "no", False),
    (bool, "on", True),
    (bool, "0", False),
    (int, "1_000", 1000),
    (int, "-3", -3),
    (float, "2", 2.0),
    (float, "1e6", 1e6),
    (float, "-inf", -math.inf),
    (complex, "1+2j", 1 + 2j),
    (str, "1.10", "1.10"),
    (str, "True", "True"),
    (str, "None", "None"),
    (str, "'quoted'", "'quoted'"),
    (str, "a=b", "a=b"),
    (str, "", ""),
    (bytes, "é", "é".encode()),
    (Path, "data/1.10", Path("data/1.10")),
    (Decimal, "1.10", Decimal("1.10")),
    (Fraction, "1/3", Fraction(1, 3)),
    (UUID, str(ID), ID),
    (date, "2026-01-31", date(2026, 1, 31)),
    (time, "12:30", time(12, 30)),
    (datetime, "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=timezone.utc)),
    (timedelta, "1.5h", timedelta(minutes=90)),
    (timedelta, "250ms", timedelta(milliseconds=250)),
    (Literal["plain", "fast"], "fast", "fast"),
    (Literal["1", 1, True, None], "1", "1"),
    (Literal[2, True, None], "2", 2),
    (Literal[2, True, None], "true", True),
    (Literal[2, True, None], "none", None),
    (Literal[Color.RED, 3], "RED", Color.RED),
    (Color, "RED", Color.RED),
    (Color, "7", Color.BLUE),
    (Size, "LARGE", Size.LARGE),
    (Size, "2", Size.LARGE),
    (Optional[int], "none", None),  # noqa: UP045
    (Optional[int], "5", 5),  # noqa: UP045
    (int | None, "None", None),
    (str | None, "none", None),
    (str | None, "5", "5"),
    (str | int, "5", 5),
    (bool | int, "1", 1),
    (bool | int, "yes", True),
    (int | float, "5", 5),
    (Union[int, float], "nan", math.nan),  # noqa: UP007
    (Path | str | None, "x", Path("x")),
    (str | list[str], "a", "a"),
    (str | list[str], "a,b", ["a", "b"]),
    (Own | int, "5", 5),
    (list[int], "1,2,3", [1, 2, 3]),
    (list[int], "7", [7]),
    (list[int], "", []),
    (list[int], "[]", []),
    (list[str], "1.10, b", ["1.10", "b"]),
    (list[str], "[\"a,b\", 'c']", ["a,b", "c"]),
    (list[str], "[1.10, b]", ["1.10", "b"]),
    (list[bool], "true,false", [True, False]),
    (list, "1,a,true", [1, "a", True]),
    (Sequence[float], "1,2", [1.0, 2.0]),
    (tuple[int, ...], "(1, 2)", (1, 2)),
    (tuple[int, str], "1,2", (1, "2")),
    (set[Color], "RED,BLUE", {Color.RED, Color.BLUE}),
    (frozenset[int], "{1, 2}", frozenset({1, 2})),
    (list[list[int]], "[[1, 2], [3]]", [[1, 2], [3]]),
    (list[tuple[str, Path]], "[('ü', b), (c, d)]", [("ü", Path("b")), ("c", Path("d"))]),
    (dict[str, int], "{'a': 1}", {"a": 1}),
    (Mapping[str, list[str]], '{"a": [1.10]}', {"a": ["1.10"]}),
    (dict, "{'a': 1}", {"a": 1}),
    (Cents, "5", 5),
    (Annotated[int, "of something"], "5", 5),
    (Any, "[1, 'a']", [1, "a"]),
    (object, "text", "text"),
]
WRONG: list[tuple[Any, str, str]] = [
    (bool, "maybe", "expected bool\n\nhint: true and false"),
    (bool, "", "expected bool"),
    (bool, "2", "expected bool"),
    (int, "2.5", "expected int"),
    (int, "", "expected int"),
    (int, "true", "expected int"),
    (float, "fast", "expected float"),
    (Decimal, "x", "expected Decimal"),
    (Fraction, "1/0", "expected Fraction"),
    (date, "31.1.2026", "expected date\n\nhint: as ISO 8601 has it"),
    (timedelta, "90", "expected timedelta\n\nhint: a number with a unit"),
    (timedelta, "2w", "expected timedelta"),
    (Literal["plain", "fast"], "slow", "expected plain | fast"),
    (Color, "green", "expected Color\n\nhint: its members are RED, BLUE"),
    (int | None, "x", "expected int | None"),
    (list[int], "1,a", "expected list[int]\n\nhint: several values stand between commas"),
    (list[int], "[1, 2", "expected list[int]"),
    (list[int], "{'a': 1}", "expected list[int]"),
    (list[int], "[*a]", "expected list[int]"),
    (tuple[int, int], "1,2,3", "expected tuple[int, int]"),
    (dict[str, int], "a=1", "expected dict[str, int]\n\nhint: a dict is written as in Python"),
    (dict[str, int], "{'a': b}", "expected dict[str, int]"),
    (dict[str, int], "{**a}", "expected dict[str, int]"),
    (Own, "5", "the type of it is Own, which no text is turned into"),
    (Own | int, "x", "the type of it is Own, which no text"),
    (list[Own], "5", "the type of it is Own, which no text"),
    (Callable[[int], int], "f", "which no text is turned into"),
]


def equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and repr(left) == repr(right)


@pytest.mark.parametrize(("kind", "text", "value"), RIGHT)
def test_values_have_the_type_of_the_parameter(kind: Any, text: str, value: Any) -> None:
    found = value_of("it", text, kind)
    assert equal(found, value) or (found == value and isinstance(found, set | frozenset))


@pytest.mark.parametrize(("kind", "text", "told"), WRONG)
def test_other_texts_are_refused_with_the_type(kind: Any, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        value_of("it", text, kind)
    assert str(caught.value).startswith(f"it is {text!r}, ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        (False, "false", False),
        (1.0, "nan", math.nan),
        (1.0, "2", 2.0),
        (1, "2", 2),
        (1, "2.5", 2.5),
        ("1.0", "1.10", "1.10"),
        (Path("a"), "b", Path("b")),
        (Color.RED, "BLUE", Color.BLUE),
        ([], "1,2", [1, 2]),
        ((1, 2), "3,4", (3, 4)),
        (None, "false", False),
        (None, "1.10", 1.1),
        (None, "text", "text"),
        (Own(), "5", 5),
    ],
)
def test_without_an_annotation_the_default_says_the_type(
    default: Any, text: str, value: Any
) -> None:
    def function(it=default):  # type: ignore[no-untyped-def]
        return it

    assert equal(call_arguments(function, {"it": text})["it"], value)


def test_a_default_refuses_other_types() -> None:
    def function(dry=False, n=1):  # type: ignore[no-untyped-def]
        return dry, n

    with pytest.raises(ConfigError, match=r"dry is 'maybe', expected bool"):
        call_arguments(function, {"dry": "maybe"})
    with pytest.raises(ConfigError, match=r"n is 'x', expected int \| float"):
        call_arguments(function, {"n": "x"})


def test_annotations_that_are_texts_and_names_that_are_missing() -> None:
    def function(
        n: int,
        absent: Absent = 0.5,
        late: Optional["Color"] = None,  # noqa: UP037, UP045
        implicit: int = None,  # type: ignore[assignment]  # noqa: RUF013
        *,
        dry: bool = False,
        **more: float,
    ) -> None: ...

    given = {"n": "5", "absent": "2", "late": "RED", "implicit": "none", "dry": "no", "other": "1"}
    assert call_arguments(function, given) == {
        "n": 5,
        "absent": 2.0,
        "late": Color.RED,
        "implicit": None,
        "dry": False,
        "other": 1.0,
    }


def test_functions_in_other_clothes() -> None:
    class Called:
        def __init__(self, n: int = 0) -> None: ...

        def __call__(self, n: int) -> None: ...

    def function(m: str, n: int) -> None: ...

    @functools.wraps(function)
    def wrapping(*args: Any, **kwargs: Any) -> None: ...

    for each in (Called, Called(), Called().__call__, functools.partial(function, "m"), wrapping):
        assert call_arguments(each, {"n": "5"}) == {"n": 5}


def test_a_name_comes_once() -> None:
    assert split_assignments(["a=1", "b=a=c"], "an argument") == {"a": "1", "b": "a=c"}
    with pytest.raises(ConfigError, match=r"a is given twice, '1' and '2'\n\nhint: several values"):
        split_assignments(["a=1", "a=2"], "an argument")
