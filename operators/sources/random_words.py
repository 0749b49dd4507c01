"""A source of random words, for benchmarks and examples.

NumPy is imported where words are drawn: it takes 60 ms, and other programs need none.
"""

import string
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from engine.columns import import_pyarrow
from engine.errors import GraphError
from engine.graph.checks import check_integer
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator
from operators.sources.batches import Blocks
from operators.sources.rate import check_rate


class RandomWords(SourceOperator[str]):
    """Words of `length` ASCII letters and digits, drawn from a dictionary of `words` words.

    The dictionary depends on `seed` alone, the words of a task on `seed` and its index. It ends
    after `seconds`, or after `count` words in all, which the tasks share out exactly; with neither
    it does not end. `rate` is words per second over all tasks.

    >>> context = TaskContext("random_words[0]", 0, 1, 2, "job")
    >>> [len(batch) for batch in RandomWords(length=8, count=5).open(context)]
    [2, 2, 1]
    """

    def __init__(
        self,
        length: int = 32,
        words: int = 100,
        seconds: float | None = None,
        count: int | None = None,
        seed: int = 0,
        rate: float | None = None,
        columnar: bool = False,
        dictionary_encoded: bool = False,
    ) -> None:
        check_integer("length", length, 1)
        check_integer("words", words, 1)
        check_integer("seed", seed, 0)
        if words > len(_LETTERS) ** length:
            raise GraphError(
                f"words is {words}, expected at most {len(_LETTERS) ** length} "
                f"different words of length {length}",
                hint="make the words longer or the dictionary smaller",
            )
        if count is not None:
            check_integer("count", count, 0)
        if seconds is not None and not 0 <= seconds < float("inf"):
            raise GraphError(f"seconds is {seconds!r}, expected a number >= 0")
        check_rate(rate)
        if columnar:
            import_pyarrow("RandomWords(columnar=True)")
        elif dictionary_encoded:
            raise GraphError(
                "dictionary_encoded is True, expected False for words that are no column",
                hint="RandomWords(columnar=True, dictionary_encoded=True)",
            )
        self.columnar = columnar
        self.dictionary_encoded = dictionary_encoded
        self.length = length
        self.words = words
        self.seconds = seconds
        self.count = count
        self.seed = seed
        self.rate = rate

    @property
    def properties(self) -> Properties:
        """Its rate, whether records are columns, and that it never waits."""
        drawn = ("length", "words", "count", "seed", "columnar")
        return Properties(
            rate=self.rate,
            emits_columns=self.columnar,
            never_waits=True,
            meaning={"kind": "random words", **{name: vars(self)[name] for name in drawn}},
        )

    def dictionary(self) -> list[str]:
        """The dictionary: different words, the same in every task."""
        import numpy as np

        random = np.random.default_rng(np.random.SeedSequence(self.seed))
        found: dict[str, None] = {}
        while len(found) < self.words:
            letters = random.integers(len(_LETTERS), size=self.length)
            found["".join(_LETTERS[letter] for letter in letters)] = None
        return list(found)

    def open(self, context: TaskContext) -> Blocks:
        """The words of this task, in batches."""
        import numpy as np  # noqa: F401 - not once the time runs

        start = 0, self._block(context)
        return Blocks(partial(self._blocks, context), start, context.batch_size)

    def _blocks(
        self, context: TaskContext, start: tuple[int, int]
    ) -> Iterator[tuple[tuple[int, int], Any]]:
        """Blocks of words, each with the number of words before it; drops words before the start.

        The start has the size of a block, too: other blocks would draw other words.
        """
        import numpy as np

        deadline = None if self.seconds is None else time.monotonic() + self.seconds
        left = float("inf") if self.count is None else _share(self.count, context)
        seed = np.random.SeedSequence(self.seed, spawn_key=(context.index,))
        random = np.random.default_rng(seed)
        pick = self._pick_columns if self.columnar else self._pick_list
        first, block = start
        pick_words = pick(block)
        done = 0
        numbers = np.uint16 if self.words <= 1 << 16 else np.int64  # fewer bits are drawn faster
        while left > 0 and (deadline is None or time.monotonic() < deadline):
            drawn = random.integers(self.words, size=int(min(block, left)), dtype=numbers)
            left -= len(drawn)
            if done >= first:
                yield (done, block), pick_words(drawn)
            done += len(drawn)

    def _pick_list(self, _block: int) -> Callable[[Any], list[str]]:
        import numpy as np

        # An array of objects: picking from it makes references to the same 100 strings.
        dictionary = np.array(self.dictionary(), dtype=object)
        return lambda drawn: dictionary[drawn].tolist()

    def _pick_columns(self, block: int) -> Callable[[Any], Any]:
        import numpy as np

        pyarrow = import_pyarrow("RandomWords(columnar=True)")
        if self.dictionary_encoded:
            dictionary = pyarrow.array(self.dictionary())

            def column(drawn: Any) -> Any:
                codes = pyarrow.array(drawn.astype(np.int32))
                return pyarrow.DictionaryArray.from_arrays(codes, dictionary)

        else:
            # All words are of one length, so that NumPy can copy them and offsets never change.
            words = np.array(self.dictionary(), dtype=f"S{self.length}")
            starts = np.arange(block + 1, dtype=np.int64) * self.length
            offsets = pyarrow.py_buffer(starts.astype(np.int32))

            def column(drawn: Any) -> Any:
                text = pyarrow.py_buffer(words.take(drawn))
                return pyarrow.StringArray.from_buffers(len(drawn), offsets, text)

        return lambda drawn: pyarrow.record_batch([column(drawn)], names=["word"])

    def _block(self, context: TaskContext) -> int:
        """How many words to draw at once: whole batches, but few enough to look at the clock."""
        block = _BLOCK_WORDS
        if self.columnar:
            block = min(block, _BLOCK_BYTES // self.length)  # they are copied: keep them in a cache
        if self.rate is not None:
            block = min(block, int(self.rate / context.parallelism * _BLOCK_SECONDS))
        block = max(1, block // context.batch_size) * context.batch_size
        if self.columnar:
            block = min(block, _MOST_COLUMN_BYTES // self.length)
        return block


def _share(count: int, context: TaskContext) -> int:
    return count // context.parallelism + (context.index < count % context.parallelism)


_LETTERS = string.ascii_letters + string.digits
_BLOCK_WORDS = 8192
_BLOCK_BYTES = 1 << 18
_MOST_COLUMN_BYTES = 2**31 - 1  # offsets have 32 bits
_BLOCK_SECONDS = 0.05
