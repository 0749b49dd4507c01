"""Models whose bytes are made as they are needed, so that a test holds none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engine.model import Layout, Package, Part


def generated(
    files: Mapping[str, tuple[int, Callable[[], Iterable[Any]]]], name: str = "model"
) -> Package:
    """A package of files of these sizes; `buffers()` gives a file's bytes, in any pieces."""
    layout = Layout.of("folder", [(file, size) for file, (size, _) in files.items()])
    parts = [
        Part(file.name, file.offset, file.size, buffers=files[file.name][1])
        for file in layout.files
    ]
    return Package(name, layout, tuple(parts))
