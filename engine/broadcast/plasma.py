"""Ray's object store: the publisher puts a model, each task gets it, which maps its node's copy.

A job's records carry the reference past Ray, which then keeps the object for as long as the
publisher lives; so the publisher counts its own references, and lets the oldest go.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from engine.broadcast.backend import Settings
from engine.errors import ConfigError, ModelError
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
                "pip install 'oka[ray]'",
            ) from error
        if not ray.is_initialized():
            raise ConfigError(
                "broadcast(via='plasma') needs a Ray cluster, and this process is on none",
                "runtime='ray'",
            )
        self._ray: Any = ray
        self._cancelled = cancelled
        self._kept: deque[Any] = deque()

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
        import time

        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            reference = self._ray.cloudpickle.loads(descriptor.reference)
            while True:
                left = _TICK_SECONDS if deadline is None else deadline - time.monotonic()
                try:
                    array = self._ray.get(reference, timeout=max(0.0, min(left, _TICK_SECONDS)))
                    return array.data if array.nbytes else memoryview(b"")
                except self._ray.exceptions.GetTimeoutError:
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

    def _let_go(self, reference: Any) -> None:
        """Take back the reference that Ray added when this one was pickled outside of a call."""
        if self._ray.is_initialized():
            worker = self._ray._private.worker.global_worker
            worker.core_worker.remove_object_ref_reference(reference)


_KEPT = 4
_TICK_SECONDS = 0.5
"""Ray's get cannot be interrupted: so often it is asked whether the task was cancelled."""
