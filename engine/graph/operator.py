"""What an operator is to the engine: a few shapes, none of which is called once per record.

An operator is declared on the driver, pickled, and opened once in every task. State lives in what
`open` returns, never in the operator itself, so one declaration serves any number of tasks. What
the engine has to know of an operator before that is in its `Properties`. `source`, `batch_operator`
and `sink` have the shapes with an `open`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from engine.errors import GraphError
from engine.graph.checks import check_integer

T = TypeVar("T")


OnError: TypeAlias = Literal["fail", "skip", "side"]
"""What becomes of a record that an operator's function raises an exception on: it ends the job, is
left out and counted, or is counted and goes to the side output `ERRORS` as (record, error)."""


ERRORS = "errors"


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
