"""A job in a notebook: its history as HTML, and the cell that shows it while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.errors import ConfigError
from engine.history import view
from engine.history.reading import Follower, JobHistory, whole
from engine.notebook import cells, html


def page(history: JobHistory) -> str:
    """What `oka jobs` tells of a job, without its log, as HTML for a notebook.

    Raises ConfigError where the history is damaged.
    """
    with whole(history):
        rows = view.rows(history)
        columns, operators = view.operators(rows)
        marked = [at for at, row in enumerate(rows) if row.is_bottleneck]
        parts = [
            html.lines(view.summary(history)),
            html.table(columns, operators, marked=marked) if rows else "",
            html.printed("\n".join(view.news(history, _NEWS))),
            html.printed("\n\n".join(view.end(history))),
        ]
    return view.shown("".join(parts))


class LiveCell:
    """Shows the job in the cell that starts it, anew each second, until it ends.

    A thread of its own does, so that nobody waits for it. `path` gives the file of the history once
    there is one; without, `otherwise` gives the HTML. `text` is for a page that shows no HTML.
    """

    def __init__(
        self,
        text: Callable[[], str],
        path: Callable[[], Path | None],
        otherwise: Callable[[], str],
    ) -> None:
        self._text, self._path, self._otherwise = text, path, otherwise
        self._follower: Follower | None = None
        self._shown = cells.Shown(text())
        self._last = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oka-cell", daemon=True)
        self._thread.start()

    def end(self, words: str) -> None:
        """Leave these words in the cell. Waits for what is being shown, unless that takes long."""
        self._last = words
        self._ended.set()
        self._thread.join(_PATIENCE_SECONDS)

    def _run(self) -> None:
        while not self._ended.wait(_SECONDS):
            with suppress(Exception):  # it is shown anew in a second; the job goes on
                self._shown.change(self._text(), self._html())
        if self._follower is not None:
            self._follower.close()
        self._shown.change(self._last)

    def _html(self) -> str:
        if self._follower is None and (path := self._path()) is not None:
            self._follower = Follower(path)
        if self._follower is not None:
            with suppress(ConfigError, OSError):
                return page(self._follower.history())
        return self._otherwise()


def page_of(path: Path | None) -> str | None:
    """The page of a history in a file; None where there is none that can be read."""
    if path is None:
        return None
    try:
        return page(JobHistory.read(path))
    except (ConfigError, OSError):
        return None


_NEWS = 5
"""The last events and errors that are shown."""
_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
