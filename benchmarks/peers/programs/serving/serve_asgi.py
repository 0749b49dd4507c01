"""A bare ASGI application: uvicorn at its fastest. `serve_asgi.py PORT CASE`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn


async def application(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """Answer each request with "ok"."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b"ok"})


HEADERS = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"2")]

if __name__ == "__main__":
    uvicorn.run(
        application,
        port=int(sys.argv[1]),
        http="httptools",
        loop="uvloop",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
