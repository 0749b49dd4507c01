"""Publishing models: the operator behind `Stream.broadcast(via=…)`."""

import logging
import time
from typing import Any, get_args

from engine.broadcast import ModelStore, Publisher, Settings, store_in_use
from engine.errors import ConfigError, GraphError, ModelError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.model import Descriptor, Package, Via, pack
from engine.network import Cancelled, ChannelLost
from operators.sources.models import Models

logger = logging.getLogger("oka")


class Publish(BatchOperator):
    """Publishes each record, a model, and emits its descriptor for the receiving tasks.

    Versions are 1, 2, … in the order of each task's records. If records are pairs `(version,
    model)`, these are the versions: rising integers.
    """

    def __init__(self, via: Via, *, name: str | None = None, **settings: Any) -> None:
        if via not in get_args(Via):
            ways = " or ".join(map(repr, get_args(Via)))
            raise GraphError(f"broadcast() got via={via!r}, expected {ways}")
        if name is not None and not (isinstance(name, str) and name.strip()):
            raise GraphError(f"broadcast() got name={name!r}, expected a text that is not empty")
        try:
            self.settings = Settings(**settings)
        except ConfigError as error:
            raise GraphError(f"broadcast() got {error.message}", error.hint) from error
        except TypeError as error:
            names = ", ".join(["name", *Settings.__dataclass_fields__])
            raise GraphError(
                f"broadcast() got {', '.join(settings)}, expected settings of {names}"
            ) from error
        in_vain = [each for each in ("s3_url", "share_per_node") if getattr(self.settings, each)]
        if via != "s3" and in_vain:
            raise GraphError(
                f"broadcast() got {' and '.join(in_vain)} with via={via!r}, expected via='s3'",
                "other ways upload nothing, and share each model per node in any case"
                if via == "channels"
                else "other ways upload nothing",
            )
        self.via = via
        self.name = name

    @property
    def properties(self) -> Properties:
        """The broadcast's settings; tasks relay models from node to node, or within one."""
        relays = self.via == "channels" or (self.via == "s3" and self.settings.share_per_node)
        return Properties(services=(Publisher(self.via, relays),))

    def check_source(self, operator: object) -> None:
        """Raise GraphError if the models of this source cannot be published."""
        if self.via != "s3" or self.settings.s3_url is not None or not isinstance(operator, Models):
            return
        for value in operator.values:
            if not (isinstance(value, str) and value.startswith("s3://")):
                raise GraphError(
                    f"broadcast(via='s3') got {type(value).__name__} {value!r:.80}, which is not "
                    "in S3, and no s3_url",
                    hint="s3_url='s3://bucket/prefix' says where to upload it",
                )

    def open(self, context: TaskContext) -> BatchFunction:
        """The function that publishes; it waits while two models are on their way."""
        store = store_in_use()
        if store is None:
            raise ModelError(
                f"{context.task_name} publishes models and has no model store, expected one",
                "run the pipeline with engine.execute, or in a test with engine.testing.run",
            )
        return _Publisher(self, store, context)


class _Publisher(BatchFunction):
    """The models of one task.

    Its first one must be published. If a later one cannot be published, the task logs and counts
    that, and passes on a model without bytes. An operator with a model then keeps it; all others
    fail when they read the new one.
    """

    def __init__(self, operator: Publish, store: ModelStore, context: TaskContext) -> None:
        self._operator = operator
        self._store = store
        self._task = context.task_name
        self._failing = context.failing
        self._last = 0
        self._published = False

    def process(self, batch: list[Any]) -> list[Descriptor]:
        records = iter(batch)
        try:
            return [self._publish(record) for record in records]
        except BaseException:
            self._failing.at(batch, records)
            raise

    def _publish(self, record: Any) -> Descriptor:
        taken_ns = time.monotonic_ns()
        version, value = _versioned(record, self._last)
        via, name, settings = self._operator.via, self._operator.name, self._operator.settings
        try:
            package = self._packed(value, version)
            descriptor = self._store.publish(package, via, version, name, settings, taken_ns)
        except (Cancelled, ChannelLost):
            raise
        except Exception as error:
            if not self._published:
                raise
            self.failures += 1
            descriptor = self._store.unpublished(via, version, name or "model", error)
            logger.warning(f"{descriptor.failure}; the models before it stay")
        self._published, self._last = True, version
        return descriptor

    def _packed(self, value: Any, version: int) -> Package:
        try:
            return pack(value, self._operator.name)
        except Exception as error:
            message = error.message if isinstance(error, ModelError) else f"{error!r}"
            hint = error.hint if isinstance(error, ModelError) else None
            what = f"version {version} of the model cannot be packed in task {self._task}"
            raise ModelError(f"{what}: {message}", hint) from error


def _versioned(record: Any, last: int) -> tuple[int, Any]:
    """The version of a record and its model."""
    if not isinstance(record, tuple):
        return last + 1, record
    if len(record) == 2 and type(record[0]) is int:
        version, value = record
        if version > last:
            return version, value
        raise ModelError(
            f"a model has version {version} after version {last}, expected one that is higher",
            "publish the model alone, without a version, to have it counted",
        )
    raise ModelError(
        f"a record to publish is a tuple {record!r:.80}, expected a model or (version, model)"
    )
