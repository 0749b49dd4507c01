"""Ray's object store: the publisher puts a model, each task gets it, which maps its node's copy.

A job's records carry the reference past Ray, which then keeps the object for as long as the
publisher lives; so the publisher counts its own references, and lets the oldest go.
"""

from __future__ import annotations

import io
import pickle
import threading
import time
from collections import deque
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from engine.broadcast.backend import Settings
from engine.errors import ConfigError, ModelError
from engine.installation.distribution import install_hint
from engine.model import Descriptor, Fetched, Layout, MemoryLanding, Package
from engine.network import Cancelled


class Plasma:
    """Models in Ray's object store. Receivers may lag `_KEPT` models behind the publisher."""

    def __init__(self, cancelled: threading.Event) -> None:
        try:
            import ray
        except ImportError as error:
            raise ConfigError(
                "broadcast(via='plasma') needs Ray, which is not installed",
                install_hint("ray"),
            ) from error
        if not ray.is_initialized():
            raise ConfigError(
                "broadcast(via='plasma') needs a Ray cluster, and this process is on none",
                "runtime='ray'",
            )
        self._ray: Any = ray
        self._cancelled = cancelled
        self._kept: deque[Any] = deque()
        self._gets: dict[tuple[int, int], Future[Any]] = {}
        self._lock = threading.Lock()

    def publish(self, package: Package, number: int, settings: Settings) -> tuple[Layout, bytes]:
        """Put one array of the package's bytes; they are copied before only if in several parts."""
        import numpy as np

        blob = package.contiguous
        if blob is None:
            landing = MemoryLanding(package.layout.size)
            package.write_to(landing)
            blob = landing.finish()
        array = np.frombuffer(blob, np.uint8) if len(blob) else np.empty(0, np.uint8)
        reference = self._ray.put(array)
        self._kept.append(reference)
        if len(self._kept) > _KEPT:
            self._let_go(self._kept.popleft())
        return package.layout, self._ray.cloudpickle.dumps(reference)

    def expect(self, descriptor: Descriptor) -> None:
        """It is fetched when it is read."""

    def fetch(self, descriptor: Descriptor, timeout: float | None) -> Fetched:
        """Ray's copy on this node, which stays while a view of it does."""
        deadline = None if timeout is None else time.monotonic() + timeout
        getting = self._getting(descriptor)
        try:
            while True:
                left = _TICK_SECONDS if deadline is None else deadline - time.monotonic()
                try:
                    array = getting.result(timeout=max(0.0, min(left, _TICK_SECONDS)))
                    return array.data if array.nbytes else memoryview(b"")
                except FutureTimeout:
                    if self._cancelled.is_set():
                        raise Cancelled("the task was cancelled") from None
                    if deadline is not None and time.monotonic() >= deadline:
                        raise TimeoutError(f"after {timeout} s") from None
        except self._ray.exceptions.RayError as error:
            raise ModelError(
                f"Ray's object store does not have it: {error}",
                f"the publisher keeps its last {_KEPT} models: did this task lag behind them?",
            ) from error

    def discard(self, descriptor: Descriptor) -> bool:
        """The publisher alone keeps it."""
        return True

    def finish(self) -> None:
        """References stay until the job ends, when every task has run."""

    def close(self) -> None:
        """Let all models go."""
        while self._kept:
            self._let_go(self._kept.popleft())

    def _getting(self, descriptor: Descriptor) -> Future[Any]:
        """The one get of a model, in a thread of its own.

        A get with a timeout ends Ray's pull when it is over, and the next begins it anew.
        """
        key = (descriptor.origin, descriptor.number)
        with self._lock:
            if key in self._gets:
                return self._gets[key]
            getting: Future[Any] = Future()
            self._gets[key] = getting

        def get() -> None:
            try:
                reference = _References(io.BytesIO(descriptor.reference)).load()
                getting.set_result(self._ray.get(reference))
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                getting.set_exception(error)
            finally:
                with self._lock:
                    self._gets.pop(key, None)

        threading.Thread(target=get, name="oka-plasma", daemon=True).start()
        return getting

    def _let_go(self, reference: Any) -> None:
        """Take back the reference that Ray added when this one was pickled outside of a call."""
        if self._ray.is_initialized():
            worker = self._ray._private.worker.global_worker
            worker.core_worker.remove_object_ref_reference(reference)


class _References(pickle.Unpickler):
    """Reads what Ray pickles of an ObjectRef, which calls one function of Ray and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Give that function; ModelError for whatever else would be imported."""
        if (module, name) != _OF_A_REFERENCE:
            raise ModelError(f"its reference would import {module}.{name}, expected Ray's alone")
        return super().find_class(module, name)


_OF_A_REFERENCE = ("ray._private.serialization", "_object_ref_deserializer")
_KEPT = 4
_TICK_SECONDS = 0.5
"""So often a task that waits looks whether it was cancelled: Ray's get cannot be interrupted."""
