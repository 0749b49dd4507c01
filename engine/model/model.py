"""A model in a task: a handle whose bytes may still be on their way."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.errors import ModelError
from engine.model import safetensors
from engine.model.descriptor import Descriptor
from engine.model.layout import Layout

if TYPE_CHECKING:
    import numpy.typing as npt

Fetched: TypeAlias = Any
"""An object with the bytes of a blob: it has the buffer protocol, and owns the bytes while it
lives."""


class Model:
    """A published model. Only reading its bytes waits for them.

    All its values are read-only views of one copy, which all tasks of a node share if the backend
    can; each view keeps that copy alive. Methods raise ModelError (or an error of the backend, such
    as ChannelLost) if the bytes cannot come. A model stays in its task: it is no record.

    >>> from engine.model import pack
    >>> package = pack(b"weights", name="tiny")
    >>> descriptor = Descriptor("channels", 1, "tiny", package.layout, origin=0, number=1)
    >>> model = Model(descriptor, lambda timeout: package.contiguous)
    >>> model
    <Model 'tiny' version 1: bytes, 0.0 MB>
    >>> bytes(model.value())
    b'weights'
    """

    def __init__(self, descriptor: Descriptor, fetch: Callable[[float | None], Fetched]) -> None:
        self.descriptor = descriptor
        self._fetch: Callable[[float | None], Fetched] | None = fetch
        self._lock = threading.Lock()
        self._buffer: memoryview | None = None
        self._error: Exception | None = ModelError(self.failure) if self.failure else None
        self._ready_ns: int | None = None

    @property
    def version(self) -> int:
        """The number of the model, which rises with every model of its publisher."""
        return self.descriptor.version

    @property
    def name(self) -> str:
        """The name that its publisher gave it."""
        return self.descriptor.name

    @property
    def size(self) -> int:
        """Bytes of all its files and the padding between them."""
        return self.descriptor.layout.size

    @property
    def failure(self) -> str:
        """The reason why it could not be published and has no bytes; "" of every other model."""
        return self.descriptor.failure

    @property
    def layout(self) -> Layout:
        """The layout of its files, which is known before the bytes come."""
        return self.descriptor.layout

    @property
    def published_ns(self) -> int:
        """When its publisher took it, before reading it, in ns of that host's CLOCK_MONOTONIC."""
        return self.descriptor.published_ns

    @property
    def ready_ns(self) -> int | None:
        """When the bytes were usable in this process, in ns of CLOCK_MONOTONIC; None before."""
        return self._ready_ns

    def wait(self, timeout: float | None = None) -> Model:
        """Wait for the bytes. TimeoutError after `timeout` seconds; another call may wait again."""
        if self._buffer is not None:
            return self
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError(f"{self!r} did not arrive within {timeout} s")
        try:
            if self._buffer is None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                self._buffer = self._fetched(left)
                self._ready_ns = time.monotonic_ns()
        finally:
            self._lock.release()
        return self

    @property
    def buffer(self) -> memoryview:
        """The whole blob: of bytes, an array, a table or a file, exactly its bytes."""
        self.wait()
        buffer = self._buffer
        if buffer is None:
            raise self._released()
        return buffer

    @property
    def files(self) -> Mapping[str, memoryview]:
        """The bytes of each file by its relative POSIX path, without a copy."""
        blob = self.buffer
        return MappingProxyType(
            {file.name: blob[file.offset : file.offset + file.size] for file in self.layout.files}
        )

    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        """The arrays of a state dict, or of every `*.safetensors` file: views, without a copy.

        Types that NumPy does not have come as raw bits: `uint16` for bfloat16. A tensor of a type
        that is not known is refused when it is asked for.
        """
        found: dict[str, npt.NDArray[Any]] = {}
        refused: dict[str, str] = {}
        for name, data in self.files.items():
            if not name.endswith(".safetensors"):
                continue
            tensors = safetensors.read(data, f"{name} of model {self.name!r}")
            if both := (found.keys() | refused.keys()) & tensors.keys():
                raise ModelError(
                    f"tensor {min(both)!r} is in two files of model {self.name!r}, expected one",
                    "read each file by itself: engine.model.safetensors.read(model.files[name])",
                )
            if isinstance(tensors, safetensors.Tensors):
                refused |= tensors.refused
                tensors = tensors.found
            found |= tensors
        if not found and not any(file.name.endswith(".safetensors") for file in self.layout.files):
            raise ModelError(
                f"model {self.name!r} is {self.layout.describe()} without *.safetensors, "
                "expected a state dict or such files",
                "model.value() gives what was published, model.files the bytes of each file",
            )
        return safetensors.Tensors(found, refused) if refused else found

    def value(self) -> Any:
        """The published value, as a view of the bytes.

        It is a memoryview, an array, a `pyarrow.Table`, a dict of arrays, or the `files` of a file
        or folder.
        """
        kind = self.layout.kind
        if kind == "bytes":
            return self.buffer
        if kind == "array":
            return self._array()
        if kind == "table":
            import pyarrow as pa

            return pa.ipc.open_stream(pa.py_buffer(self.buffer)).read_all()
        return self.tensors() if kind == "tensors" else self.files

    def save(self, folder: str | Path) -> Path:
        """Write its files into a new folder, atomically; returns the folder.

        Raises ModelError if there is something already.
        """
        target = Path(folder).absolute()
        files = self.files
        target.parent.mkdir(parents=True, exist_ok=True)
        begun = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            for empty in self.layout.attributes.get("folders", ()):
                (begun / empty).mkdir(parents=True)
            for name, data in files.items():
                (begun / name).parent.mkdir(parents=True, exist_ok=True)
                with (begun / name).open("wb") as file:
                    file.write(data)
            begun.chmod(0o755)
            begun.rename(target)
        except OSError as error:
            raise ModelError(
                f"model {self.name!r} cannot be saved to {str(target)!r}: {error.strerror}",
                "give a folder that does not exist yet",
            ) from error
        finally:
            shutil.rmtree(begun, ignore_errors=True)
        return target

    def release(self) -> None:
        """Release the bytes: the memory is free once no task has a view of them."""
        with self._lock:
            self._buffer = None
            self._fetch = None

    def __repr__(self) -> str:
        what = "not published" if self.failure else self.layout.describe()
        return f"<Model {self.name!r} version {self.version}: {what}>"

    def __reduce__(self) -> Any:
        raise TypeError(REFUSAL)

    def _fetched(self, timeout: float | None) -> memoryview:
        if self._error is not None:
            raise self._error
        if self._fetch is None:
            raise self._released()
        try:
            fetched = memoryview(self._fetch(timeout))
        except TimeoutError:
            raise
        except Exception as error:
            self._error = error  # a model that failed once does not come later
            raise
        if fetched.nbytes != self.size:
            raise ModelError(f"{self!r} arrived with {fetched.nbytes} bytes, expected {self.size}")
        self._fetch = None
        return fetched.cast("B").toreadonly()

    def _released(self) -> ModelError:
        return ModelError(
            f"{self!r} was released in this task, expected one that is held",
            "keep the model while you need its bytes; views that you have stay valid",
        )

    def _array(self) -> npt.NDArray[Any]:
        import numpy as np

        from engine.record.numpy import dtype_of

        attributes = self.layout.attributes
        try:
            dtype, shape = dtype_of(attributes["dtype"]), tuple(attributes["shape"])
            buffer = self.buffer
            if len(buffer) == 0:  # NumPy takes no memory of 0 bytes for, say, (0, 3)
                array: npt.NDArray[Any] = np.empty(shape, dtype, attributes["order"])
                array.flags.writeable = False
            else:
                array = np.ndarray(shape, dtype, buffer, order=attributes["order"])
            return array
        except (KeyError, TypeError, ValueError, SyntaxError) as error:
            raise ModelError(
                f"{self!r} is no array of {dict(attributes)!r:.200}: {error}"
            ) from error


REFUSAL = (
    "a Model cannot travel in a record: its bytes are in this task's node\n\n"
    "hint: emit what you made of it, or its version; broadcast() gives models to a whole operator"
)
