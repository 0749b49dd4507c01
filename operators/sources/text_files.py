r"""A source of the lines of text files, which the parallel tasks divide by byte ranges.

Invariant: a line belongs to the task in whose range it begins, and a range's real borders depend
only on the file and the range's nominal borders. So neighbours agree, and no line is lost or
doubled. A line ends in `\n`, `\r\n` or `\r`, as in Python's `open`.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from engine.columns import import_pyarrow
from engine.errors import CheckpointError, GraphError
from engine.graph.checks import check_integer
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator, SourceReader, SplitReader
from operators.sources.batches import Blocks
from operators.sources.encodings import check_encoding
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
from operators.sources.patterns import divided, matching
from operators.sources.rate import check_rate


class TextFiles(SourceOperator[str]):
    """The lines, without their ends, of files: paths or glob patterns, one or several.

    Files ending in `.gz` and `.zst` are unpacked on the way (the latter by PyArrow); each is read
    by one task, the others by all. The files and their sizes are fixed when the job is planned. A
    job that goes on from a checkpoint reads these files to their end, then new files, and lines
    that were added since. A file that was changed otherwise ends the job with an error.

    Lines of a file keep their order within a task, which reads its files one behind the other; with
    event time, it reads the one that is furthest behind. `encoding` must have ASCII as its first
    half (UTF-8, Latin-1, Shift-JIS, not UTF-16); `errors` is what `bytes.decode` does with what it
    cannot decode: "strict" fails the job, "replace" puts a mark, "ignore" leaves it out. `repeat`
    is how many times over each task reads its share (a file that several patterns match counts
    once); each time over is in an order of its own. `rate` is lines per second over all tasks.

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
        check_encoding(encoding, errors)
        check_integer("repeat", repeat, 1)
        check_rate(rate)
        self.repeat = repeat
        self.encoding = encoding
        self.errors = errors
        self.rate = rate
        self._files: tuple[Piece, ...] | None = None

    @property
    def properties(self) -> Properties:
        """Its rate, and that it never waits."""
        return Properties(rate=self.rate, never_waits=True)

    def validate(self) -> None:
        """Fix the files and their sizes, for all tasks."""
        self._files = _found(self.patterns)
        if any(file.codec == "zstd" for file in self._files):
            import_pyarrow("a .zst file")

    def open(self, context: TaskContext) -> SplitReader:
        """The lines of this task's byte ranges, in batches; each range is a split."""
        return _Lines(self, _found(self.patterns) if self._files is None else self._files, context)

    def decode(self, block: bytes, path: str) -> list[str]:
        """The lines of a block, each of which ends in a line feed."""
        try:
            lines = block.decode(self.encoding, self.errors).split("\n")
        except UnicodeDecodeError as error:
            error.reason += f", in {path} (errors='replace' reads on)"
            raise
        if not lines[-1]:
            lines.pop()
        return lines


class _Lines(SplitReader):
    """The ranges of one share.

    Without event time, its ranges are one split, and are read one after the other; else each range
    is a split, named by the range and the number of the pass.
    """

    def __init__(self, source: TextFiles, files: tuple[Piece, ...], context: TaskContext) -> None:
        self._source = source
        self._files = files
        self._context = context
        self.splits: dict[Any, SourceReader] = {}
        self.ended: list[Any] = []
        self._begin((Layer(files, tuple(range(context.parallelism))),), {})

    @property
    def layout(self) -> Any:
        """The layers, as plain tuples, and the number of passes."""
        return self._layout

    def restore(self, position: Any) -> None:
        """Begin where another reader of the share was."""
        if not isinstance(position[1], Mapping):
            raise CheckpointError(
                "the positions of TextFiles do not name its files, expected names and sizes",
                "the checkpoint is of an earlier version of Oka: start the job anew",
            )
        super().restore(position)

    def lay_out(self, layout: Any, positions: Mapping[Any, tuple[Any, ...]]) -> None:
        """Make the ranges again, and those of added bytes."""
        kept, repeat = layout
        if repeat != self._source.repeat:
            raise CheckpointError(
                f"TextFiles has repeat={self._source.repeat}, expected {repeat} as before",
                "how far the files were read is counted in that: start the job anew",
            )
        before = layers_of(kept)
        shares = self._context.open_shares or range(self._context.parallelism)
        layers = continued(before, self._files, shares)
        own = dict(self._ranges(before))
        reached = _apart(list(own), positions[None]) if None in positions else positions
        _check(own, last_pieces(before), last_pieces(layers), reached)
        self._begin(layers, positions if _is_in_a_batch(positions) else reached)

    def end(self, name: Any) -> None:
        """The split has no more lines."""
        del self.splits[name]
        self.ended.append(name)

    def _begin(self, layers: tuple[Layer, ...], positions: Mapping[Any, tuple[Any, ...]]) -> None:
        kept = tuple((tuple(map(tuple, each.pieces)), each.shares) for each in layers)
        self._layout = kept, self._source.repeat
        files = last_pieces(layers)
        if self._context.splits.times is None and None not in positions:
            if not positions:
                positions = {None: (((0, None, 0), 0),)}
            else:
                positions = _together([name for name, _ in self._ranges(layers)], positions)
        batch_size = self._context.batch_size
        self.splits.clear()
        if None in positions:
            own = [each for _, each in self._ranges(layers)]
            self.splits[None] = Blocks(
                partial(_one_by_one, self._source, files, own), (0, None, 0), batch_size
            )
        else:
            apart = dict(self._ranges(layers))
            for name, each in apart.items():
                blocks = partial(_blocks, self._source, files, each, len(apart))
                self.splits[name] = Blocks(blocks, (None, 0), batch_size)
        for name, position in positions.items():
            if position == ():
                self.end(name)
            else:
                self.splits[name].restore(position[0])

    def _ranges(self, layers: tuple[Layer, ...]) -> Iterator[tuple[Any, Range]]:
        """The share's ranges, in order, with their names; those of later layers at the end."""
        own = list(ranges(layers, self._context.index))
        for number in range(len(layers)):
            of_layer = [each for each in own if each.name[0] == number]
            for time in range(self._source.repeat):
                yield from (((*each.name, time), each) for each in of_layer)


def _check(
    own: Mapping[Any, Range],
    then: Mapping[str, Piece],
    now: Mapping[str, Piece],
    reached: Mapping[Any, tuple[Any, ...]],
) -> None:
    """Raise CheckpointError if files are not those of the positions."""
    for path in {each.piece.path for name, each in own.items() if reached.get(name) != ()}:
        check_there(then[path])
    for name, each in own.items():
        path, size = each.piece.path, then[each.piece.path].end
        if now[path].end > size and _has_last_line(each, size, reached.get(name)):
            refuse_continued(then[path])


def _apart(names: Sequence[Any], position: tuple[Any, ...]) -> dict[Any, tuple[Any, ...]]:
    """The position of each of these ranges, from one position of all of them together."""
    if position == ():
        return dict.fromkeys(names, ())
    (number, *start), given = position[0]
    at_work = names[number : number + 1]  # none, where there are no ranges
    return {**dict.fromkeys(names[:number], ()), **dict.fromkeys(at_work, ((tuple(start), given),))}


def _together(
    names: Sequence[Any], positions: Mapping[Any, tuple[Any, ...]]
) -> Mapping[Any, tuple[Any, ...]]:
    """One position of all of these ranges, if they were read one behind the other."""
    number = next((at for at, name in enumerate(names) if positions.get(name) != ()), len(names))
    if number == len(names):
        return {None: ()}
    start, given = positions.get(names[number], _FRESH)[0]
    told = {name for name in names[number + 1 :] if positions.get(name, _FRESH) != _FRESH}
    if told or _is_in_a_batch(positions):
        return positions
    return {None: (((number, *start), given),)}


def _is_in_a_batch(positions: Mapping[Any, tuple[Any, ...]]) -> bool:
    """Whether a batch had left in part; its rest is counted from there."""
    return any(position[1:] for position in positions.values())


def _blocks(
    source: TextFiles,
    files: Mapping[str, Piece],
    of: Range,
    count: int,
    start: tuple[int | None, int],
) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Blocks of a range's lines; each start has an offset, and the number of lines to leave out.

    If ranges are read side by side, the first block has few lines: more would be too early.
    """
    offset, skipped = start
    path, is_first = of.piece.path, offset is None and count > 1
    block_bytes = min(_BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, _BLOCK_BYTES // count))
    with File(path, stays_open=count <= _MOST_OPEN) as file:
        for begin, block in whole_lines(file, of, files[path].end, offset, block_bytes):
            lines = source.decode(block, path)
            if is_first:
                first = lines[:_FIRST_LINES]
                yield (begin, 0), first
                skipped, is_first = len(first), False
            yield (begin, skipped), lines[skipped:] if skipped else lines
            skipped = 0


def _one_by_one(
    source: TextFiles,
    files: Mapping[str, Piece],
    own: Sequence[Range],
    start: tuple[int, int | None, int],
) -> Iterator[tuple[tuple[int, int, int], list[str]]]:
    """Blocks of several ranges; a start has the number of its range, too."""
    first, offset, skipped = start
    for number, each in enumerate(own[first:], first):
        for (begin, left_out), lines in _blocks(source, files, each, 1, (offset, skipped)):
            yield (number, begin, left_out), lines
        offset, skipped = None, 0


def _found(patterns: list[str]) -> tuple[Piece, ...]:
    paths: dict[str, None] = {}
    for pattern in patterns:
        if Path(pattern).exists():  # a name may have the characters of a pattern in it
            matches = [pattern]
        else:
            found = matching(*divided(str(Path(pattern).absolute())))
            matches = sorted({match for match in found if Path(match).is_file()})
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
    """Whether a file's last line was read without an end, and the file has grown since.

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


_FRESH = (((None, 0), 0),)
"""The position of a range that has not begun."""
_BLOCK_BYTES = 1 << 20
_LEAST_BLOCK_BYTES = 1 << 14
"""The least bytes of a block in memory, where files that are read side by side share
`_BLOCK_BYTES`."""
_FIRST_LINES = 2
"""The number of lines that show a file's event time: a single one may have a wrong time."""
_MOST_OPEN = 64
"""The number of files that stay open while files are read side by side."""
