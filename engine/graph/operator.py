"""What an operator is to the engine: a few shapes, none of which is called once per record.

An operator is declared on the driver, pickled, and opened once in every task. State lives in what
`open` returns, never in the operator itself, so one declaration serves any number of tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Produced = TypeVar("Produced", covariant=True)
Consumed = TypeVar("Consumed", contravariant=True)


OnError: TypeAlias = Literal["fail", "skip", "side"]
"""What becomes of a record that an operator's function raises an exception on: it ends the job, is
left out and counted, or is counted and goes to the side output `ERRORS` as (record, error)."""

ERRORS = "errors"


class Rescue(Protocol):
    """Takes the records that an operator's function fails on."""

    def __call__(self, record: Any, error: Exception) -> None:
        """Count it, and put it aside where that is wanted. Raises what is no failure of its."""


@dataclass(frozen=True)
class TaskContext:
    """What a task may know when its operators are opened.

    `index` counts from 0 to `parallelism - 1`; `batch_size` is the most records a batch may hold.
    """

    task_name: str
    index: int
    parallelism: int
    batch_size: int
    job_name: str
    rescue: Rescue | None = None
    """For records that the operator's function fails on; None where that fails the job."""
    side_outputs: Mapping[str, Callable[[list[Any]], None]] = field(default_factory=dict)
    """Sends records to a side output of the operator; one that nothing reads is not there."""
    pickle: bool = False
    """Whether what leaves the task may be pickled where it cannot travel otherwise."""


class SourceOperator(ABC, Generic[Produced]):
    """The beginning of a stream: every task iterates over its own share of the records.

    What `open` yields is a record, a list or a `pyarrow.RecordBatch`. The last two are batches of
    at most `context.batch_size` records, so a record that is itself a list travels inside one.
    """

    emits_columns: bool = False
    """True if it yields `pyarrow.RecordBatch`es: every task of the job then loads PyArrow as it
    starts, not at its first batch."""

    rate: float | None = None
    """Records per second over all tasks that the runtime lets through; None is no limit."""

    parallelism: int | None = None
    """Tasks that it runs in where `with_parallelism` does not say; None is the job's."""

    def validate(self) -> None:
        """Fail now if no task could run, and fix what all tasks must agree on.

        Called once on the driver, before the operator is pickled and before any worker starts.
        """

    def validate_here(self) -> None:
        """As `validate`, of what tasks find on their machine: called if that is the driver's."""

    @abstractmethod
    def open(self, context: TaskContext) -> Iterator[Any]:
        """Iterate over this task's share: records, or batches of at most `batch_size` records."""


class Transform:
    """What operators between source and sink have in common."""

    on_error: OnError = "fail"

    columns_hint: ClassVar[str | None] = None
    """What to do where columns come and it takes none; with `{column!r}`, the name of the first."""

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """Names of its outputs beside the main one."""
        return (ERRORS,) if self.on_error == "side" else ()


@dataclass(frozen=True)
class RecordOperator(Transform):
    """A user's function over single records; the runtime makes one loop over the batch of each.

    `map` gives one record for each, `filter` keeps those it is true for, `flat_map` gives any
    number of records as an iterable.
    """

    form: Literal["map", "filter", "flat_map"]
    function: Callable[[Any], Any]
    on_error: OnError = "fail"


class BatchOperator(Transform, ABC):
    """A function over whole batches, with whatever state it keeps between them."""

    accepts_encoded: ClassVar[bool] = False
    """True if the function takes the network's encoded batch rather than a list of records.
    Such an operator is the first of its chain and has every input over the network."""

    accepts_columns: ClassVar[bool] = False
    """True if the function takes a `pyarrow.RecordBatch` as well as a list."""

    emits_columns: ClassVar[bool] = False
    """True if it makes columns of records, as in `SourceOperator`."""

    compacts: ClassVar[bool] = False
    """True if updates of one batch are merged: fewer records leave than count as emitted."""

    limit: int | None = None
    """The most records that all its tasks emit; the job ends sources that can bring no more."""

    @abstractmethod
    def open(self, context: TaskContext) -> "Callable[[Any], Any] | EndingFunction":
        """Make the function of one task.

        It returns a list that the caller may keep, or a `pyarrow.RecordBatch`.
        """


class TolerantFunction(ABC):
    """One task's function of batches that goes on when something fails, tells of it and counts it.

    `failures` goes into the statistics of the operator.
    """

    failures: int = 0

    @abstractmethod
    def __call__(self, batch: Any) -> Any:
        """What `BatchOperator.open` gives: a batch for a batch."""


class EndingFunction(ABC):
    """One task's function of batches that has more to emit when its input has ended."""

    @abstractmethod
    def process(self, batch: Any) -> Any:
        """What a plain function does: a batch for a batch."""

    @abstractmethod
    def on_end(self) -> Iterator[Any]:
        """What is left, in batches of at most `context.batch_size` records.

        Called once, after the last batch; not where the job fails or is cancelled.
        """


class Gate(Protocol):
    """What the function of an operator with a side input may do to its task, from any thread."""

    def resume(self) -> None:
        """Let held records come. The task then looks at them without a record of the side input."""

    def fail(self) -> None:
        """End the task with the function's `error`, even while it waits."""


class SideFunction(TolerantFunction):
    """One task's function of batches, which also takes the records of its side input.

    The task calls it from one thread, but for `cancel`. Records that it holds at the start stay in
    their channels, so credits bound them; they come after `Gate.resume`, or when the side input
    ended.
    """

    holds_records: bool = False
    """Whether no batch shall come before `Gate.resume`. Read once, before the first."""

    error: BaseException | None = None
    """Why the function called `Gate.fail`."""

    def begin(self, gate: Gate) -> None:
        """Called once, before all others."""

    @abstractmethod
    def take_side(self, records: list[Any]) -> None:
        """Take records of the side input; between two batches."""

    def cancel(self) -> None:
        """Wake what waits in the function; it then raises `Cancelled`. From any thread."""

    def close(self) -> None:
        """Let go of what it holds; called last, however the task ended."""


class SideInputOperator(BatchOperator):
    """A batch operator that reads a second stream beside its records.

    It is the first of its chain, and all its inputs come over channels.
    """

    @abstractmethod
    def open(self, context: TaskContext) -> SideFunction:
        """Make the function of one task."""


class SinkWriter(ABC):
    """One task's end of a stream. Its last call is a `close` that returns, or `abort`."""

    @abstractmethod
    def write(self, records: Any) -> None:
        """Take a batch; when it returns, its records count as delivered.

        It is a list, or a `pyarrow.RecordBatch` if the operator accepts columns.
        """

    @abstractmethod
    def close(self) -> Any:
        """Make what was written final; the result goes to `SinkOperator.merge`."""

    def abort(self) -> None:  # noqa: B027 - most writers hold nothing that could stay behind
        """Leave nothing behind: the job failed or was cancelled, or `close` raised.

        When the driver was killed, it comes from another thread, maybe in the middle of `write`.
        """


class SinkOperator(ABC, Generic[Consumed]):
    """The end of a stream. A driver sink's merged results come back with the job's result."""

    driver: ClassVar[bool] = False

    accepts_columns: bool = False
    """True if its writers take a `pyarrow.RecordBatch` as well as a list."""

    def validate(self) -> None:
        """Fail now if no task could run. Called once on the driver before any worker starts."""

    def discard(self) -> None:
        """Remove what killed tasks left behind. Called on the driver after a job that failed."""

    @abstractmethod
    def open(self, context: TaskContext) -> SinkWriter:
        """Make the writer of one task."""

    def merge(self, results: list[Any]) -> Any:
        """Make one result of those of all tasks, in the order of their indexes."""
        return results


Operator: TypeAlias = SourceOperator[Any] | RecordOperator | BatchOperator | SinkOperator[Any]
