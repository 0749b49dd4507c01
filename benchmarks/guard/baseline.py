"""The committed baseline of `oka bench guard`, `benchmarks/guard/baseline.json`.

Schema `oka.baseline/1`. Each part has its own date, commit and machine, since one can be renewed
without the other:

    {"schema": "oka.baseline/1",
     "ratios": {"date", "commit", "machine", "versions",
                "cases": {CASE: {"throughput", "cpu"}}},
     "instructions": {"date", "commit", "machine", "rustc", "paths": {PATH: n}}}

`throughput` and `cpu` are Oka's run divided by that of the pyzmq pair in the same turn, the median
over the turns: words per second at the sink, and CPU seconds per million words. `paths` are
instructions per record of each hot path of the Rust core.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.schema.results_file import check_writable, write_whole
from engine.errors import ConfigError
from engine.report.provenance import commit, machine, versions


@dataclass(frozen=True)
class Ratios:
    """One case of Oka, divided by the pair of the same payload and batch."""

    throughput: float
    """More is better."""
    cpu: float
    """Less is better."""


@dataclass(frozen=True)
class Instructions:
    """Instructions per record of each path, and the compiler that built them."""

    rustc: str
    paths: Mapping[str, float]


@dataclass(frozen=True)
class Baseline:
    """The contents of the file."""

    ratios: Mapping[str, Ratios] | None
    """By the name of the case; None if never measured."""
    instructions: Instructions | None

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read the file. Raises ConfigError if it is missing, or no baseline."""
        content = _content(path)
        try:
            return cls(_ratios(content.get("ratios")), _instructions(content.get("instructions")))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{path} is no baseline: {type(error).__name__}: {error}", UPDATE_HINT
            ) from error


def check_updatable(path: Path) -> None:
    """Raise ConfigError if `update` could not write to this path."""
    check_writable(path)
    if path.exists():
        _content(path)


def update(
    path: Path,
    ratios: Mapping[str, Ratios] | None = None,
    instructions: Instructions | None = None,
) -> None:
    """Write these parts; a part that is None stays as it is in the file."""
    content: dict[str, Any] = _content(path) if path.exists() else {"schema": SCHEMA}
    taken = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "machine": machine()}
    if ratios is not None:
        cases = {
            name: {"throughput": round(each.throughput, 3), "cpu": round(each.cpu, 4)}
            for name, each in ratios.items()
        }
        content["ratios"] = {**taken, "versions": versions(), "cases": cases}
    if instructions is not None:
        paths = {name: round(each, 2) for name, each in instructions.paths.items()}
        content["instructions"] = {**taken, "rustc": instructions.rustc, "paths": paths}
    write_whole(path, (json.dumps(content, indent=2) + "\n").encode())


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", UPDATE_HINT) from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}", UPDATE_HINT) from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise ConfigError(f"{path} has the schema {schema!r}, expected {SCHEMA!r}", UPDATE_HINT)
    return dict(content)


def _ratios(part: Any) -> dict[str, Ratios] | None:
    if part is None:
        return None
    return {
        name: Ratios(_number(case["throughput"]), _number(case["cpu"]))
        for name, case in part["cases"].items()
    }


def _instructions(part: Any) -> Instructions | None:
    if part is None:
        return None
    paths = {name: _number(each) for name, each in part["paths"].items()}
    return Instructions(str(part["rustc"]), paths)


def _number(value: Any) -> float:
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"{value!r} is no number above 0")
    return number


PATH = Path(__file__).parent / "baseline.json"
SCHEMA = "oka.baseline/1"
UPDATE_HINT = "`oka bench guard --update` on a quiet machine writes it anew"
