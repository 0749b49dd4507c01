"""Streams: typed, immutable handles that declare a graph and do nothing else.

Every method gives a new handle and leaves the old one as it was, so a stream may be read by any
number of others. Wrong use raises `GraphError` here, where the mistake is, not in a worker.

    >>> from operators.sinks import Counts
    >>> from operators.sources import Collection
    >>> words = source(Collection(["to", "be", "or", "not", "to", "be"]))
    >>> pipeline = words.key_by().count().sink(Counts())
    >>> pipeline.declaration.name
    'counts'
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from engine.errors import GraphError
from engine.graph.declaration import Declaration, Input
from engine.graph.operator import (
    BatchOperator,
    Operator,
    RecordOperator,
    SinkOperator,
    SourceOperator,
)
from engine.graph.partitioner import Broadcast, Forward, Hash, Partitioner, Rebalance
from engine.model import Model, Via
from engine.resources import check_names
from operators.broadcast import Publish
from operators.elementwise import MapBatches, ToColumns, ToRecords, check_function
from operators.keyed import (
    Aggregation,
    Item,
    KeyRecords,
    NativeAggregate,
    Reduce,
    check_item,
)
from operators.with_model import MapBatchesWithModel, OnLoadError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
M = TypeVar("M")
L = TypeVar("L")


def source(operator: SourceOperator[T]) -> "Stream[T]":
    """Begin a stream: `source(Collection([1, 2, 3]))`."""
    if not isinstance(operator, SourceOperator):
        raise GraphError(
            f"source() got {_described(operator)}, expected a source",
            hint="wrap a list as Collection([...]), a generator function as Function(f)",
        )
    declaration = Declaration(operator, _default_name(operator), parallelism=operator.parallelism)
    return Stream((Input(declaration, Forward()),))


class Stream(Generic[T]):
    """Records of type T on their way; the next operator reads them in order of arrival."""

    def __init__(self, inputs: tuple[Input, ...]) -> None:
        self._inputs = inputs

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges that the next operator will have."""
        return self._inputs

    def map(self, function: Callable[[T], R]) -> "Stream[R]":
        """One record for each: `words.map(lambda word: (word, 1))`."""
        check_function("map", function, 1)
        return _then(self._inputs, RecordOperator("map", function), "map")

    def flat_map(self, function: Callable[[T], Iterable[R]]) -> "Stream[R]":
        """Any number of records for each: `lines.flat_map(lambda line: line.split())`."""
        check_function("flat_map", function, 1)
        return _then(self._inputs, RecordOperator("flat_map", function), "flat_map")

    def filter(self, function: Callable[[T], object]) -> "Stream[T]":
        """The records that the function is true for: `words.filter(lambda word: len(word) > 3)`."""
        check_function("filter", function, 1)
        return _then(self._inputs, RecordOperator("filter", function), "filter")

    @overload
    def map_batches(
        self, function: Callable[[list[T]], list[R]], max_records: int | None = None
    ) -> "Stream[R]": ...
    @overload
    def map_batches(
        self, function: Callable[["pa.RecordBatch"], Any], max_records: int | None = None
    ) -> "Stream[Any]": ...
    def map_batches(
        self, function: Callable[[Any], Any], max_records: int | None = None
    ) -> "Stream[Any]":
        """A list of any length for each batch: `words.map_batches(lambda batch: batch[::2])`.

        The function gets a list of at least one record and may keep or change it. How many is the
        engine's business: at most `max_records`, where that is given. On a stream of columns it
        gets a `pyarrow.RecordBatch`. It may return a list, a RecordBatch or a Table in any case.
        """
        return _then(self._inputs, MapBatches(function, max_records), "map_batches")

    def map_batches_with_model(
        self,
        models: "Stream[M]",
        load: Callable[[M], L],
        function: Callable[[L, list[T]], list[R]],
        *,
        load_in_background: bool = True,
        on_load_error: OnLoadError = "keep",
    ) -> "Stream[R]":
        """A list for each batch, by a function with the latest model; models come while it runs.

        `models` is a broadcast stream of any records, `load` is called with each in every task, and
        what it returns is given to `function` with every batch:

            models = source(Models("/models/digits")).broadcast(via="channels")
            images.map_batches_with_model(models, load, lambda model, batch: model.predict(batch))

        Records wait in their channels until the first model is loaded. From then on a new one is
        loaded in a thread while the one before serves; if more come meanwhile, only the newest of
        them is loaded. With `load_in_background=False` each is loaded where its record arrives, and
        records wait for it. Either way it takes over between two batches, so that no record is
        lost, met by two models or overtaken. Models with a `version` never go back to an older one.

        A later model that `load` raises for, or that could not be published, is left out: the one
        before serves on, the task tells of it once, and the operator's `failures` in the job's
        statistics count it. With `on_load_error="fail"` it fails the job, as the first model does
        in any case.

        When the records have ended, models that are still being loaded are not waited for, and a
        source of models that nobody else reads is ended at its next batch.
        """
        if not isinstance(models, Stream):
            raise GraphError(
                f"map_batches_with_model() got {_described(models)}, expected a stream of models",
                hint='such as source(Models("folder")).broadcast(via="channels")',
            )
        for edge in models.inputs:
            if not isinstance(edge.partitioner, Broadcast):
                raise GraphError(
                    f"map_batches_with_model() got the models of {edge.source.name!r} divided "
                    f"among tasks ({edge.partitioner.name}), expected all in every task",
                    hint="call .broadcast() on the stream of models",
                )
        operator = MapBatchesWithModel(load, function, load_in_background, on_load_error)
        sides = tuple(Input(edge.source, edge.partitioner, side=True) for edge in models.inputs)
        return _then((*self._inputs, *sides), operator, "map_batches_with_model")

    def to_columns(self, schema: "pa.Schema | None" = None) -> "Stream[Any]":
        """Records that are dicts as columns: a `pyarrow.RecordBatch` of each batch.

        Give a schema where a column may be all None in a batch, or integer in one and float in the
        next: without one, each batch has the fields of all its dicts and the types of its own
        values. A schema also says which fields there are: others are left out.
        """
        return _then(self._inputs, ToColumns(schema), "to_columns")

    def to_records(self) -> "Stream[dict[str, Any]]":
        """Columns as records: a dict of each row."""
        return _then(self._inputs, ToRecords(), "to_records")

    @overload
    def key_by(self, key: None = None) -> "KeyedStream[T, T]": ...
    @overload
    def key_by(self, key: int | str) -> "KeyedStream[Any, T]": ...
    @overload
    def key_by(self, key: Callable[[T], K]) -> "KeyedStream[K, T]": ...
    def key_by(self, key: int | str | Callable[[T], Any] | None = None) -> "KeyedStream[Any, T]":
        """Bring the records of one key to one task.

        `key` is the index of a tuple's or list's item, the name of a dict's field, a function of
        the record, or None: the record itself. Keys are equal as in Python (`True == 1 == 1.0` is
        one key, `"a"` and `b"a"` are two), and all NaN are one key. Index and name are the fast
        ways; with a function the key travels beside the record. On a stream of columns, `key` is
        the name or the index of a column.
        """
        if key is None or isinstance(key, int | str):
            if key is not None:
                check_item("key_by", key)
            return KeyedStream(_towards(self._inputs, Hash(key)), key, paired=False)
        check_function("key_by", key, 1, expected="an index >= 0, a field name or a function")
        pairs = Declaration(
            KeyRecords(key), "key_by", self._inputs, parallelism=_parallelism(self._inputs)
        )
        return KeyedStream((Input(pairs, Hash(0)),), 0, paired=True)

    def union(self, *others: "Stream[T]") -> "Stream[T]":
        """The records of all the streams; those of each stay in their order."""
        if not others:
            raise GraphError("union() got no stream, expected at least one other")
        for other in others:
            if not isinstance(other, Stream):
                raise GraphError(f"union() got {_described(other)}, expected streams")
        return Stream(tuple(edge for stream in (self, *others) for edge in stream.inputs))

    def rebalance(self) -> "Stream[T]":
        """Deal the records out to the tasks of the next operator in turn."""
        return Stream(_towards(self._inputs, Rebalance()))

    @overload
    def broadcast(self, via: None = None) -> "Stream[T]": ...
    @overload
    def broadcast(
        self,
        via: Via,
        *,
        name: str | None = None,
        s3_url: str | None = None,
        s3_endpoint: str | None = None,
        share_per_node: bool = False,
    ) -> "Stream[Model]": ...
    def broadcast(self, via: Via | None = None, **settings: Any) -> "Stream[Any]":
        """Give every record to every task of the next operator.

        With `via`, records are models, which may be of any size: each is published, and a `Model`
        arrives, a handle that reads the bytes in place. `channels` are Oka's own: one copy crosses
        the network to each node, whose tasks share it. `plasma` is Ray's object store; `s3`
        uploads below `s3_url` and each task downloads (with `share_per_node`, one of each node).
        A record is anything that `engine.model.pack` takes, or a pair of a version and that;
        settings are those of `engine.broadcast.Settings`, and `name`, for messages.

            >>> import engine.testing
            >>> from operators.sinks import Collect
            >>> from operators.sources import Models
            >>> models = source(Models(b"weights")).broadcast(via="channels")
            >>> loaded = models.map(lambda model: (model.version, bytes(model.value())))
            >>> engine.testing.run(loaded.sink(Collect()), parallelism=2)["collect"]
            [(1, b'weights'), (1, b'weights')]
        """
        if via is None:
            if settings:
                raise GraphError(
                    f"broadcast() got {', '.join(settings)} without via, expected both",
                    hint="broadcast(via='channels') is for models",
                )
            return Stream(_towards(self._inputs, Broadcast()))
        publish = Publish(via, **settings)
        for edge in self._inputs:
            publish.check_source(edge.source.operator)
        published = Declaration(
            publish, "publish", self._inputs, parallelism=_parallelism(self._inputs)
        )
        return Stream((Input(published, Broadcast()),))

    def sink(self, operator: SinkOperator[T]) -> "Pipeline":
        """End the stream: `counts.sink(Counts())`. What it returns can be executed."""
        if not isinstance(operator, SinkOperator):
            raise GraphError(
                f"sink() got {_described(operator)}, expected a sink",
                hint="wrap a function as Callback(f), gather records by Collect()",
            )
        return Pipeline(Declaration(operator, _default_name(operator), self._inputs))

    def named(self, name: str) -> "Stream[T]":
        """Give the last operator a name, unique in the job."""
        return self._with(_named(self._last("named"), name))

    def with_parallelism(self, parallelism: int) -> "Stream[T]":
        """Run the last operator in this many tasks, whatever the job's parallelism.

        Towards fewer tasks each task sends to one, which keeps the order; towards more tasks
        records are dealt out in turn, which does not keep it between them.
        """
        return self._with(_with_parallelism(self._last("with_parallelism"), parallelism))

    def with_resources(self, cpus: float | None = None, **custom: float) -> "Stream[T]":
        """What each task of the last operator takes of its node: `.with_resources(cpus=2, gpus=1)`.

        `cpus`, `gpus`, `memory` (bytes), and resources of the cluster's own. One CPU unless it says
        otherwise; operators in one chain take the most that one asks for. The runtime `local` gives
        nothing out: it warns of what is asked for in vain, but for CPUs and memory.
        """
        return self._with(_with_resources(self._last("with_resources"), cpus, custom))

    def on_nodes(self, *numbers: int) -> "Stream[T]":
        """Pin the tasks of the last operator to nodes, in turn: `.on_nodes(0)`, `.on_nodes(1, 2)`.

        Node k is the k-th, in the cluster's order, of the nodes that could run such a task; where
        there is only one node, all of them are on it. Other operators are placed as ever.
        """
        return self._with(_on_nodes(self._last("on_nodes"), numbers))

    def _last(self, method: str) -> Declaration:
        (edge, *others) = self._inputs
        if others or not isinstance(edge.partitioner, Forward):
            what = "union" if others else edge.partitioner.name
            raise GraphError(
                f".{method}() follows {what}(), expected an operator",
                hint=f"call .{method}() right after the operator that it is for",
            )
        return edge.source

    def _with(self, declaration: Declaration) -> "Stream[T]":
        return Stream((Input(declaration, Forward()),))


class KeyedStream(Generic[K, T]):
    """Records of type T, all those of one key of type K in one task, in order of arrival.

    `reduce` is Python per record. `count`, `sum`, `min`, `max` and `first` run in Rust on the
    encoded records: they emit, once per batch of input, a pair (key, value) for every key that the
    batch had, with the latest value. On a stream of columns those are the two columns of a
    `pyarrow.RecordBatch`: the key's, which keeps its name and has a dictionary if it is a string or
    binary (batches share it), and one that is named "count", "sum" and so on. Null values are left
    out there, and a sum must fit into 64 bits.
    """

    def __init__(self, inputs: tuple[Input, ...], key: Item | None, paired: bool) -> None:
        self._inputs = inputs
        self._key = key
        self._paired = paired

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges that the next operator will have."""
        return self._inputs

    def reduce(self, function: Callable[[T, T], T]) -> Stream[T]:
        """Combine the records of each key: `.reduce(lambda a, b: (a[0], a[1] + b[1]))`.

        For every record it emits what its key has come to: the first record of a key as it is, then
        `function(so far, record)`.
        """
        return _then(self._inputs, Reduce(function, self._key, self._paired), "reduce")

    def count(self) -> Stream[tuple[K, int]]:
        """How many records each key has had."""
        return self._aggregate("count", None)

    def sum(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The sum of an item of the records, or of the records themselves; integers exactly."""
        return self._aggregate("sum", item)

    def min(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The least of an item of the records, or of the records themselves."""
        return self._aggregate("min", item)

    def max(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The greatest of an item of the records, or of the records themselves."""
        return self._aggregate("max", item)

    def first(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The first that each key had of an item of the records, or of the records themselves."""
        return self._aggregate("first", item)

    @overload
    def map_batches(
        self, function: Callable[[list[T]], list[R]], max_records: int | None = None
    ) -> Stream[R]: ...
    @overload
    def map_batches(
        self, function: Callable[["pa.RecordBatch"], Any], max_records: int | None = None
    ) -> Stream[Any]: ...
    def map_batches(
        self, function: Callable[[Any], Any], max_records: int | None = None
    ) -> Stream[Any]:
        """As `Stream.map_batches`, in the task that has all records of the batch's keys.

        State of the function's own, such as a dict by key, is per task: make it in a callable
        object's `__call__` or a closure that is unpickled in each task.
        """
        operator = MapBatches(function, max_records, self._paired)
        return _then(self._inputs, operator, "map_batches")

    def _aggregate(self, kind: Aggregation, item: int | str | None) -> Stream[Any]:
        if item is not None:
            check_item(kind, item)
        operator = NativeAggregate.of(kind, self._key, item, self._paired)
        return _then(self._inputs, operator, kind)


class Pipeline:
    """A stream that ends in a sink: what `engine.execute` takes, alone or in a list."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration

    @property
    def declaration(self) -> Declaration:
        """The sink, with all that it reads from."""
        return self._declaration

    def named(self, name: str) -> "Pipeline":
        """Give the sink a name, unique in the job: its output is `result.outputs[name]`."""
        return Pipeline(_named(self._declaration, name))

    def with_parallelism(self, parallelism: int) -> "Pipeline":
        """Run the sink in this many tasks, whatever the job's parallelism."""
        return Pipeline(_with_parallelism(self._declaration, parallelism))

    def with_resources(self, cpus: float | None = None, **custom: float) -> "Pipeline":
        """What each task of the sink takes of its node."""
        return Pipeline(_with_resources(self._declaration, cpus, custom))

    def on_nodes(self, *numbers: int) -> "Pipeline":
        """Pin the tasks of the sink to nodes, in turn; see `Stream.on_nodes`."""
        return Pipeline(_on_nodes(self._declaration, numbers))

    if not TYPE_CHECKING:  # a type checker sees that these methods do not exist

        def __getattr__(self, name: str) -> Any:
            if name in vars(Stream) and not name.startswith("_"):
                raise GraphError(
                    f".{name}() follows .sink(), which ends a stream",
                    hint=f"call .{name}() on the stream before its sink",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _then(
    inputs: tuple[Input, ...], operator: RecordOperator | BatchOperator, name: str
) -> Stream[Any]:
    return Stream((Input(Declaration(operator, name, inputs), Forward()),))


def _towards(inputs: tuple[Input, ...], partitioner: Partitioner) -> tuple[Input, ...]:
    return tuple(Input(edge.source, partitioner) for edge in inputs)


def _parallelism(inputs: tuple[Input, ...]) -> int | None:
    """That of all inputs, so that an operator shares their tasks; None if they have several."""
    parallelisms = {edge.source.parallelism for edge in inputs}
    return parallelisms.pop() if len(parallelisms) == 1 else None


def _named(declaration: Declaration, name: str) -> Declaration:
    if not isinstance(name, str) or not name.strip():
        raise GraphError(f"named() got {name!r}, expected a text that is not empty")
    return replace(declaration, name=name, named=True)


def _with_parallelism(declaration: Declaration, parallelism: int) -> Declaration:
    if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
        raise GraphError(f"with_parallelism() got {parallelism!r}, expected an integer >= 1")
    return replace(declaration, parallelism=parallelism)


def _with_resources(
    declaration: Declaration, cpus: float | None, custom: dict[str, float]
) -> Declaration:
    resources = custom if cpus is None else {"cpus": cpus, **custom}
    if not resources:
        raise GraphError("with_resources() got nothing, expected such as cpus=2")
    for name, amount in resources.items():
        if not isinstance(amount, int | float) or not 0 <= amount < float("inf"):
            raise GraphError(f"with_resources() got {name}={amount!r}, expected a number >= 0")
    try:
        check_names(resources)
    except ValueError as error:
        raise GraphError(f"with_resources() got {error}") from None
    amounts = {name: float(amount) for name, amount in resources.items()}
    return replace(declaration, resources={**declaration.resources, **amounts})


def _on_nodes(declaration: Declaration, numbers: tuple[int, ...]) -> Declaration:
    if not numbers:
        raise GraphError("on_nodes() got nothing, expected numbers of nodes such as 0, 1")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise GraphError(f"on_nodes() got {number!r}, expected integers >= 0")
    return replace(declaration, nodes=numbers)


def _default_name(operator: Operator) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(operator).__name__).lower()


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{type(value).__name__} {value!r:.80}"
