"""A source of models: given ones, or each new content of a folder."""

import logging
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from engine.errors import GraphError, ModelError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator, SourceReader
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

    After a failure, a job with checkpoints first gets its last model again, with the same version.
    If a watched path has changed meanwhile, it gets the current content, with the next version.

    >>> reader = Models(b"first", b"second", b"third").open(context)
    >>> reader.restore((2, ""))
    >>> list(reader)
    [(2, b'second'), b'third']
    """

    properties = Properties(parallelism=1, gives_again=True, meaning={"kind": "models"})

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
        """Raise an error if the watched path does not exist."""
        if self.watch is not None and not self.watch.exists():
            raise GraphError(_missing(self.watch), hint=_MISSING)

    def open(self, context: TaskContext) -> SourceReader:
        """The models, in the first task; others have none."""
        return _Reader(self, context)


class _Reader(SourceReader):
    """A position is the version of the last model, and the mark of its content.

    The version of one of several values is its number, unless it brings its own.
    """

    def __init__(self, models: Models, context: TaskContext) -> None:
        self._models = models
        self._context = context
        self._given = 0
        self._content = ""
        """The mark of the watched path's content."""

    @property
    def position(self) -> tuple[int, str]:
        return self._given, self._content

    def restore(self, position: tuple[int, str]) -> None:
        self._given, self._content = position

    def __iter__(self) -> Iterator[Any]:
        if self._context.index > 0:
            return iter(())
        return self._values() if self._models.watch is None else self._changes(self._models.watch)

    def _values(self) -> Iterator[Any]:
        values, every = self._models.values, self._models.every
        again = min(self._given, len(values)) - 1
        for number in range(max(again, 0), len(values)):
            if number > max(again, 0) and every is not None:
                yield from _pause(every)
            self._given = number + 1
            value = values[number]
            is_plain = number == again and not isinstance(value, tuple)
            yield (_version(values[: number + 1]), value) if is_plain else value

    def _changes(self, path: Path) -> Iterator[Any]:
        if not path.exists():
            raise ModelError(_missing(path), _MISSING)
        seconds = self._models.seconds
        end = None if seconds is None else time.monotonic() + seconds
        published = None
        is_again = self._given > 0
        seen = _content(path)  # the content at the start is complete
        if is_again and _told(seen) != self._content:
            seen = None  # the first content may still be on its way
        said = time.monotonic()
        while end is None or time.monotonic() < end:
            now = _content(path)
            if now is not None and now != published and now == seen:
                if not is_again or _told(now) != self._content:
                    self._given, self._content = self._given + 1, _told(now)
                yield (self._given, path) if is_again else path
                published, is_again = now, False
            seen = now
            if now is not None:
                said = time.monotonic()
            elif time.monotonic() - said >= _SAY_SECONDS:
                said = time.monotonic()
                logger.warning(
                    f"task {self._context.task_name} watches {str(path)!r} for models: "
                    f"{_trouble(path)}; "
                    + ("the last one stays" if published else "there was none yet")
                )
            left = _LOOK_SECONDS if end is None else min(_LOOK_SECONDS, end - time.monotonic())
            yield from _pause(left)


def _version(values: Sequence[Any]) -> int:
    """The version of the last model."""
    last = 0
    for value in values:
        last = value[0] if isinstance(value, tuple) and value else last + 1
    return last


def _told(content: list[FileOnDisk] | None) -> str:
    """A short text that identifies a content."""
    return blake2b(repr(content).encode(), digest_size=16).hexdigest()


def _content(path: Path) -> list[FileOnDisk] | None:
    """The status of all files of the path; None while there is no model to read."""
    try:
        return _files(path) or None
    except ModelError:
        return None


def _trouble(path: Path) -> str:
    """The reason why there is no content."""
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
    """Wait, with empty batches meanwhile, at which a task notices that it was cancelled."""
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
