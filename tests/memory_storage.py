"""Files of checkpoints in a dict."""

from __future__ import annotations

from collections.abc import Iterable

from engine.checkpoint import Storage
from engine.errors import StorageError


class MemoryStorage(Storage):
    """A storage that nothing outlives."""

    url = "memory"

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = {} if files is None else files

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        self.files[name] = b"".join(parts)

    def get(self, name: str) -> bytes:
        if name not in self.files:
            raise StorageError(f"{name}: no such file", code="NotFound")
        return self.files[name]

    def create(self, name: str, data: bytes) -> bool:
        is_new = name not in self.files
        self.files.setdefault(name, data)
        return is_new

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(f"{prefix}/"))

    def delete(self, names: Iterable[str]) -> None:
        for name in list(names):
            self.files.pop(name, None)
