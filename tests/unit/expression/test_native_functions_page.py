"""The page on what runs natively says what `lift` does."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.expression.lift import Lifted, Refusal, lift
from engine.expression.pure import CALLS, ITERATORS, METHODS, VIEWS

PAGE = (Path(__file__).parents[3] / "docs/reference/native-functions.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
UNDERSTOOD, REFUSED = SECTIONS["What is understood"], SECTIONS["What is not"]


class Settings:
    rate = 2


def helper(number, by=1):
    return number * by


NAMES: dict[str, Any] = {
    "RATE": 0.9,
    "NAMES": ("a", "b"),
    "STOP_WORDS": {"the"},
    "TABLE": {"a": 1},
    "Settings": Settings,
    "helper": helper,
    "json": json,
}


def rows(text: str) -> list[list[str]]:
    """The cells of tables' rows, but for the first."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and "xample" not in line]
    cells = [re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |")) for line in lines]
    return [[cell.replace("\\|", "|").replace("\\`", "`") for cell in row] for row in cells]


def function(code: str) -> Any:
    """A function of x with this code, which is an expression or statements."""
    names = dict(NAMES)
    try:
        return eval(f"lambda x: {code}", names)
    except SyntaxError:
        exec(f"def function(x):\n    {code}", names)
        return names["function"]


EXAMPLES = [code for _, cell in rows(UNDERSTOOD) for code in re.findall("`(.*?)`", cell)]


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) > 40
    assert len(rows(REFUSED)) > 10


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_is_understood(code: str) -> None:
    lifted = lift(function(code), 1)
    assert isinstance(lifted, Lifted), lifted


@pytest.mark.parametrize(("example", "reason"), rows(REFUSED))
def test_an_example_is_refused(example: str, reason: str) -> None:
    refusal = lift(function(example.strip("`")), 1)
    assert isinstance(refusal, Refusal)
    assert re.sub(", line.*", "", refusal.reason) == reason


@pytest.mark.parametrize(
    ("what", "names"),
    [("Builtins", {*CALLS, *ITERATORS}), ("Methods", {*METHODS, *VIEWS})],
)
def test_the_page_names_all_builtins_and_methods(what: str, names: set[str]) -> None:
    found = re.search(rf"^{what}: (.*?)\.$", UNDERSTOOD, re.M | re.S)
    assert found
    assert re.findall("`(.*?)`", found[1]) == sorted(names)
