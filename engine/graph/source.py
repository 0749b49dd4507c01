"""The beginning of a stream: what a source declares, and its reader in each task."""

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

    followed_by: Any = None
    """A `BatchOperator` that takes the source's batches in each of its tasks, such as a decoder.

    It is a part of the source, with its name and one count of records. The source's properties are
    those of both. As an attribute, or as a property."""

    def validate(self) -> None:
        """Raise an error if no task could run, and settle what all tasks must agree on.

        Called once on the driver, before the operator is pickled and before any worker starts.
        """

    def validate_here(self) -> None:
        """As `validate`, for files on the tasks' machine; called if that is the driver's."""

    @abstractmethod
    def open(self, context: TaskContext, /) -> Iterable[Any]:
        """Return the share of this task, to iterate over once; preferably a `SourceReader`.

        In front of operators with timers another thread iterates, unless it never waits.
        """


class SourceReader(ABC):
    """A source at work in one task, which knows its position."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """The position behind the last item: numbers and texts, in tuples."""

    @abstractmethod
    def restore(self, position: Any, /) -> None:
        """Begin at another reader's position in the same share, with exactly the next record."""

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Give the items from there on; called once, behind `restore`."""


class SplitReader(SourceReader):
    """A reader of a share of several splits, such as files: each has an order of its own.

    A position has the layout of the splits and the position of each: alone in a tuple, which is
    empty at the split's end.
    """

    ended: Collection[Any] = ()
    """Names of splits that have ended."""
    splits: Mapping[Any, SourceReader]
    """The other splits by their names: numbers and texts, in tuples."""

    @property
    @abstractmethod
    def layout(self) -> Any:
        """The data from which `restore_splits` makes the splits again."""

    @abstractmethod
    def lay_out(self, layout: Any, positions: Mapping[Any, tuple[Any, ...]], /) -> None:
        """Make the splits again, from their positions on; a split without a position begins.

        Sets `splits`, and as `ended` those of an empty position.
        """

    @abstractmethod
    def end(self, name: Any, /) -> None:
        """Move an ended split from `splits` to `ended`."""

    @property
    def position(self) -> Any:
        """The position of all splits."""
        reached: dict[Any, tuple[Any, ...]] = dict.fromkeys(self.ended, ())
        return self.position_of(
            reached | {name: (each.position,) for name, each in self.splits.items()}
        )

    def position_of(self, positions: Mapping[Any, tuple[Any, ...]], /) -> Any:
        """The position with these positions of splits."""
        return self.layout, dict(positions)

    def restore(self, position: Any, /) -> None:
        """Begin at another reader's position in the share."""
        self.lay_out(*position)

    def __iter__(self) -> Iterator[Any]:
        """The items of all splits, one split behind the other."""
        for name, reader in list(self.splits.items()):
            yield from reader
            self.end(name)
