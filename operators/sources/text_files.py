r"""A source of the lines of text files, which the parallel tasks share out by byte ranges.

Invariant: a line belongs to the task in whose range it begins, and a range's real borders depend
on the file and the range's nominal borders alone; so neighbours agree, and no line is lost or
doubled. A line ends in `\n`, `\r\n` or `\r`, as in Python's `open`.
"""

import codecs
import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import GraphError
from engine.graph.checks import check_integer
from engine.graph.operator import Properties, SourceOperator, TaskContext
from operators.sources.batches import Blocks
from operators.sources.rate import check_rate


class TextFiles(SourceOperator[str]):
    """The lines, without their ends, of files: paths or glob patterns, one or several.

    Files ending in `.gz` are unpacked on the way; each is read by one task, the others by all.
    Which files there are is settled when the job is planned. Lines keep their order within a task.
    `encoding` must have ASCII as its first half (UTF-8, Latin-1, Shift-JIS, not UTF-16); `errors`
    is what `bytes.decode` does with what it cannot decode: "strict" fails the job, "replace" puts
    a mark, "ignore" leaves it out. `repeat` is how many times over each task reads its share (a
    file that several patterns match counts once). `rate` is lines per second over all tasks.

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
        self._files: tuple[_File, ...] | None = None

    @property
    def properties(self) -> Properties:
        """Its rate, and that its lines are there."""
        return Properties(rate=self.rate, never_waits=True)

    def validate(self) -> None:
        """Settle which files there are and how long they are, for all tasks alike."""
        self._files = _found(self.patterns)

    def open(self, context: TaskContext) -> Blocks:
        """The lines of this task's byte ranges, in batches. A position has range and offset."""
        files = _found(self.patterns) if self._files is None else self._files
        ranges = list(_ranges(files, context.index, context.parallelism)) * self.repeat

        def blocks(at: tuple[int, int | None]) -> Iterator[tuple[tuple[int, int], list[str]]]:
            first, offset = at
            for number, (file, start, end) in enumerate(ranges[first:], first):
                for begin, block in _whole_lines(file, start, end, offset):
                    lines = self._decode(block, file).split("\n")
                    if not lines[-1]:
                        lines.pop()
                    yield (number, begin), lines
                offset = None

        return Blocks(blocks, (0, None), context.batch_size)

    def _decode(self, block: bytes, file: "_File") -> str:
        try:
            return block.decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            error.reason += f", in {file.path} (errors='replace' reads on)"
            raise


@dataclass(frozen=True)
class _File:
    path: str
    bytes: int

    @property
    def is_packed(self) -> bool:
        return self.path.endswith(".gz")


def _found(patterns: list[str]) -> tuple[_File, ...]:
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
    return tuple(_File(str(Path(path).absolute()), Path(path).stat().st_size) for path in paths)


def _ranges(
    files: tuple[_File, ...], index: int, parallelism: int
) -> Iterator[tuple[_File, int, int]]:
    """The nominal byte ranges of one task, of all files laid end to end and cut in equal parts."""
    total = sum(file.bytes for file in files)
    begin, end = total * index // parallelism, total * (index + 1) // parallelism
    offset = 0
    for file in files:
        if file.is_packed:
            # It cannot be entered in the middle: whoever has its middle reads it all.
            if begin <= offset + file.bytes // 2 < end:
                yield file, 0, file.bytes
        elif begin < offset + file.bytes and offset < end:
            yield file, max(0, begin - offset), min(file.bytes, end - offset)
        offset += file.bytes


def _whole_lines(
    file: _File, start: int, end: int, offset: int | None
) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in the range, as blocks of whole lines that end in a line feed.

    Each comes with its offset in the file, unpacked; `offset` is that of the first, if not of all.
    Only the last line of a file may be without an end.
    """
    if file.is_packed:
        try:
            with gzip.open(file.path, "rb") as packed:
                packed.seek(offset or 0)
                yield from _blocks(packed, None)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise OSError(f"{file.path} is not a whole gzip file: {error}") from error
        return
    with Path(file.path).open("rb", buffering=0) as plain:
        start, end = (_line_start(plain, at, file.bytes) for at in (start, end))
        begin = plain.seek(start if offset is None else offset)
        yield from _blocks(plain, end - begin)


def _line_start(file: io.RawIOBase, at: int, size: int) -> int:
    """The first position from `at` on where a line begins, or the file's size."""
    if at <= 0 or at >= size:
        return max(0, min(at, size))
    position = at - 1  # a line begins at `at` if the byte before ends one
    file.seek(position)
    while block := file.read(_SEARCH_BYTES):
        ends = [found for found in (block.find(b"\n"), block.find(b"\r")) if found >= 0]
        if ends:
            position += min(ends)
            file.seek(position)
            return min(size, position + (2 if file.read(2) == b"\r\n" else 1))
        position += len(block)
    return size


def _blocks(file: io.RawIOBase | gzip.GzipFile, limit: int | None) -> Iterator[tuple[int, bytes]]:
    """The next `limit` bytes (all, if None), cut behind line ends; all become a line feed."""
    begun: list[bytes] = []  # pieces of a line that has not ended yet
    start = file.tell()
    left = float("inf") if limit is None else limit
    while left > 0 and (block := file.read(int(min(_BLOCK_BYTES, left)))):
        left -= len(block)
        while block.endswith(b"\r") and left > 0 and (more := file.read(1)):
            block += more  # it may be the first half of \r\n
            left -= 1
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut = block.rfind(b"\n") + 1
        if cut:
            yield start, b"".join((*begun, block[:cut]))
            begun = []
            start = file.tell() - (len(block) - cut)  # no line end is in there that was replaced
        if cut < len(block):
            begun.append(block[cut:])
    if begun:
        yield start, b"".join(begun)


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
_SEARCH_BYTES = 1 << 16
_ASCII = bytes(range(128))
