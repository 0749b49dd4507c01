"""A function of records and a model that is replaced while records stream: hot swap."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from engine.errors import GraphError, ModelError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.model import Model
from engine.network import Cancelled, ChannelLost
from operators.elementwise import check_function, checked_batch

L = TypeVar("L")
OnLoadError: TypeAlias = Literal["keep", "fail"]
logger = logging.getLogger("oka")


@dataclass(frozen=True)
class MapBatchesWithModel(BatchOperator):
    """Calls `function(loaded, batch)`, where `loaded` is the result of `load` for the latest model.

    Until the first model is loaded, records wait in their channels. A later model is loaded in a
    thread of its own while the one before serves (`load_in_background`), or at once, between the
    batches around its record. It takes over between two batches: each batch sees one model, and no
    record is lost, or overtakes another.

    If a later model cannot be loaded, or could not be published, the one before stays or the job
    fails, as `on_load_error` says. Without a first model the job fails in any case.

    It has no state in a checkpoint: models come again, and records wait for the first one.
    """

    load: Callable[[Any], Any]
    function: Callable[[Any, Any], Any]
    load_in_background: bool = True
    on_load_error: OnLoadError = "keep"

    properties = Properties(
        accepts_columns=True, side_input=True, holds_records=True, goes_on=False
    )

    def __post_init__(self) -> None:
        check_function("map_batches_with_model", self.load, 1, "a function of a model")
        check_function("map_batches_with_model", self.function, 2, "a function of a model, a batch")
        if not isinstance(self.load_in_background, bool):
            raise GraphError(
                f"load_in_background is {self.load_in_background!r}, expected True or False"
            )
        if self.on_load_error not in get_args(OnLoadError):
            raise GraphError(f"on_load_error is {self.on_load_error!r}, expected 'keep' or 'fail'")

    def open(self, context: TaskContext) -> BatchFunction:
        """The function of one task, still without a model."""
        return _WithModel(self, context)


@dataclass(frozen=True)
class _Loaded(Generic[L]):
    """A model, and the result of `load`."""

    model: Any
    value: L


class _WithModel(BatchFunction):
    """The models of one task.

    The task's thread owns `_current`; it shares `_newest` and `_loaded` with the loader under the
    lock. Of several models that come during a load, only the newest is loaded.
    """

    keeps_nothing = True

    def __init__(self, operator: MapBatchesWithModel, context: TaskContext) -> None:
        self._load = operator.load
        self._function = operator.function
        self._background = operator.load_in_background
        self._keeps = operator.on_load_error == "keep"
        assert context.gate is not None
        self._gate = context.gate
        self._task = context.task_name
        self._version = -1
        self._in_use = 0
        """The version of the current model, which is still told when that is gone."""
        self._current: _Loaded[Any] | None = None
        self._changed = threading.Condition()
        self._newest: Any = _NOTHING
        """The next model for the loader."""
        self._loaded: _Loaded[Any] | None = None
        """The loaded model that takes over before the next batch."""
        self._loading = False
        self._cancelled = False

    def process(self, batch: Any) -> Any:
        if self._loaded is not None:
            self._apply()
        current = self._current
        if current is None:
            current = self._wait_first()
        try:
            return checked_batch(self._function(current.value, batch), "map_batches_with_model")
        except _PASSED_ON:
            raise
        except Exception as error:
            raise _told("function", current.model, error) from error

    def take_side(self, records: list[Any]) -> None:
        for model in records:
            if isinstance(model, Model):
                if model.version <= self._version:
                    continue  # a newer model has overtaken it
                self._version = model.version
                if model.failure:
                    self._leave_unpublished(model)
                    continue
            if self._background:
                self._load_soon(model)
            elif (loaded := self._load_now(model)) is not None:
                self._loaded = loaded
                self._apply()

    def metrics(self) -> Mapping[str, Any]:
        return {"model_version": self._in_use} if self._in_use else {}

    def cancel(self) -> None:
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def close(self) -> None:
        self.cancel()
        with self._changed:
            self._newest, self._loaded = _NOTHING, None
        self._current = None

    def _apply(self) -> None:
        """Replace the model by the loaded one, and release it."""
        with self._changed:
            before = self._current
            self._current, self._loaded = self._loaded, None
            if self._current is not None and isinstance(self._current.model, Model):
                self._in_use = self._current.model.version
        if before is None:
            self._gate.resume()
        elif isinstance(before.model, Model):
            before.model.release()

    def _load_soon(self, model: Any) -> None:
        """Give a model to the loader, a thread that lives while there are models to load."""
        with self._changed:
            self._newest = model
            if self._loading:
                return
            self._loading = True
        threading.Thread(target=self._load_all, name="oka-load", daemon=True).start()

    def _load_all(self) -> None:
        while True:
            with self._changed:
                model, self._newest = self._newest, _NOTHING
                if model is _NOTHING or self._cancelled:
                    self._loading = False
                    self._changed.notify_all()
                    return
            try:
                loaded = self._load_now(model)
            except BaseException as error:  # noqa: BLE001 - it is raised in the task's thread
                with self._changed:
                    if not self._cancelled:  # otherwise the task's records have ended
                        self._gate.fail(error)
                self.cancel()
                return
            if loaded is None:
                continue
            with self._changed:
                if self._cancelled:
                    self._loading = False
                    return
                first = self._current is None and self._loaded is None
                self._loaded = loaded
                self._changed.notify_all()
            if first:
                self._gate.resume()

    def _load_now(self, model: Any) -> _Loaded[Any] | None:
        """The loaded model; None if loading failed and the model is left out."""
        try:
            return _Loaded(model, self._load(model))
        except _PASSED_ON:
            raise
        except Exception as error:
            with self._changed:
                serving = self._loaded or self._current
            if serving is None or not self._keeps:
                raise _told("load", model, error) from error
            self.failures += 1
            logger.warning(
                f"task {self._task}: {serving.model!r:.200} stays, since load raised "
                f"{type(error).__name__}: {error}, with {model!r:.200}",
                exc_info=error,
            )
        if isinstance(model, Model):
            model.release()
        return None

    def _leave_unpublished(self, model: Model) -> None:
        """Skip a model whose publisher has logged and counted its failure."""
        with self._changed:
            awaited = self._loading or self._loaded is not None
        if not self._keeps or (self._current is None and not awaited):
            raise ModelError(model.failure)

    def _wait_first(self) -> _Loaded[Any]:
        """The first model, for records that come after the end of the side input."""
        with self._changed:
            while self._loading and self._loaded is None and not self._cancelled:
                self._changed.wait()
            if self._cancelled:
                raise Cancelled("cancelled while the first model was loaded")
        if self._loaded is None:
            raise RuntimeError(
                "the stream of models ended without one and there are records, expected a model"
                "\n\nhint: does the source of the models emit any?"
            )
        self._apply()
        assert self._current is not None
        return self._current


def _told(which: str, model: Any, error: Exception) -> RuntimeError:
    """The error of the user's function, with its name and the model."""
    told = RuntimeError(f"{which} raised {type(error).__name__}: {error}, with {model!r:.200}")
    return told.with_traceback(error.__traceback__)


_PASSED_ON = (Cancelled, ChannelLost)
_NOTHING: Any = object()
