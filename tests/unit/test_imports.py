"""What a program loads before it begins: each process of a job pays for it."""

import subprocess
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest

import engine
import operators

PROGRAM = """
import sys, engine, operators, operators.sinks, operators.sources, operators.windows
print([name for name in ('numpy', 'pyarrow', 'ray', 'confluent_kafka') if name in sys.modules])
"""
WORKER = """
import sys, engine.host.forkserver, engine.task.task
import operators.sources.random_words, operators.sinks.discard
print([name for name in ('engine.job', 'engine.driver', 'operators.stream') if name in sys.modules])
"""


@pytest.mark.parametrize("program", [PROGRAM, WORKER], ids=["program", "worker"])
def test_it_loads_nothing_that_it_may_not_need(program: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("package", [engine, operators])
def test_no_module_has_the_name_of_an_object(package: ModuleType) -> None:
    """Python would put the module in the place of the object."""
    place = package.__name__
    assert [name for name in package.__all__ if find_spec(f"{place}.{name}")] == []


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match="module 'engine' has no attribute 'exekute'"):
        engine.exekute  # noqa: B018
