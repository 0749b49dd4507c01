"""The models of a worker: it publishes those of its task and keeps those that it received."""

from __future__ import annotations

import secrets
import threading
import time
import weakref
from collections import deque

from engine.broadcast.backend import Backend, Node, Settings
from engine.broadcast.relay import BlobRole
from engine.config import JobConfig
from engine.errors import EngineError, ModelError
from engine.model import Descriptor, Fetched, Layout, Model, Package, Via
from engine.network import Cancelled, ChannelLost


class ModelStore:
    """The models of one task.

    `publish` and `finish` belong to the task's thread and may wait; `model` never waits; `cancel`
    makes whatever waits raise Cancelled and may be called from any thread, as may `close`.
    Two handles of one model are one handle, so that its bytes are taken from the node once.
    """

    def __init__(
        self,
        task_id: int,
        node: Node | None,
        config: JobConfig,
        role: BlobRole | None = None,
        *,
        task: str = "",
        where: str = "",
    ) -> None:
        self._task_id = task_id
        self._node = node
        self._role = role
        self._config = config
        self._at = f"task {task or task_id}" + (f" on node {where}" if where else "")
        self._token = secrets.token_hex(4)
        self._backends: dict[Via, Backend] = {}
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._published = 0
        self._models: weakref.WeakValueDictionary[tuple[int, int], Model]
        self._models = weakref.WeakValueDictionary()
        self._taken: set[tuple[int, int]] = set()
        # Finalizers run wherever a reference is dropped, so all they do is append here.
        self._dropped: deque[Descriptor] = deque()

    def publish(
        self,
        package: Package,
        via: Via,
        version: int | None = None,
        name: str | None = None,
        settings: Settings | None = None,
        published_ns: int | None = None,
    ) -> Descriptor:
        """Hand the package to a backend; the record to emit. `version` counts up if None.

        `published_ns` is when the value was taken, now if None.

        All but the last model published before are delivered when it returns. Raises EngineErrors
        that name the model, or Cancelled.
        """
        published_ns = time.monotonic_ns() if published_ns is None else published_ns
        number = self._published = self._published + 1
        version = number if version is None else version
        name = name or package.name
        settings = settings or Settings()
        try:
            if package.url is not None and via != "s3":
                from engine.broadcast.s3 import listed

                package = listed(package, settings)
            layout, reference = self._backend(via).publish(package, number, settings)
        except Exception as error:
            raise self._described(
                error, f"model {name!r} version {version}", "be published"
            ) from error
        return Descriptor(
            via, version, name, layout, self._task_id, number, reference, published_ns
        )

    def unpublished(self, via: Via, version: int, name: str, error: Exception) -> Descriptor:
        """The record to emit for a model that could not be published: readers get the error."""
        number = self._published = self._published + 1
        failure = error.message if isinstance(error, EngineError) else f"{error!r}"
        nothing = Layout.of("bytes", [])
        return Descriptor(via, version, name, nothing, self._task_id, number, failure=failure)

    def model(self, descriptor: Descriptor) -> Model:
        """The model of a descriptor."""
        self._discard_dropped()
        if descriptor.failure:
            return Model(descriptor, lambda _timeout: b"")  # it raises before it fetches
        key = (descriptor.origin, descriptor.number)
        with self._lock:
            model = self._models.get(key)
            if model is None:
                model = Model(descriptor, lambda timeout: self._fetch(descriptor, timeout))
                self._models[key] = model
                self._backend_of(descriptor.via).expect(descriptor)
                weakref.finalize(model, self._dropped.append, descriptor).atexit = False
        return model

    def finish(self) -> None:
        """Wait until everything that this task published is delivered."""
        for backend in self._started():
            try:
                backend.finish()
            except Exception as error:
                raise self._described(error, "a model", "be delivered") from error
        self._discard_dropped()

    def cancel(self) -> None:
        """Make what waits raise Cancelled; idempotent."""
        self._cancelled.set()
        if self._node is not None:
            self._node.cancel()

    def close(self) -> None:
        """Let go of all models; views that are in use stay valid. Idempotent."""
        self.cancel()
        for backend in self._started():
            backend.close()

    def _fetch(self, descriptor: Descriptor, timeout: float | None) -> Fetched:
        key = (descriptor.origin, descriptor.number)
        what = f"model {descriptor.name!r} version {descriptor.version}"
        if key in self._taken:
            raise ModelError(
                f"{what} was taken and let go of before in {self._at}, expected it to be held",
                "keep the Model that arrived first, or send it by one broadcast() only",
            )
        try:
            fetched = self._backend(descriptor.via).fetch(descriptor, timeout)
        except Exception as error:
            raise self._described(error, what, "be received") from error
        self._taken.add(key)
        return fetched

    def _discard_dropped(self) -> None:
        """Take unread models from the node all the same: it waits for this task."""
        for _ in range(len(self._dropped)):
            try:
                descriptor = self._dropped.popleft()
            except IndexError:  # another thread of the task is at it, too
                return
            key = (descriptor.origin, descriptor.number)
            if key in self._taken:
                continue
            if self._backend(descriptor.via).discard(descriptor):
                self._taken.add(key)
            else:
                self._dropped.append(descriptor)

    def _started(self) -> list[Backend]:
        with self._lock:
            return list(self._backends.values())

    def _backend(self, via: Via) -> Backend:
        """Backends are made when they are first needed: each imports what others do without."""
        with self._lock:
            return self._backend_of(via)

    def _backend_of(self, via: Via) -> Backend:
        if via not in self._backends:
            self._backends[via] = self._open(via)
        return self._backends[via]

    def _open(self, via: Via) -> Backend:
        if via == "channels":
            from engine.broadcast.channels import Channels

            return Channels(self._task_id, self._node)
        if via == "plasma":
            from engine.broadcast.plasma import Plasma

            return Plasma(self._cancelled)
        from engine.broadcast.s3 import S3Objects

        folder = f"{self._config.name}-{self._token}"
        return S3Objects(self._task_id, folder, self._node, self._role, self._cancelled)

    def _described(self, error: Exception, what: str, intent: str) -> Exception:
        """The error with the model and the task in its message; control flow passes as it is."""
        if isinstance(error, Cancelled):
            return error
        if isinstance(error, TimeoutError):
            return TimeoutError(f"{what} could not {intent} in {self._at} in time: {error}")
        if isinstance(error, ChannelLost):
            return ChannelLost(f"{what} could not {intent} in {self._at}: {error}")
        if isinstance(error, EngineError):
            message, hint = error.message, error.hint
        else:
            message, hint = f"{type(error).__name__} {error}", None
        plain = isinstance(error, EngineError) and type(error).__init__ is EngineError.__init__
        kind = type(error) if plain else ModelError
        described: Exception = kind(f"{what} could not {intent} in {self._at}: {message}", hint)
        return described
