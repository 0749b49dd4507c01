"""The progress of a benchmark that takes minutes."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Named(Protocol):
    """A case that has a label."""

    @property
    def label(self) -> str:
        """The case in words."""


class Runs:
    """A line for each run, and the remaining time: a bar on a terminal, else a part of the line."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._done = 0
        self._started = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=runs, left="")

    def __enter__(self) -> Runs:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def runs(self, case: Named) -> None:
        """Show the running case."""
        self._bar.update(self._task, description=case.label, left=self._left())

    def ran(self, case: Named, outcome: str) -> None:
        """Show how a run of it has ended."""
        self._done += 1
        line = f"[{self._done}/{self._runs}] {case.label}: {outcome}"
        if self._bar.disable:
            print(
                f"{line}  ({self._left()})" if self._left() else line, file=sys.stderr, flush=True
            )
        else:
            self._bar.console.print(line, markup=False, highlight=False)
            self._bar.update(self._task, completed=self._done, left=self._left())

    def _left(self) -> str:
        """The remaining time, if runs go on as they have."""
        left = self._runs - self._done
        if not self._done or not left:
            return ""
        seconds = (time.monotonic() - self._started) / self._done * left
        if seconds < 100:
            return f"{seconds:.0f} s left"
        minutes = round(seconds / 60)
        return f"{minutes} min left" if minutes < 100 else f"{minutes / 60:.1f} h left"
