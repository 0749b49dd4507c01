"""A source of models: those it is given, or each new content of a folder."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.errors import GraphError, ModelError
from engine.graph.operator import Properties, SourceOperator, TaskContext
from engine.model.folder import FileOnDisk, list_folder, read_status

logger = logging.getLogger("oka")


class Models(SourceOperator[Any]):
    """Models to publish with `.broadcast(via=…)`, one after another, in one task.

    `every` is the pause between two of them, in seconds. With `watch`, a file or a folder, its
    content is published as it is at the start and again whenever it has changed: the path is looked
    at once a second, and taken when it has stayed the same for one look. Rename a complete folder
    into place, and no half of it is ever seen. The path must be there at the start; while the
    folder is empty, or cannot be read, the task says so every ten seconds. It ends after `seconds`,
    or when nobody reads it any more.

    Values travel to the task with the job: for large ones give a path, which must exist there.

    >>> context = TaskContext("models[0]", 0, 1, 100, "job")
    >>> list(Models(b"first", b"second").open(context))
    [b'first', b'second']
    """

    properties = Properties(parallelism=1, goes_on=False)

    def __init__(
        self,
        *values: Any,
        every: float | None = None,
        watch: str | Path | None = None,
        seconds: float | None = None,
    ) -> None:
        if bool(values) == (watch is not None):
            raise GraphError(
                f"Models got {len(values)} models and watch={watch!r}, expected one or the other",
                hint="Models('folder') publishes it once, Models(watch='folder') at each change",
            )
        for name, value in (("every", every), ("seconds", seconds)):
            if value is not None and not _is_duration(value):
                raise GraphError(f"Models got {name}={value!r}, expected seconds > 0")
        if watch is None and seconds is not None:
            raise GraphError("Models got seconds without watch, expected both")
        if watch is not None and every is not None:
            raise GraphError(
                "Models got every with watch, expected it with models",
                hint="a watched path is published whenever it has changed",
            )
        self.values = values
        self.every = every
        self.watch = None if watch is None else Path(watch).absolute()
        self.seconds = seconds

    def validate_here(self) -> None:
        """Fail if what is to be watched is not there."""
        if self.watch is not None and not self.watch.exists():
            raise GraphError(_missing(self.watch), hint=_MISSING)

    def open(self, context: TaskContext) -> Iterator[Any]:
        """The models, in the first task; others have none."""
        if context.index > 0:
            return
        if self.watch is None:
            for number, value in enumerate(self.values):
                if number and self.every is not None:
                    yield from _pause(self.every)
                yield value
        else:
            if not self.watch.exists():
                raise ModelError(_missing(self.watch), _MISSING)
            yield from _changes(self.watch, self.seconds, context.task_name)


def _changes(path: Path, seconds: float | None, task: str) -> Iterator[Any]:
    end = None if seconds is None else time.monotonic() + seconds
    published = None
    seen = _content(path)  # what is there at the start is whole
    said = time.monotonic()
    while end is None or time.monotonic() < end:
        now = _content(path)
        if now is not None and now != published and now == seen:
            yield path
            published = now
        seen = now
        if now is not None:
            said = time.monotonic()
        elif time.monotonic() - said >= _SAY_SECONDS:
            said = time.monotonic()
            logger.warning(
                f"task {task} watches {str(path)!r} for models: {_trouble(path)}; "
                + ("the last one stays" if published else "there was none yet")
            )
        left = _LOOK_SECONDS if end is None else min(_LOOK_SECONDS, end - time.monotonic())
        yield from _pause(left)


def _content(path: Path) -> list[FileOnDisk] | None:
    """What tells one content of the path from another; None while there is no model to read."""
    try:
        return _files(path) or None
    except ModelError:
        return None


def _trouble(path: Path) -> str:
    """Why there is no content."""
    try:
        return "it is empty" if not _files(path) else "it has just changed"
    except ModelError as error:
        return error.message


def _files(path: Path) -> list[FileOnDisk]:
    if path.is_dir():
        return [file for _, file in list_folder(path)[0]]
    return [read_status(path)]


def _missing(path: Path) -> str:
    return f"Models watches {str(path)!r}, which does not exist"


def _pause(seconds: float) -> Iterator[list[Any]]:
    """Wait, with empty batches meanwhile: at those a task notices that it was cancelled."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        yield []
        time.sleep(min(left, _BREATH_SECONDS))


def _is_duration(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    )


_MISSING = "make the folder; it may be empty until the first model is renamed into it"
_LOOK_SECONDS = 1.0
_SAY_SECONDS = 10.0
_BREATH_SECONDS = 0.05
