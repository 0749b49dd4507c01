"""What is sent to the browser: bytes of a type, compressed once; and the files of the page."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache, cached_property
from pathlib import Path


class Content:
    """The body of an answer."""

    def __init__(self, body: bytes, content_type: str = "application/json") -> None:
        self.body = body
        self.type = content_type

    @cached_property
    def compressed(self) -> bytes | None:
        """The body by gzip; None where it is too short to gain by that."""
        return gzip.compress(self.body, _LEVEL, mtime=0) if len(self.body) > _SHORT else None

    @cached_property
    def etag(self) -> str:
        """What tells it from other contents."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


@cache
def page_files() -> dict[str, Content]:
    """All files of the page, by their paths below `static`; nothing else is ever read."""
    found = {}
    for path in sorted(_FOLDER.rglob("*")):
        if path.is_file():
            name = path.relative_to(_FOLDER).as_posix()
            found[name] = Content(path.read_bytes(), _TYPES.get(path.suffix, _UNKNOWN))
    return found


_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_UNKNOWN = "text/plain; charset=utf-8"
_LEVEL = 1
"""The fastest: histories are megabytes, and the way is short."""
_SHORT = 1000
