"""The bytes of files that the shares of a source read, even if the files have grown since.

The files at a job's first start are the first layer: all of them laid end to end and cut in equal
parts. A restored job reads its layers to their end. Bytes that were added since are a layer of
their own, divided among the shares that tasks still read. So no share has to know the positions of
others.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from engine.errors import CheckpointError


class Piece(NamedTuple):
    """Bytes of a file that had `end` bytes."""

    path: str
    begin: int
    end: int
    mark: str
    """The mark of the file up to the end, by `mark_of`."""

    @property
    def codec(self) -> str | None:
        """The codec that its name says, as PyArrow calls it; None for a file that is not packed."""
        return next((codec for end, codec in _CODECS.items() if self.path.endswith(end)), None)

    @property
    def is_packed(self) -> bool:
        """Whether it is packed, so that reading cannot begin in the middle."""
        return self.codec is not None


class Layer(NamedTuple):
    """Pieces laid end to end, and the numbers of the shares with equal parts of them."""

    pieces: tuple[Piece, ...]
    shares: tuple[int, ...]


@dataclass(frozen=True)
class Range:
    """A share's range of a piece: the lines that begin from `begin` on and before `end`."""

    name: tuple[int, int]
    """The numbers of its layer and of the piece in there."""
    piece: Piece
    begin: int
    end: int


def layers_of(layout: Iterable[Any]) -> tuple[Layer, ...]:
    """The layers, from plain tuples."""
    return tuple(
        Layer(tuple(Piece(*each) for each in pieces), tuple(shares)) for pieces, shares in layout
    )


def ranges(layers: Sequence[Layer], share: int) -> Iterator[Range]:
    """The ranges of a share.

    >>> first = Layer((Piece("a", 0, 6, ""), Piece("b", 0, 4, "")), (0, 1))
    >>> [(each.piece.path, each.begin, each.end) for each in ranges([first], 1)]
    [('a', 5, 6), ('b', 0, 4)]
    """
    for number, layer in enumerate(layers):
        if share not in layer.shares:
            continue
        part, parts = layer.shares.index(share), len(layer.shares)
        total = sum(piece.end - piece.begin for piece in layer.pieces)
        begin, end = total * part // parts, total * (part + 1) // parts
        offset = 0
        for at, piece in enumerate(layer.pieces):
            size = piece.end - piece.begin
            if piece.is_packed:
                # The share with the middle of a packed file reads all of it.
                if begin <= offset + size // 2 < end:
                    yield Range((number, at), piece, piece.begin, piece.end)
            elif begin < offset + size and offset < end:
                first = piece.begin + max(0, begin - offset)
                yield Range((number, at), piece, first, piece.begin + min(size, end - offset))
            offset += size


def continued(
    layers: Sequence[Layer], files: Sequence[Piece], open_shares: Collection[int]
) -> tuple[Layer, ...]:
    """The layers, and one more if bytes were added to the files since.

    Raises CheckpointError for a file that was replaced or changed.
    """
    known = last_pieces(layers)
    news = []
    gone = [piece for path, piece in known.items() if piece.end and not _size(path)]
    for file in files:
        if (before := known.get(file.path)) is None:
            _check_new(file, gone)
            news.append(file)
        elif file != before._replace(begin=0):
            check_grown(before, file)
            if file.end > before.end:
                news.append(file._replace(begin=before.end))
    if not news:
        return tuple(layers)
    return (*layers, Layer(tuple(news), tuple(sorted(open_shares))))


def last_pieces(layers: Iterable[Layer]) -> Mapping[str, Piece]:
    """The last piece of each file, by path, with the last known size."""
    return {piece.path: piece for layer in layers for piece in layer.pieces}


def mark_of(path: str, size: int) -> str:
    """The mark of the first `size` bytes of a file: a hash of the first and last of them.

    A file that has grown since has the same mark.
    """
    with Path(path).open("rb", buffering=0) as file:
        head = file.read(min(size, _MARK_BYTES)) or b""
        file.seek(max(0, size - _MARK_BYTES))
        tail = file.read(min(size, _MARK_BYTES)) or b""
    return blake2b(head + tail, digest_size=8).hexdigest()


def check_there(piece: Piece) -> None:
    """Raise CheckpointError if a file with lines to read is gone or has changed."""
    size = _size(piece.path)
    if size < piece.end or mark_of(piece.path, piece.end) != piece.mark:
        raise CheckpointError(
            f"{piece.path} is gone or has other content, expected its {piece.end:,} bytes as they "
            "were: not all of it was read",
            "put it back, or start the job anew",
        )


def check_grown(before: Piece, now: Piece) -> None:
    """Raise CheckpointError unless the file is unchanged or has only grown."""
    if not now.end:
        return  # a share with lines of it will notice that
    if now.is_packed:
        wrong = "has changed, expected it as it was: what is packed cannot be told apart"
    elif now.end < before.end:
        wrong = f"has {now.end:,} bytes, expected {before.end:,} or more"
    elif mark_of(now.path, before.end) != before.mark:
        wrong = f"is another file than before, expected its first {before.end:,} bytes as they were"
    else:
        return
    raise CheckpointError(
        f"{now.path} {wrong}",
        "lines may be added to files, and files to a pattern, but not changed: put the file back, "
        "give the new one another name, or start the job anew",
    )


def refuse_continued(piece: Piece) -> NoReturn:
    """Raise CheckpointError if a last line that was read without an end has grown."""
    raise CheckpointError(
        f"{piece.path} has grown in the middle of a line: its last line had no end when it was "
        f"read, at byte {piece.end:,}, and goes on now",
        "write whole lines; start the job anew, or cut the file back to its size",
    )


def _check_new(file: Piece, gone: Iterable[Piece]) -> None:
    for before in gone:
        if file.end >= before.end and mark_of(file.path, before.end) == before.mark:
            raise CheckpointError(
                f"{file.path} has the lines of {before.path}, which is gone: they would be read "
                "twice, expected files under the names that they had",
                "give it its name back, take it out of the pattern, or start the job anew",
            )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - of many files
    except OSError:
        return 0


_CODECS = {".gz": "gzip", ".zst": "zstd"}
_MARK_BYTES = 512
