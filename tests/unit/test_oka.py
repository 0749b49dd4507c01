"""`import oka`: the names that programs need, each an object of `engine` or `operators`."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
import oka
import operators
from tests.first_hour import readme

ROOT = Path(__file__).parents[2]
MODULES = ("errors", "formats", "kafka", "patterns", "sinks", "sources", "testing")


def imports(program: str) -> Iterator[tuple[str, str]]:
    """What a program takes from Oka's packages: module and name, or a module and nothing."""
    for node in ast.walk(ast.parse(program)):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and module.split(".")[0] in ("engine", "operators"):
            yield from ((module, alias.name) for alias in node.names)


@pytest.mark.parametrize(
    ("package", "names"), [(engine, engine.__all__), (operators, operators.__all__)]
)
def test_each_name_is_the_same_object(package: object, names: list[str]) -> None:
    for name in names:
        assert getattr(oka, name) is getattr(package, name)
    assert set(names) <= set(oka.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_each_module_has_the_objects_of_its_namesake(name: str) -> None:
    own = getattr(oka, name)
    assert own is importlib.import_module(f"oka.{name}")
    package = "engine" if name in ("errors", "testing") else "operators"
    namesake = importlib.import_module(f"{package}.{name}")
    for each in own.__all__:
        assert getattr(own, each) is getattr(namesake, each)
    if name == "errors":
        raised = {key for key, value in vars(namesake).items() if isinstance(value, type)}
        assert set(own.__all__) == {each for each in raised if each.endswith(RAISED)}


RAISED = ("Error", "Lost", "Fenced", "JobCancelled", "JobStopped")


def test_the_programs_of_the_docs_need_nothing_else() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [program for page in pages for program in readme.programs(page)]
    assert any("import oka\n" in program for program in found)
    assert sorted({each for program in found for each in imports(program)}) == []


def test_it_lists_what_it_has_and_names_what_it_has_not() -> None:
    assert set(oka.__all__) <= set(dir(oka))
    with pytest.raises(AttributeError, match="module 'oka' has no attribute 'Tumblng'"):
        oka.Tumblng  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'sink' from 'oka'"):
        from oka import sink  # type: ignore[attr-defined]  # noqa: F401


def test_it_loads_no_more_than_the_engine_until_a_name_is_used() -> None:
    program = """
import sys, engine
before = set(sys.modules)
import oka
print(sorted(set(sys.modules) - before))
from oka import *
print(Tumbling is oka.Tumbling, sources.Collection is oka.sources.Collection)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['oka']", "True True"]
