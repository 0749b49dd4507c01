r"""A source of the lines of text files, which the parallel tasks share out by byte ranges.

Invariant: a line belongs to the task in whose range it begins, and a range's real borders depend
on the file and the range's nominal borders alone; so neighbours agree, and no line is lost or
doubled. A line ends in `\n`, `\r\n` or `\r`, as in Python's `open`.
"""

import codecs
import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError, GraphError
from engine.graph.checks import check_integer
from engine.graph.operator import (
    Properties,
    SourceOperator,
    SourceReader,
    SplitReader,
    TaskContext,
)
from operators.sources.batches import Blocks
from operators.sources.layout import (
    Layer,
    Piece,
    Range,
    check_there,
    continued,
    last_pieces,
    layers_of,
    mark_of,
    ranges,
    refuse_continued,
)
from operators.sources.lines import File, ends_line, line_start, whole_lines
from operators.sources.rate import check_rate


class TextFiles(SourceOperator[str]):
    """The lines, without their ends, of files: paths or glob patterns, one or several.

    Files ending in `.gz` are unpacked on the way; each is read by one task, the others by all.
    Which files there are, and how long, is settled when the job is planned. A job that goes on from
    a checkpoint reads the files that it had to their end, then what has come since: new files, and
    lines behind the last ones. A file that was changed otherwise ends it with an error.

    Lines of a file keep their order within a task, which reads its files one behind the other;
    where they have event time, the one that is furthest behind in it. `encoding` must have ASCII as
    its first half (UTF-8, Latin-1, Shift-JIS, not UTF-16); `errors` is what `bytes.decode` does
    with what it cannot decode: "strict" fails the job, "replace" puts a mark, "ignore" leaves it
    out. `repeat` is how many times over each task reads its share (a file that several patterns
    match counts once); each time over is in an order of its own. `rate` is lines per second over
    all tasks.

        source(TextFiles("logs/*.txt.gz"))
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        encoding: str = "utf-8",
        errors: str = "strict",
        repeat: int = 1,
        rate: float | None = None,
    ) -> None:
        several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self.patterns = [os.fspath(path) for path in several]
        if not self.patterns:
            raise GraphError("TextFiles got no path, expected at least one")
        _check_encoding(encoding, errors)
        check_integer("repeat", repeat, 1)
        check_rate(rate)
        self.repeat = repeat
        self.encoding = encoding
        self.errors = errors
        self.rate = rate
        self._files: tuple[Piece, ...] | None = None

    @property
    def properties(self) -> Properties:
        """Its rate, and that its lines are there."""
        return Properties(rate=self.rate, never_waits=True)

    def validate(self) -> None:
        """Settle which files there are and how long they are, for all tasks alike."""
        self._files = _found(self.patterns)

    def open(self, context: TaskContext) -> SplitReader:
        """The lines of this task's byte ranges, in batches; each range is a split."""
        return _Lines(self, _found(self.patterns) if self._files is None else self._files, context)

    def decode(self, block: bytes, path: str) -> list[str]:
        """The lines of a block of whole ones, which end in a line feed."""
        try:
            lines = block.decode(self.encoding, self.errors).split("\n")
        except UnicodeDecodeError as error:
            error.reason += f", in {path} (errors='replace' reads on)"
            raise
        if not lines[-1]:
            lines.pop()
        return lines


class _Lines(SplitReader):
    """What one share has of the files. A split's name has the time over of its range, too."""

    def __init__(self, source: TextFiles, files: tuple[Piece, ...], context: TaskContext) -> None:
        self._source = source
        self._files = files
        self._context = context
        self._layers: tuple[Layer, ...] = (Layer(files, tuple(range(context.parallelism))),)
        self.splits: dict[Any, SourceReader] = {}
        self.ended: list[Any] = []
        self._open({})

    @property
    def layout(self) -> Any:
        """The layers, as plain tuples."""
        return tuple((tuple(map(tuple, layer.pieces)), layer.shares) for layer in self._layers)

    def restore(self, position: Any) -> None:
        """Begin where another reader of the share was."""
        if not isinstance(position[1], Mapping):
            raise CheckpointError(
                "the positions of TextFiles do not name its files, expected names and sizes",
                "the checkpoint is of an earlier version of Oka: start the job anew",
            )
        super().restore(position)

    def lay_out(self, layout: Any, positions: Mapping[Any, tuple[Any, ...]]) -> None:
        """Make the ranges again, and those of what has come since."""
        before = layers_of(layout)
        shares = self._context.open_shares or range(self._context.parallelism)
        self._layers = continued(before, self._files, shares)
        self._check(before, positions)
        self._open(positions)

    def end(self, name: Any) -> None:
        """The range has no more lines."""
        del self.splits[name]
        self.ended.append(name)

    def _open(self, positions: Mapping[Any, tuple[Any, ...]]) -> None:
        own, files = self._names(self._layers), last_pieces(self._layers)
        count = 1 if self._context.splits.times is None else len(own)
        self.splits.clear()
        for name, each in own.items():
            position = positions.get(name)
            if position == ():
                continue
            blocks = partial(_blocks, self._source, each, files[each.piece.path].end, count)
            self.splits[name] = Blocks(blocks, (None, 0), self._context.batch_size)
            if position is not None:
                self.splits[name].restore(position[0])
        self.ended = [name for name in own if name not in self.splits]

    def _names(self, layers: tuple[Layer, ...]) -> dict[Any, Range]:
        own = list(ranges(layers, self._context.index))
        return {(*each.name, time): each for time in range(self._source.repeat) for each in own}

    def _check(self, before: tuple[Layer, ...], positions: Mapping[Any, tuple[Any, ...]]) -> None:
        """Raise CheckpointError where files are not what the positions are of."""
        then, now = last_pieces(before), last_pieces(self._layers)
        own = self._names(before)
        for path in {each.piece.path for name, each in own.items() if positions.get(name) != ()}:
            check_there(then[path])
        for name, each in own.items():
            path, size = each.piece.path, then[each.piece.path].end
            if now[path].end > size and _has_last_line(each, size, positions.get(name)):
                refuse_continued(then[path])


def _blocks(
    source: TextFiles, of: Range, size: int, count: int, start: tuple[int | None, int]
) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Blocks of lines of a range; each start has an offset, and how many lines are left out there.

    Of several that are read side by side, the first is a line alone: more would be early.
    """
    offset, skipped = start
    path, is_first = of.piece.path, offset is None and count > 1
    block_bytes = min(_BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, _BLOCK_BYTES // count))
    with File(path, stays_open=count <= _MOST_OPEN) as file:
        for begin, block in whole_lines(file, of, size, offset, block_bytes):
            lines = source.decode(block, path)
            if is_first:
                yield (begin, 0), lines[:1]
                skipped, is_first = 1, False
            yield (begin, skipped), lines[skipped:] if skipped else lines
            skipped = 0


def _found(patterns: list[str]) -> tuple[Piece, ...]:
    paths: dict[str, None] = {}
    for pattern in patterns:
        if Path(pattern).exists():  # a name may have the characters of a pattern in it
            matches = [pattern]
        else:
            matches = sorted(
                match
                for match in glob.glob(pattern, recursive=True)  # noqa: PTH207 - absolute ones too
                if Path(match).is_file()
            )
        if not matches:
            kind = "pattern matches no file" if glob.has_magic(pattern) else "file does not exist"
            raise GraphError(
                f"{kind}: {pattern!r}, expected at least one file",
                hint=f"relative paths begin at {Path.cwd()}",
            )
        paths |= dict.fromkeys(matches)
    for path in paths:
        if not Path(path).is_file():
            raise GraphError(
                f"{path!r} is not a file, expected text files",
                hint=f"the files in a folder are {str(Path(path) / '*')!r}",
            )
        if not os.access(path, os.R_OK):
            raise GraphError(f"{path!r} may not be read, expected permission to read it")
    # Absolute, since a worker may have another working directory.
    return tuple(_whole(str(Path(path).absolute())) for path in paths)


def _whole(path: str) -> Piece:
    size = Path(path).stat().st_size
    return Piece(path, 0, size, mark_of(path, size))


def _has_last_line(of: Range, size: int, position: tuple[Any, ...] | None) -> bool:
    """Whether a file's last line, which had no end, was read: it had so many bytes, and has more.

    That line is a block of its own.
    """
    if position is None:
        return False
    with File(of.piece.path) as file:
        if ends_line(file, size):
            return False
        if not position:
            begin, end = (line_start(file, at, size) for at in (of.begin, of.end))
            return begin < end == size
        (offset, skipped), given = position[0]
        return (
            offset is not None
            and skipped + given > 0
            and line_start(file, offset + 1, size) == size
        )


def _check_encoding(encoding: str, errors: str) -> None:
    try:
        codecs.lookup_error(errors)
        fits = _ASCII.decode(encoding, "replace") == _ASCII.decode("ascii")
    except LookupError as error:
        raise GraphError(f"{error}, expected a text encoding and an error policy") from None
    if not fits:
        raise GraphError(
            f"encoding is {encoding!r}, expected one that has ASCII as its first half",
            hint="convert the file to UTF-8; its ranges cannot be found in this encoding",
        )


_BLOCK_BYTES = 1 << 20
_LEAST_BLOCK_BYTES = 1 << 14
"""Where files are read side by side, each has its part of a block in memory, or so much."""
_MOST_OPEN = 64
"""As many files stay open that are read side by side."""
_ASCII = bytes(range(128))
