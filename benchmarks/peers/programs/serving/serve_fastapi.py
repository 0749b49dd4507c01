"""FastAPI on uvicorn, one process. `serve_fastapi.py PORT CASE`."""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

application = FastAPI()


@application.get("/", response_class=PlainTextResponse)
async def answer() -> str:
    """Answer each request with "ok"."""
    return "ok"


if __name__ == "__main__":
    uvicorn.run(
        application,
        port=int(sys.argv[1]),
        http="httptools",
        loop="uvloop",
        access_log=False,
        log_level="warning",
    )
