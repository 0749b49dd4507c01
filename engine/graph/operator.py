"""The engine's view of an operator: a few shapes, none of which is called once per record.

An operator is declared on the driver, pickled, and opened once in every task. State lives in what
`open` returns, never in the operator itself, so one declaration serves any number of tasks. Its
`Properties` tell the engine what it must know before that. `source`, `batch_operator` and `sink`
have the shapes with an `open`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from engine.errors import GraphError
from engine.graph.checks import check_integer

T = TypeVar("T")


OnError: TypeAlias = Literal["fail", "skip", "side"]
"""The treatment of a record on which an operator's function raises an exception: "fail" ends the
job, "skip" leaves the record out and counts it, "side" counts it and sends (record, error) to the
side output `ERRORS`."""


ERRORS = "errors"

Form: TypeAlias = Literal["map", "filter", "flat_map", "key"]
"""The relation of records in and out, for a function of each: `map` gives one record for each,
`filter` keeps those it is true for, `flat_map` gives any number of records as an iterable, `key`
gives the key in front of its record: (key, record)."""


@dataclass(frozen=True)
class Properties:
    """All that an operator declares about itself; the engine asks for nothing else by name.

    Planning reads them on the driver, tasks as they open the operator. They do not change.
    """

    parallelism: int | None = None
    """Its parallelism unless `with_parallelism` sets one; None is the job's."""

    alone: bool = False
    """Whether one task does all of it: its parallelism is 1, and more by `with_parallelism` are
    refused."""

    on_error: OnError = "fail"
    """The treatment of records that its function fails on."""

    errors: str = ERRORS
    """The name of the side output that such records go to with "side"."""

    accepts_columns: bool = False
    """Whether it takes a `pyarrow.RecordBatch` as well as a list; otherwise it gets a dict for each
    row. Only such an operator, or a source, may give one."""

    accepts_rows: bool = False
    """Whether it takes `engine.columns.Rows` as well as a list: it need not look at each dict."""

    passes_records: bool = False
    """Whether all records that it gives are some of those that it got, in order, as `filter` does.
    Of columns it gets a dict for each row, and those that it gives go on as columns."""

    accepts_encoded: bool = False
    """Whether it takes the network's encoded batch rather than a list of records. It is then the
    first of its chain, and has every input over the network."""

    accepts_batches: bool = False
    """Whether it takes `engine.network.Batch` as well as a list, from the network or from the
    operator before it: it need not make an object of each record."""

    emits_columns: bool = False
    """Whether it makes columns: every task of the job then loads PyArrow as it starts, not at its
    first batch."""

    emits_records: bool = False
    """Whether it gives lists although it accepts columns."""

    emits_rows: bool = False
    """Whether it may give `engine.columns.Rows` in place of a list."""

    emits_pairs: bool = False
    """Whether it gives `engine.network.Paired`: a gate takes that as it is, the next operator of
    its chain gets a list of tuples."""

    emits_encoded: bool = False
    """Whether it may give `engine.network.Batch`, of encoded records: a gate takes that as it is,
    the next operator of its chain gets a list unless it accepts batches. One that accepts batches
    itself gives them where it gets them."""

    compacts: bool = False
    """Whether it merges updates of one batch, so that fewer records leave than count as emitted."""

    only_last: bool = False
    """Of a sink, whether only the last of a batch's records with the same first item matters."""

    outputs: tuple[str, ...] = ()
    """Names of its outputs beside the main one, which it sends to by `TaskContext.side_outputs`."""

    limit: int | None = None
    """The most records that each of its tasks emits; sources whose records it would drop are
    ended."""

    rate: float | None = None
    """Of a source, the records per second over all tasks that the runtime lets through; None is no
    limit."""

    side_input: bool = False
    """Whether it reads a second stream beside its records. It is then the first of its chain, and
    all its inputs come over channels."""

    two_inputs: bool = False
    """Whether it reads two streams alike, such as a join. It takes encoded batches, each of one of
    them: `batch.input` is 0 or 1. It ends when both have ended, and a watermark is that of both."""

    holds_records: bool = False
    """Whether, with a side input, batches wait until `Gate.resume`."""

    ends_with_side: bool = False
    """Whether a task goes on until its side input has ended, too."""

    driver: bool = False
    """Of a sink, whether its merged results are part of the job's result."""

    never_waits: bool = False
    """Of a source, whether it never waits for anything outside: it has its next record at once, or
    has ended. Then no other thread iterates over it in front of operators with timers."""

    goes_on: bool = True
    """Whether it can be in a job with checkpoints; such a source gives a `SourceReader`. An
    operator that does not keep the records of its side input can be, if the side input gives them
    again."""

    gives_again: bool = False
    """Of a source, whether it gives its last record again after a restore. Its readers need only
    that record, so no barrier comes in front of its first one."""

    beside_source: bool = False
    """Whether it runs in the tasks of a source, with no channel between."""

    makes_watermarks: bool = False
    """Whether its functions set `watermark`. The watermarks of its inputs then end at it."""

    max_drift_us: int | None = None
    """How far its watermarks, made beside a source, may be ahead of the lowest watermark that they
    meet. The source waits if they are further ahead. None is no limit."""

    services: tuple[object, ...] = ()
    """Its requests to services of its worker, such as the settings of a gateway. Each service knows
    its own by their type, and looks for them by `wanted`."""

    functions: "tuple[tuple[Callable[..., Any], int], ...]" = ()
    """Its functions of records, each with the number of its arguments. They run in Rust, without
    Python, where their bytecode is understood."""

    way: str | None = None
    """How it treats records, as `oka plan` shall say it, where it has no `functions` that tell."""

    check: "Callable[[Any], None] | None" = None
    """Raises TypeError for records or columns that it does not take. In a job with requests, the
    operator before it in its chain then counts as having failed on their record."""

    meaning: Mapping[str, Any] = field(default_factory=lambda: {"kind": "own"})
    """The meaning of its state, as plain data with a `kind`. A restored job is refused if a name is
    gone or has another value. State under a new name begins empty."""

    def __post_init__(self) -> None:
        """Raise GraphError for values without a meaning."""
        if self.on_error not in get_args(OnError):
            words = ", ".join(map(repr, get_args(OnError)))
            raise GraphError(f"on_error is {self.on_error!r}, expected one of {words}")
        if self.alone:
            object.__setattr__(self, "parallelism", 1)
        if self.parallelism is not None:
            check_integer("parallelism", self.parallelism, 1)
        if self.two_inputs and (self.side_input or not self.accepts_encoded):
            raise GraphError(
                "two_inputs is True, expected accepts_encoded=True and no side_input beside it"
            )
        if self.limit is not None:
            check_integer("limit", self.limit, 0)

    def wanted(self, kind: type[T]) -> T | None:
        """Its request of this type to a service; None if it has none."""
        return next((each for each in self.services if isinstance(each, kind)), None)

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """Names of all its outputs beside the main one."""
        return (*self.outputs, self.errors) if self.on_error == "side" else self.outputs


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
        """Its `Properties`, as an attribute of the class or as a property."""
    else:
        properties = Properties()


@dataclass(frozen=True)
class RecordOperator(Operator):
    """A user's function over single records; the runtime makes one loop over the batch of each."""

    form: Form
    function: Callable[[Any], Any]
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """The treatment of records that fail, and its function; a filter passes records on."""
        return Properties(
            on_error=self.on_error,
            passes_records=self.form == "filter",
            functions=((self.function, 1),),
        )
