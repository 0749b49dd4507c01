"""Pages over histories that tests write, and what a browser sends to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from engine.deployment.stacks import Stacks
from engine.history.file import SCHEMA, HistoryWriter
from engine.history.places import histories
from engine.history.process import this_process
from engine.history.retention import encoded
from engine.ui.jobs import Jobs
from engine.ui.page import Page

JOB = {"kind": "job", "t": 0.0, "schema": SCHEMA, "name": "words", "since": 1e9}
END = {"kind": "end", "t": 9.0, "state": "finished", "result": {"records": 7}}


def write(path: Path, *more: Mapping[str, Any] | bytes) -> HistoryWriter:
    """The history of a job of this process, which may go on."""
    records = ({**JOB, "process": this_process()}, *more)
    lines = (each if isinstance(each, bytes) else encoded(each) for each in records)
    return HistoryWriter(path, lines)


def wrote(path: Path, *more: Mapping[str, Any] | bytes) -> None:
    """The history of a job that has ended."""
    write(path, *more, END).close()


class Job:
    """A job of this process with a history; it tells what it was asked for."""

    has_checkpoints = True

    def __init__(self, history: Path) -> None:
        self.history = history
        self.asked: list[Any] = []

    def savepoint(self, name: str, *, timeout: float | None = None) -> int:
        self.asked.append(("savepoint", name))
        return 3

    def rescale(self, parallelism: int, *, timeout: float | None = None) -> None:
        self.asked.append(("rescale", parallelism))

    def flame(self, task: str, seconds: float = 5.0) -> Stacks:
        self.asked.append(("flame", task, seconds))
        return Stacks(seconds, 7, (("a (b.py:1)", 7),))

    def stop(self) -> None:
        self.asked.append("stop")

    def cancel(self) -> None:
        self.asked.append("cancel")


class Browser:
    """Asks as the page does; `headers` replace its own, and None leaves one out."""

    def __init__(self, link: str) -> None:
        address = urlsplit(link)
        self.at = address.netloc
        self.token = address.query.partition("=")[2]
        cookie = self.ask("GET", f"/?{address.query}", {"Cookie": None})[1]["Set-Cookie"]
        self.cookie = cookie.partition(";")[0]

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | None] = {},
        body: bytes | None = None,
    ) -> tuple[int, Message, bytes]:
        own: dict[str, str | None] = {"Host": self.at, "Cookie": getattr(self, "cookie", None)}
        if method != "GET":
            own |= {"Origin": f"http://{self.at}", "Sec-Fetch-Site": "same-origin"}
            own |= {"Content-Type": "application/json", "Content-Length": str(len(body or b""))}
        with closing(HTTPConnection(self.at, timeout=60)) as connection:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {**own, **headers}.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def get(self, path: str, **headers: str) -> Any:
        status, _, body = self.ask("GET", path, headers)
        assert status == 200, body
        return json.loads(body)

    def records(self, job: str, query: str = "") -> Any:
        return self.get(f"/api/jobs/{quote(job, safe='')}{query}")

    def act(self, job: str, action: str, **body: Any) -> tuple[int, Any]:
        sent = json.dumps(body).encode()
        status, _, answer = self.ask("POST", f"/api/jobs/{quote(job)}/{action}", body=sent)
        return status, json.loads(answer)


@contextmanager
def page(folder: Path, job: Any = None) -> Iterator[tuple[Page, Browser]]:
    """A page of the histories in a folder, or of one job."""
    found = Page(
        Jobs(lambda: histories(folder) if job is None else [job.history]), "127.0.0.1", 0, job
    )
    try:
        yield found, Browser(found.link)
    finally:
        found.close()
