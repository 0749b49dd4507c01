"""Programs as a type checker sees them: those of README and the docs, and what users override.

Their programs leave annotations out, so that functions without them are let through; all else is
as strict as mypy can be. It finds Oka as installed, by its `py.typed`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.first_hour import readme

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]

OWN = """
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import engine
from operators import (
    Accumulator,
    BatchFunction,
    BatchOperator,
    KeyedStream,
    ListState,
    ProcessContext,
    ProcessFunction,
    Properties,
    Stream,
    TaskContext,
    Tumbling,
    ValueState,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection


@dataclass
class Payment:
    user: str
    amount: float


class Limit(ProcessFunction):
    total = ValueState(0.0)
    seen = ListState[Payment]()

    def process(self, payment: Payment, task: ProcessContext) -> list[tuple[str, float]] | None:
        self.total += payment.amount
        self.seen.append(payment)
        return [(payment.user, self.total)]


class Longest(Accumulator[Payment, int, int]):
    def create(self) -> int:
        return 0

    def add(self, longest: int, payment: Payment) -> int:
        return max(longest, len(payment.user))

    def merge(self, one: int, other: int) -> int:
        return max(one, other)


class Doubled(BatchOperator):
    properties = Properties(on_error="skip")

    def open(self, task: TaskContext) -> BatchFunction:
        return DoubledFunction()


class DoubledFunction(BatchFunction):
    def process(self, numbers: list[int]) -> list[int]:
        return [2 * n for n in numbers]


class Declared(BatchOperator):
    @property
    def properties(self) -> Properties:
        return Properties()

    def open(self, task: TaskContext) -> BatchFunction:
        return DoubledFunction()


payments = source(Collection([Payment("a", 1.0)]))
users: Stream[str] = payments.map(lambda payment: payment.user)
lengths: Stream[int] = users.map(len).filter(lambda n: n > 1)
keyed: KeyedStream[Any, tuple[str, int]] = users.map(lambda user: (user, 1)).key_by(0)
totals = keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))
windows = payments.key_by(lambda payment: payment.user).window(Tumbling(timedelta(seconds=1)))
of_users: Stream[tuple[str, int, Any, Any]] = windows.count()
whole = payments.window(Tumbling(timedelta(seconds=1)))  # its results have no key
of_all: Stream[tuple[int, Any, Any]] = whole.count()
amounts: Stream[tuple[float, Any, Any]] = whole.apply(
    lambda key, payments, start, end: sum(payment.amount for payment in payments)
)
several: Stream[tuple[dict[str, Any], Any, Any]] = whole.aggregate(longest=Longest())
counted: Stream[str] = windows.aggregate(longest=Longest()).map(lambda window: window[0])
by_user = payments.key_by(lambda payment: payment.user)
by_name = users.key_by()
soon = (timedelta(0), timedelta(seconds=1))
pairs: Stream[tuple[Payment, str]] = by_user.interval_join(by_name, between=soon)
left: Stream[tuple[Payment, str | None]] = by_user.temporal_join(by_name, how="left")
full: Stream[tuple[Payment | None, str | None]] = by_user.window_join(
    by_name, Tumbling(timedelta(seconds=1)), how="full"
)
spent: Stream[float] = by_user.interval_join(
    by_name, lambda payment, user: float(payment.amount), between=soon, how="right"
)
times: Stream[tuple[str, int, Any, Any]] = by_user.cogroup(
    by_name, Tumbling(timedelta(seconds=1)), lambda user, payments, names, start, end: len(names)
)
columns = payments.to_columns().key_by("user")
amounts_of_both = columns.interval_join(columns, between=soon).map(lambda row: row["amount"])
rows: Stream[dict[str, Any]] = columns.count().to_records()
pipelines = [
    payments.key_by("user").process(Limit()).sink(Collect()),
    lengths.then(Doubled()).sink(Collect()),
    totals.map(lambda pair: pair[1] + 1).sink(Collect()),
    windows.aggregate(longest=Longest()).sink(Collect()),
]
outputs = engine.execute(pipelines, {"parallelism": 2}).outputs
"""
WRONG = """
from operators import source
from operators.sources import Collection

source(Collection(["a"])).map(lambda word: word + 1)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy knows of Oka, of ten CPU seconds, for all tests here."""
    return tmp_path_factory.mktemp("cache")


def mypy(folder: Path, cache: Path, **programs: str) -> str:
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports"),
            *("--allow-untyped-defs", "--allow-untyped-calls", "--check-untyped-defs"),
            *("--cache-dir", str(cache)),
            *(f"{name}.py" for name in programs),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def test_programs_of_the_docs_and_what_users_override(tmp_path: Path, cache: Path) -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [text for page in pages for text in readme.modules(page)]
    programs = {f"program_{number}": text for number, text in enumerate(texts)}
    told = mypy(tmp_path, cache, **programs, own=OWN)
    assert told == f"Success: no issues found in {len(programs) + 1} source files\n"


def test_a_mistake_is_found(tmp_path: Path, cache: Path) -> None:
    told = mypy(tmp_path, cache, wrong=WRONG)
    assert 'wrong.py:5: error: Unsupported operand types for + ("str" and "int")' in told


def test_each_package_that_is_installed_tells_its_types() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = settings["tool"]["maturin"]["python-packages"]
    assert all((ROOT / package / "py.typed").is_file() for package in packages)
