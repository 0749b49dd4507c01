"""The beginning of a stream: what a source declares, and what is at work in each of its tasks."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from engine.graph.context import TaskContext
from engine.graph.operator import Operator

Produced = TypeVar("Produced", covariant=True)


class SourceOperator(Operator, ABC, Generic[Produced]):
    """The beginning of a stream: every task iterates over its own share of the records.

    What `open` yields is a record, a list, a `pyarrow.RecordBatch` or a `Watermark`. Lists and
    RecordBatches are batches of at most `context.batch_size` records, so a record that is itself a
    list travels inside one.
    """

    def validate(self) -> None:
        """Fail now if no task could run, and fix what all tasks must agree on.

        Called once on the driver, before the operator is pickled and before any worker starts.
        """

    def validate_here(self) -> None:
        """As `validate`, of what tasks find on their machine: called if that is the driver's."""

    @abstractmethod
    def open(self, context: TaskContext, /) -> Iterable[Any]:
        """Give the share of this task, to iterate over once; best a `SourceReader`.

        In front of operators with timers another thread iterates, unless it never waits.
        """


class SourceReader(ABC):
    """A source at work in one task, which knows where it is."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """Where it goes on behind what it gave last: numbers and texts, in tuples."""

    @abstractmethod
    def restore(self, position: Any, /) -> None:
        """Begin there, where another reader of the same share was, with exactly the next record."""

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Give what is to come; called once, behind `restore`."""


class SplitReader(SourceReader):
    """A reader of a share that is several splits, such as files: each is in an order of its own.

    A position is what the splits follow from, and that of each: alone in a tuple, empty at its end.
    """

    ended: Collection[Any] = ()
    """Names of splits that have ended."""
    splits: Mapping[Any, SourceReader]
    """The others by their names: numbers and texts, in tuples."""

    @property
    @abstractmethod
    def layout(self) -> Any:
        """What the splits follow from."""

    @abstractmethod
    def lay_out(self, layout: Any, positions: Mapping[Any, tuple[Any, ...]], /) -> None:
        """Make the splits again, from their positions on: one without begins.

        Sets `splits`, and as `ended` those of an empty position.
        """

    @abstractmethod
    def end(self, name: Any, /) -> None:
        """Take a split that has no more from `splits` to `ended`."""

    @property
    def position(self) -> Any:
        """Where all splits are."""
        reached: dict[Any, tuple[Any, ...]] = dict.fromkeys(self.ended, ())
        return self.position_of(
            reached | {name: (each.position,) for name, each in self.splits.items()}
        )

    def position_of(self, positions: Mapping[Any, tuple[Any, ...]], /) -> Any:
        """The position where splits have come so far."""
        return self.layout, dict(positions)

    def restore(self, position: Any, /) -> None:
        """Begin where another reader of the share was."""
        self.lay_out(*position)

    def __iter__(self) -> Iterator[Any]:
        """All splits, one behind the other."""
        for name, reader in list(self.splits.items()):
            yield from reader
            self.end(name)
