"""Publishing models: the operator behind `Stream.broadcast(via=…)`."""

import time
from collections.abc import Callable
from typing import Any, get_args

from engine.broadcast import Settings
from engine.errors import ConfigError, GraphError, ModelError
from engine.graph.operator import BatchOperator, TaskContext
from engine.model import Descriptor, Via, pack
from operators.sources.models import Models


class Publish(BatchOperator):
    """Publishes each record, a model, and emits what tells the receiving tasks of it.

    Versions are 1, 2, … in the order of the records, per task; or those of the records, where they
    are pairs `(version, model)`: integers that go up.
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
    def publishes(self) -> Via:
        """The way that its tasks move models; the job prepares it."""
        return self.via

    @property
    def relays(self) -> bool:
        """Whether tasks hand the bytes to each other, from node to node or within one."""
        return self.via == "channels" or (self.via == "s3" and self.settings.share_per_node)

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

    def open(self, context: TaskContext) -> Callable[[Any], Any]:
        """The function that publishes; it waits while two models are on their way."""
        store = context.models
        if store is None:
            raise ModelError(
                f"{context.task_name} publishes models and has no model store, expected one",
                "run the pipeline with engine.execute, or in a test with engine.testing.run",
            )
        last = 0

        def publish(batch: list[Any]) -> list[Descriptor]:
            nonlocal last
            published = []
            for record in batch:
                taken_ns = time.monotonic_ns()
                version, value = _versioned(record, last)
                package = pack(value, self.name)
                published.append(
                    store.publish(package, self.via, version, self.name, self.settings, taken_ns)
                )
                last = version
            return published

        return publish


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
