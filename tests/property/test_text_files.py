"""Any text, divided any way, gives the lines that Python's open gives."""

import gzip
import io
import tempfile
from itertools import chain
from pathlib import Path
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as some

from engine.graph import TaskContext
from operators.sources import TextFiles, lines, text_files

pieces = some.sampled_from(["\n", "\r", "\r\n", "a", "bc", "é€", "\x0b", "\u2028", "x" * 9])
texts = some.lists(pieces, max_size=25).map("".join)


def expected(text: str) -> list[str]:
    with io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline=None) as lines:
        return [line.removesuffix("\n") for line in lines]


@given(
    some.lists(some.tuples(texts, some.booleans()), min_size=1, max_size=3),
    some.integers(1, 9),
    some.integers(1, 5),
    some.integers(1, 8),
)
@example([("\r\n\r\n", False)], 3, 1, 1)
@example([("a\r", False), ("\nb", False)], 2, 1, 1)
def test_no_line_is_lost_or_doubled(
    files: list[tuple[str, bool]], parallelism: int, batch_size: int, block_bytes: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(text_files, "_BLOCK_BYTES", block_bytes),
        mock.patch.object(lines, "_SEARCH_BYTES", block_bytes),
    ):
        for number, (text, packed) in enumerate(files):
            content = gzip.compress(text.encode()) if packed else text.encode()
            suffix = ".txt.gz" if packed else ".txt"
            (Path(folder) / f"{number}{suffix}").write_bytes(content)
        source = TextFiles(f"{folder}/*")
        source.validate()
        batches = [
            batch
            for index in range(parallelism)
            for batch in source.open(TaskContext("task", index, parallelism, batch_size, "job"))
        ]
    assert all(0 < len(batch) <= batch_size for batch in batches)
    assert list(chain(*batches)) == [line for text, _ in files for line in expected(text)]
