"""What an operator is to the engine: a few shapes, none of which is called once per record.

An operator is declared on the driver, pickled, and opened once in every task. State lives in what
`open` returns, never in the operator itself, so one declaration serves any number of tasks. What
the engine has to know of an operator before that is in its `Properties`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from engine.errors import GraphError
from engine.graph.checks import check_integer
from engine.graph.failing import Failing
from engine.graph.splits import Splits

if TYPE_CHECKING:
    from engine.state import KeyedState

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

    def __call__(self, record: Any, error: BaseException) -> None:
        """Count the record and put it aside where wanted; raise any error that is not its own."""


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
    check: Callable[[Any], None] | None = field(default=None, compare=False, repr=False)
    """Raises TypeError for a result that the next operator does not take: the record is rescued."""
    failing: Failing = field(default_factory=Failing, compare=False, repr=False)
    """Tells which record the function failed on, where that fails the job."""
    side_outputs: Mapping[str, Callable[[list[Any]], None]] = field(default_factory=dict)
    """Sends records to a side output of the operator; one that nothing reads is not there."""
    pickle: bool = False
    """Whether what leaves the task may be pickled where it cannot travel otherwise."""
    identity: str = ""
    """What the operator is called in every run of the program, whatever else is declared: its name
    if it has one, else one that its path gives. For what it keeps outside of the job."""
    gate: "Gate | None" = None
    """The gate of an operator with a side input; None in a task that has none."""
    now_ns: Callable[[], int] = field(default=monotonic_ns, compare=False, repr=False)
    """The task's clock, which only goes forward: nanoseconds since some moment."""
    is_virtual: bool = False
    """Whether that is the clock of a test, which stands still while tasks work."""
    wake: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Has a task that waits look at timers again, where another thread has set a `next_timer`."""
    checkpoints: bool = False
    """Whether the job writes checkpoints: sinks then make final what they have epoch by epoch."""
    generation: int = 0
    """With checkpoints, the driver's generation: each new driver of a job has a higher one."""
    committed: int = 0
    """With checkpoints, the last epoch that all sinks are known to have committed. It may have been
    a later one."""
    drift: "Drift | None" = field(default=None, compare=False, repr=False)
    """What holds the source, for the last operator of its task that has a `max_drift_us`."""
    splits: Splits = field(default_factory=Splits, compare=False, repr=False)
    """The splits that the source of the task reads, for its operators up to the first that may
    hold a record back beyond its batch. For all others, every record is of one split."""
    open_shares: frozenset[int] | None = None
    """For a source that goes on: the numbers of its shares that tasks still read."""


@dataclass(frozen=True)
class Properties:
    """All that an operator declares of itself; the engine asks for nothing else by name.

    Planning reads them on the driver, tasks as they open the operator. They do not change.
    """

    parallelism: int | None = None
    """Tasks that it runs in where `with_parallelism` does not say; None is the job's."""

    on_error: OnError = "fail"
    """What becomes of the records that its function fails on."""

    accepts_columns: bool = False
    """Whether it takes a `pyarrow.RecordBatch` as well as a list. Only such an operator, or a
    source, may give one."""

    accepts_encoded: bool = False
    """Whether it takes the network's encoded batch rather than a list of records. It is then the
    first of its chain, and has every input over the network."""

    emits_columns: bool = False
    """Whether it makes columns: every task of the job then loads PyArrow as it starts, not at its
    first batch."""

    columns_hint: str | None = None
    """What to do where columns come and it takes none; with `{column!r}`, the name of the first."""

    emits_pairs: bool = False
    """Whether it gives `engine.network.Paired`: a gate takes that as it is, operators behind it in
    its chain get a list of tuples."""

    compacts: bool = False
    """Whether updates of one batch are merged: fewer records leave than count as emitted."""

    outputs: tuple[str, ...] = ()
    """Names of its outputs beside the main one, which it sends to by `TaskContext.side_outputs`."""

    limit: int | None = None
    """The most records that each of its tasks emits; sources that can bring no more are ended."""

    rate: float | None = None
    """Of a source, records per second over all tasks that the runtime lets through; None is no
    limit."""

    side_input: bool = False
    """Whether it reads a second stream beside its records. It is then the first of its chain, and
    all its inputs come over channels."""

    two_inputs: bool = False
    """Whether it reads two streams alike, such as a join. It takes encoded batches, each of one of
    them: `batch.input` is 0 or 1. It ends when both have ended, and a watermark is that of both."""

    holds_records: bool = False
    """Whether, with a side input, no batch shall come before `Gate.resume`."""

    ends_with_side: bool = False
    """Whether, with a side input, a task goes on until that has ended, too."""

    driver: bool = False
    """Of a sink, whether its merged results come back with the job's result."""

    never_waits: bool = False
    """Of a source, whether it has its next record at once, or has ended: it waits for nothing
    outside. No other thread then iterates in front of operators with timers."""

    goes_on: bool = True
    """Whether it can be in a job with checkpoints; a source that can gives a `SourceReader`. An
    operator that does not keep what its side input brought can, where that gives it again."""

    gives_again: bool = False
    """Of a source, whether it gives its last record again when it goes on. Its readers need no
    more than that, so no barrier comes in front of its first record."""

    beside_source: bool = False
    """Whether it runs in the tasks of a source, with no channel between."""

    makes_watermarks: bool = False
    """Whether its functions set `watermark`. What its inputs tell of event time then ends at it."""

    max_drift_us: int | None = None
    """How far the watermarks that it makes beside a source may be ahead of the least that their
    stream meets. Further ahead, the source waits. None is no limit."""

    services: tuple[object, ...] = ()
    """What it wants of services of its worker, such as the settings of a gateway. Each service
    knows its own by their type, and looks for them by `wanted`."""

    check: "Callable[[Any], None] | None" = None
    """Raises TypeError for records or columns that it does not take. In a job with requests, the
    operator before it in its chain has then failed on the record that it made them of."""

    meaning: Mapping[str, Any] = field(default_factory=lambda: {"kind": "own"})
    """What its state means, as plain data with a `kind`. A job that goes on is refused where a
    name is gone or has another value. State under a new name begins empty."""

    def __post_init__(self) -> None:
        """Raises GraphError for a value that means nothing."""
        if self.on_error not in get_args(OnError):
            words = ", ".join(map(repr, get_args(OnError)))
            raise GraphError(f"on_error is {self.on_error!r}, expected one of {words}")
        if self.parallelism is not None:
            check_integer("parallelism", self.parallelism, 1)
        if self.two_inputs and (self.side_input or not self.accepts_encoded):
            raise GraphError(
                "two_inputs is True, expected accepts_encoded=True and no side_input beside it"
            )
        if self.limit is not None:
            check_integer("limit", self.limit, 0)

    def wanted(self, kind: type[T]) -> T | None:
        """What it wants of the service that such things are for; None if nothing."""
        return next((each for each in self.services if isinstance(each, kind)), None)

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """Names of all its outputs beside the main one."""
        return (*self.outputs, ERRORS) if self.on_error == "side" else self.outputs


class Operator:
    """One logical operator: a source, one of records or of batches, or a sink."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if inspect.isfunction(vars(cls).get("properties")):
            raise GraphError(
                f"{cls.__name__}.properties is a method, expected a property",
                hint="put @property in front of it, or say properties = Properties(…)",
            )

    if TYPE_CHECKING:
        properties: Any
        """What it declares: a `Properties`, as an attribute of the class or as a property."""
    else:
        properties = Properties()


@dataclass(frozen=True)
class Watermark:
    """What a source gives between records: all that follow are later than this, in event time.

    An operator hears of it behind all records in front of it, when all its inputs have come so far.
    """

    time_us: int | None
    """Microseconds; None says that the source is idle: nobody waits for it until it goes on."""


START_OF_TIME = -(1 << 63)
"""The watermark that says nothing."""

END_OF_TIME = (1 << 63) - 1
"""What event time comes to at the end of the input. No task is told of it: it is `on_end`."""


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


@dataclass(frozen=True)
class RecordOperator(Operator):
    """A user's function over single records; the runtime makes one loop over the batch of each.

    `map` gives one record for each, `filter` keeps those it is true for, `flat_map` gives any
    number of records as an iterable.
    """

    form: Literal["map", "filter", "flat_map"]
    function: Callable[[Any], Any]
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """What becomes of records that fail."""
        return Properties(on_error=self.on_error)


class BatchOperator(Operator, ABC):
    """A function over whole batches, with whatever state it keeps between them."""

    @abstractmethod
    def open(self, context: TaskContext, /) -> "BatchFunction":
        """Make the function of one task."""


class BatchFunction(ABC):
    """A batch operator at work in one task: batches in, batches out, and its state between them.

    It must have `process`; all else does nothing until it is overridden. The task's thread calls
    `process`, `take_side`, `on_watermark` and `on_timer` in any order, then `on_end`, then `close`,
    and never two at once. Batches that it gives have at most `context.batch_size` records.

    A record of some keys at the end, and failures that are counted:

        class Latest(BatchFunction):
            def __init__(self) -> None:
                self.of_key: dict[str, float] = {}

            def process(self, batch: list[Any]) -> list[Any]:
                for key, text in batch:
                    try:
                        self.of_key[key] = float(text)
                    except ValueError:
                        self.failures += 1
                return []

            def on_end(self) -> Iterable[list[Any]]:
                yield list(self.of_key.items())

            def snapshot(self) -> KeyedState:
                return KeyedState.of(self.of_key.items())

            def restore(self, state: KeyedState) -> None:
                self.of_key = dict(state.items())
    """

    failures: int = 0
    """How many records it could not take in, and left out, for the operator's statistics."""

    late: int = 0
    """Records that came behind the watermark that closed their windows, and were left out."""

    next_timer: int | None = None
    """When `on_timer` is to be called, on the clock of `context.now_ns`; None is never. Where there
    is an `on_timer`, any call may set it. So may another thread, which then calls `context.wake`:
    who sets it to None looks afterwards whether that thread has brought something."""

    full: bool = False
    """Whether the input shall wait now. Meanwhile a timer has to be due, which is called over
    and over, and may wait."""

    in_step: bool = False
    """Whether each record leaves with the batch that brings it, also where there is an `on_end` or
    an `on_timer`; where there is neither, that is so anyway."""

    watermark: "Watermark | None" = None
    """What follows the records that it gave last, where its `Properties` say that it makes
    watermarks; any call may set it. None again when it has left."""

    keeps_nothing: bool = False
    """Whether all that `process` gives is of the batch that it got."""

    def hold_markers(self, stamps: list[int]) -> list[int]:
        """Give the stamps of markers whose records have left, of these and those before.

        These came behind the last batch. Who gives the result of a record by a later call overrides
        this, and is asked behind each batch that it gives, mostly without any.
        """
        return stamps

    @abstractmethod
    def process(self, batch: Any, /) -> Any:
        """Give a batch for a batch: a list that the caller may keep, or a `pyarrow.RecordBatch`.

        The batch is a list of the function's own, or as the operator's `Properties` say. A list is
        not empty; a RecordBatch without rows tells what columns there are.
        """

    def take_side(self, records: list[Any], /) -> Iterable[Any] | None:
        """Take records of the side input, where the operator has one; between two batches.

        Give what follows from them, in batches; None is nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no records of a side input")

    def on_watermark(self, watermark_us: int, /) -> Iterable[Any] | None:  # noqa: ARG002 - as `commit`
        """Give what was complete when event time has come here, in batches; None is nothing.

        It has risen on every input that is not idle and has not ended. What this gives goes on in
        front of the watermark. The end of the input is none: it is `on_end`.
        """
        return None

    def on_idle(self) -> None:  # noqa: B027 - most wait for none
        """Take in that all inputs are idle for now: event time goes on without them."""

    def on_timer(self, now_ns: int, /) -> Iterable[Any] | None:  # noqa: ARG002 - as above
        """Give what was due now, in batches; None is nothing.

        `next_timer` is None again. Where more than a few batches are due, set it to `now_ns`: what
        waits comes in between. A timer that is left at the end is not called.
        """
        return None

    def on_end(self) -> Iterable[Any]:
        """Give what is left, in batches.

        Called once, after the last batch; not where the job fails or is cancelled.
        """
        return ()

    def cancel(self) -> None:  # noqa: B027 - most functions wait for nothing
        """Wake what waits in the function; it then raises `Cancelled`. From any thread."""

    def close(self) -> None:  # noqa: B027 - most functions hold nothing but memory
        """Let go of what it holds; called last, however the task ended.

        What it raises is told, and fails no job: what must not be lost belongs in `on_end`.
        """

    def metrics(self) -> Mapping[str, Any]:
        """What it has measured up to now, by the names of `engine.metric`; from any thread."""
        return {}

    def snapshot(self) -> "KeyedState | None":
        """The state of each key, as it is between two batches; None if it keeps nothing.

        Keys are those of `key_by`: their hashes divide state among tasks, as they divide records.
        """
        return None

    def restore(self, state: "KeyedState", /) -> None:
        """Go on with the state of the keys that come to this task; before the first batch."""
        raise NotImplementedError(
            f"{type(self).__name__} has no restore(), and got the state of "
            f"{len(state.entries)} keys"
        )


class Plain(BatchFunction):
    """A batch function that is only a function of a batch."""

    keeps_nothing = True

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    @property
    def process(self) -> Callable[[Any], Any]:
        """The function itself: the chain asks for it once, so that nothing stands around it."""
        return self._function


class Drift(Protocol):
    """Holds back a source that is too far ahead of others in event time."""

    def tell(self, watermark_us: int | None) -> None:
        """The source has come so far; None: it is idle."""

    def has_held(self) -> bool:
        """Whether the source was held since this was asked last."""


class Gate(Protocol):
    """What the function of an operator with a side input may do to its task, from any thread.

    Records that it holds at the start stay in their channels, so credits bound them; they come
    after `resume`, or when the side input has ended.
    """

    def resume(self) -> None:
        """Let held records come. The task then looks at them without a record of the side input."""

    def fail(self, error: BaseException) -> None:
        """End the task with this error, even while it waits."""


class SinkWriter(ABC):
    """One task's end of a stream.

    What it has taken becomes final in two steps: all tasks of the job prepare, then all commit. So
    a task that cannot prepare leaves nothing of the others'. Epochs count from 1 what becomes final
    together. A job without checkpoints has one; its last call is a `commit` that returns, or
    `abort`.

    With checkpoints (`TaskContext.checkpoints`) there are more, of rising numbers: `write` goes on
    behind a `prepare`, and what that returned is stored. An epoch that could not be stored is
    committed with a later one, each with its own number and what was prepared for it. After a
    failure, a new writer is first given what those before it had prepared, by `restore`; that may
    have been committed.
    """

    @abstractmethod
    def write(self, records: Any, /) -> None:
        """Take a batch, which is not empty; when it returns, its records count as delivered.

        It is a list, or a `pyarrow.RecordBatch` if the operator accepts columns.
        """

    def prepare(self, epoch: int, /) -> Any:  # noqa: B027 - most writers have nothing to do
        """Make what was written last, but not final; what it returns goes to `commit`.

        With checkpoints it has to be a record, such as a name in a tuple. None is nothing.
        """

    def commit(self, epoch: int, prepared: Any, /) -> Any:  # noqa: ARG002 - for those that override it
        """Make it final, with as little left that could fail as can be.

        What it returns goes to the driver, to `SinkOperator.commit`; for several epochs, only what
        the last call returned. With checkpoints it comes from another thread than `write`, and may
        come again.
        """
        return prepared

    def restore(self, epoch: int, prepared: list[tuple[int, Any]], /) -> None:  # noqa: ARG002 - as above
        """Go on behind this epoch, which is stored; before the first `write`.

        `prepared` has the epochs up to this one that may not be final, each with what the tasks
        before this one prepared for it. What they prepared for later epochs is dropped.
        """
        for each, made in prepared:
            self.commit(each, made)

    def close(self) -> None:  # noqa: B027 - most writers hold nothing by then
        """Let go of what it holds: all is final. Nothing comes after it."""

    def abort(self) -> None:  # noqa: B027 - most writers hold nothing that could stay behind
        """Leave nothing behind: the job failed or was cancelled, or `prepare` or `commit` raised.

        With checkpoints, what was prepared stays, since it may be stored. When the driver was
        killed, it comes from another thread, maybe in the middle of `write`.
        """


class SinkOperator(Operator, ABC, Generic[Consumed]):
    """The end of a stream. What a driver sink commits is the job's output."""

    @property
    def files(self) -> str | None:
        """Where its tasks write files, if they do: a folder of their machines, or a URL."""
        return None

    def validate(self) -> None:
        """Fail now if no task could run. Called once on the driver before any worker starts."""

    def validate_beside(self, other: "SinkOperator[Any]", /) -> None:
        """Fail if another sink of the job would write over this one's output.

        Called on the driver for each two that are valid.
        """

    @abstractmethod
    def open(self, context: TaskContext, /) -> SinkWriter:
        """Make the writer of one task."""

    def commit(self, epoch: int, committed: list[Any], /) -> Any:  # noqa: ARG002 - as above
        """Make one result of those of all tasks, in the order of their indexes.

        Called on the driver, once, when all tasks have committed.
        """
        return committed

    def abort(self) -> None:
        """Remove what killed tasks left behind. Called on the driver after a job that failed."""


FIRST_EPOCH = 1
"""The epoch of a job that has only one."""
