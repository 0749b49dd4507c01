"""The rows of one benchmark, kept in a file of the schema `oka.bench/1` as they are finished."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measurement import Case
from benchmarks.schema import results_file
from engine.errors import ConfigError, EngineError
from engine.report.provenance import commit, machine, versions
from engine.units import counted

Row = dict[str, Any]


class Result:
    """Rows by their cases, dataclasses of `case_type`.

    With a path, each `add` writes the file anew, whole or not at all.

    If the file exists, its rows are kept if they were measured by the same code, on the same
    machine, with the same settings. Rows with failures are measured again.
    """

    def __init__(
        self,
        benchmark: str,
        settings: Mapping[str, Any],
        path: Path | None,
        fresh: bool = False,
        case_type: type[Any] = Case,
    ) -> None:
        self.path = path
        self.rows: list[Row] = []
        self._fields = [field.name for field in dataclasses.fields(case_type)]
        self._head = {
            "schema": results_file.SCHEMA,
            "benchmark": benchmark,
            "settings": dict(settings),
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
        }
        if path is None:
            return
        results_file.check_writable(path)
        if path.exists() and not fresh:
            self.rows = self._continued(path)

    @property
    def content(self) -> dict[str, Any]:
        """The whole content of the file."""
        return {**self._head, "date": time.strftime("%Y-%m-%d"), "rows": self.rows}

    def find(self, case: Any) -> Row | None:
        """The row of the case, if it was measured."""
        wanted = dataclasses.asdict(case)
        for found in self.rows:
            if all(found.get(field) == value for field, value in wanted.items()):
                return found
        return None

    def has(self, case: Any) -> bool:
        """Whether the case was measured without a failure."""
        found = self.find(case)
        return found is not None and not found["failures"]

    def add(self, rows: Sequence[Row]) -> None:
        """Keep these rows, instead of earlier ones of the same cases."""
        new = [tuple(found[field] for field in self._fields) for found in rows]
        self.rows = [
            found
            for found in self.rows
            if tuple(found.get(field) for field in self._fields) not in new
        ]
        self.rows += rows
        if self.path is not None:
            results_file.write(self.path, self.content)

    def raise_failures(self, cases: Iterable[Any]) -> None:
        """Raise EngineError if a run of one of these cases failed, with the first message.

        Other rows of the file belong to other commands.
        """
        rows = [found for case in cases if (found := self.find(case)) is not None]
        failures = [message for found in rows for message in found["failures"]]
        if failures:
            raise EngineError(
                f"{counted(len(failures), 'run')} failed, the first with: {failures[0]}",
                f"all messages are in the rows of {self.path}" if self.path else None,
            )

    def tell_kept(self) -> None:
        """Say on stderr what is kept, if a benchmark stops before its end."""
        if self.path is not None and self.rows:
            print(
                f"{self.path} has {counted(len(self.rows), 'finished row')}; "
                "the same command goes on from there",
                file=sys.stderr,
            )

    def tell_found(self, kept: int) -> None:
        """Say on stderr how many of the requested rows exist already."""
        if self.path is not None:  # else they were made by the same command
            print(f"{self.path} has {counted(kept, 'row')} of these already: kept", file=sys.stderr)

    def _continued(self, path: Path) -> list[Row]:
        earlier = results_file.read(path)
        for field, value in self._head.items():
            if field != "schema" and earlier.get(field) != value:
                raise ConfigError(
                    f"{path} has {field} {earlier.get(field)!r}, this run would have {value!r}",
                    "another --json file, or --fresh to replace this one",
                )
        rows: list[Row] = earlier["rows"]
        return rows
