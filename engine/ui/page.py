"""The server of the page: files, histories as they grow, and actions on the job of this process."""

from __future__ import annotations

import html
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from engine.config import JobConfig
from engine.ui.actions import Actions, RunningJob
from engine.ui.content import Content, page_files
from engine.ui.jobs import Jobs, name_of
from engine.web.guard import ON_EVERY_ANSWER, Guard, Refused
from engine.web.server import HttpServer, QuietHandler, refused


class Page:
    """Shows jobs to the browsers of whoever has the `link`, until it is closed.

    The port is taken when this is made; raises OSError if it cannot be.
    """

    def __init__(self, jobs: Jobs, host: str, port: int, job: RunningJob | None = None) -> None:
        self._jobs = jobs
        self._job = job
        self._actions = None if job is None else Actions(job)
        self._asked = -_WATCHED_SECONDS
        """When somebody was told last that the job runs."""
        self._told = threading.Event()
        """Whether somebody has heard of its end."""
        self._server = HttpServer(host, port, _handler(self), "oka-ui", _MOST_REQUESTS)
        self.guard = Guard(host, self._server.port)

    @property
    def link(self) -> str:
        """The address with the token, which is for nobody else."""
        return self.guard.link

    def close(self) -> None:
        """Answer no more; idempotent. Whoever watches the job hears of its end before."""
        if self._job is not None and time.monotonic() - self._asked < _WATCHED_SECONDS:
            self._told.wait(_WATCHED_SECONDS)
        self._server.close()
        self._jobs.close()

    def listed(self) -> Content:
        """The list of jobs."""
        return self._jobs.listed()

    def records(self, job: str, query: Mapping[str, list[str]]) -> tuple[Content, str]:
        """What is new of a job since the last time that the same page asked."""
        generation, after = (_number(query, name) for name in ("generation", "after"))
        actions = [] if self._actions is None or not self._is_own(job) else self._actions.names
        return self._jobs.answer(job, generation, after or 0, actions)

    def sent(self, state: str) -> None:
        """An answer has been sent that tells of this state of a job."""
        if state == "running":
            self._asked = time.monotonic()
        else:
            self._told.set()

    def act(self, job: str, action: str, body: bytes) -> Content:
        """Have the job do something."""
        self._jobs.check(job)
        if self._actions is None or not self._is_own(job):
            raise Refused(
                409,
                f"{job[:200]!r} is not a job of this process, which only shows it",
                "oka run --ui has the buttons; oka savepoint and oka rescale ask by its folder",
            )
        try:
            given = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise Refused(400, "the body is no JSON object", 'such as {"parallelism": 2}')
        return _in_json({"said": self._actions.act(action, given)})

    def _is_own(self, job: str) -> bool:
        return (
            self._job is not None
            and (path := self._job.history) is not None
            and (name_of(path) == job)
        )


def page(config: JobConfig, job: RunningJob, say: Callable[[str], object]) -> Page | None:
    """The page of a job that its settings ask for; None without. Raises ConfigError."""
    if config.ui_port is None:
        return None

    def own() -> list[Any]:
        return [] if job.history is None else [job.history]

    try:
        found = Page(Jobs(own), _LOOPBACK, config.ui_port, job)
    except OSError as error:
        free = "--ui (ui_port=0)"
        raise refused(error, ("ui_port", config.ui_port), ("host", _LOOPBACK), free) from error
    say(f"oka ui: {found.link}")
    return found


def _handler(page: Page) -> type[QuietHandler]:
    """What answers requests to the page."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - so it is called
            self._answer(self._get)

        def do_POST(self) -> None:  # noqa: N802
            self._answer(self._post)

        def send_error(self, code: int, message: str | None = None, _: str | None = None) -> None:
            """Tell in JSON what http.server refuses by itself."""
            self.close_connection = True
            told = message or HTTPStatus(code).phrase
            self._send(code, _in_json({"error": told, "hint": "it takes GET and POST"}))

        def _answer(self, give: Callable[[], None]) -> None:
            try:
                page.guard.check_host(self.headers)
                give()
            except Refused as error:
                told = _in_json({"error": error.error, "hint": error.hint})
                is_page = error.status == 401 and not self.path.startswith("/api/")
                self._send(error.status, _as_page(error) if is_page else told)
            except OSError:  # the client has gone
                raise
            except Exception as error:  # noqa: BLE001 - it shows up in the browser
                what = f"the server failed: {type(error).__name__}"
                self._send(500, _in_json({"error": what, "hint": "please report it"}))

        def _get(self) -> None:
            path, _, rest = self.path.partition("?")
            try:
                query = parse_qs(rest, max_num_fields=_MOST_FIELDS)
            except ValueError as error:
                raise Refused(400, f"the address is none: {error}", "") from None
            if path == "/" and page.guard.is_token(query.get("token", [""])[-1]):
                more = {"Location": "/", "Set-Cookie": page.guard.setting_cookie}
                self._send(303, Content(b"", _TEXT), more)
                return
            page.guard.check_cookie(self.headers)
            match [unquote(part) for part in path.split("/")[1:]]:
                case [""]:
                    self._send_file("index.html")
                case ["static", *parts]:
                    self._send_file("/".join(parts))
                case ["api", "jobs"]:
                    self._send(200, page.listed())
                case ["api", "jobs", job]:
                    content, state = page.records(job, query)
                    self._send(200, content)
                    page.sent(state)
                case _:
                    raise _nothing_here()

        def _post(self) -> None:
            body = self._body()
            page.guard.check_change(self.headers)
            page.guard.check_cookie(self.headers)
            match [unquote(part) for part in self.path.split("/")[1:]]:
                case ["api", "jobs", job, action]:
                    self._send(200, page.act(job, action, body))
                case _:
                    raise _nothing_here()

        def _body(self) -> bytes:
            """What came with the request. It is read before anything is refused.

            Else the client would find its connection broken rather than the answer.
            """
            length = self.headers.get("Content-Length", "")
            if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
                raise Refused(411, "the request has no length", "it needs Content-Length")
            if len(length) > _MOST_DIGITS or int(length) > _MOST_BYTES:
                self._skip(int(length[:_MOST_DIGITS]))
                raise Refused(413, f"the body has {length[:20]} bytes", f"at most {_MOST_BYTES}")
            return self.rfile.read(int(length))

        def _skip(self, size: int) -> None:
            """Take what is sent of a body that is too large, for the answer to be read."""
            until = time.monotonic() + _SKIPPED_SECONDS
            self.connection.settimeout(_SKIPPED_SECONDS)
            with suppress(OSError):
                while size > 0 and time.monotonic() < until:
                    size -= len(self.rfile.read1(min(size, _SKIPPED_BYTES))) or size
            self.connection.settimeout(self.timeout)

        def _send_file(self, name: str) -> None:
            content = page_files().get(name)
            if content is None:
                raise _nothing_here()
            more = {"ETag": content.etag, "Cache-Control": "no-cache"}
            if content.etag in self.headers.get("If-None-Match", ""):
                self._send(304, Content(b"", content.type), more)
            else:
                self._send(200, content, more)

        def _send(self, status: int, content: Content, more: Mapping[str, str] = {}) -> None:
            body = content.body
            headers = {"Content-Type": content.type, "Cache-Control": "no-store", **more}
            accepted = self.headers.get("Accept-Encoding", "") if hasattr(self, "headers") else ""
            if "gzip" in accepted and (compressed := content.compressed) is not None:
                body = compressed
                headers["Content-Encoding"] = "gzip"
            headers |= {"Vary": "Accept-Encoding", "Content-Length": str(len(body))}
            self.send_response(status)
            for name, value in {**ON_EVERY_ANSWER, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _number(query: Mapping[str, list[str]], name: str) -> int | None:
    """The number of this name; None without one. Raises Refused where it is none."""
    text = query.get(name, [""])[-1]
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise Refused(400, f"{name} is {text[:50]!r}, expected a whole number", "")
    return int(text)


def _nothing_here() -> Refused:
    return Refused(404, "there is nothing at this address", "the page is at /")


def _in_json(told: Mapping[str, Any]) -> Content:
    return Content(json.dumps(told).encode())


def _as_page(error: Refused) -> Content:
    text = f"<!doctype html><title>oka ui</title><h1>Oka</h1><p>{html.escape(error.error)}."
    return Content(f"{text}<p>{html.escape(error.hint)}".encode(), "text/html; charset=utf-8")


_LOOPBACK = "127.0.0.1"
_TEXT = "text/plain; charset=utf-8"
_MOST_REQUESTS = 32
"""At once: a browser has up to six, and an action takes a while."""
_MOST_BYTES = 10_000
"""Of the body of a request."""
_MOST_DIGITS = 18
_MOST_FIELDS = 20
_SKIPPED_BYTES = 1 << 16
_SKIPPED_SECONDS = 0.5
_WATCHED_SECONDS = 5.0
"""How long ago somebody has asked who still watches."""
