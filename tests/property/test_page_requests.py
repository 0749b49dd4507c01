"""Requests to a job's page: whatever lacks the cookie, or comes from elsewhere, gets nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.part import examples
from tests.unit.ui.serving import Browser, Job, page, write

PATHS = ["/", "/?token=", "/api/jobs", "/api/jobs/job", "/api/jobs/job/cancel", "/static/style.css",
         "/static/../page.py", "//", "*", "/%", "http://a/", "/api//jobs"]  # fmt: skip
HEADERS = {
    "Host": ["AT", "AT", "evil.example", "", "AT\r\nHost: evil.example"],
    "Cookie": ["COOKIEx", "COOKI", "; ;=", "a=b"],
    "Origin": ["http://AT", "null", "http://evil.example"],
    "Sec-Fetch-Site": ["same-origin", "cross-site", "none"],
    "Content-Type": ["application/json", "text/plain", ";"],
    "Content-Length": ["0", "2", "-1", "99999999", "0x2", "2, 2"],
    "Transfer-Encoding": ["chunked"],
    "Accept-Encoding": ["gzip"],
    "If-None-Match": ["*"],
}
requests = some.builds(
    lambda method, path, version, headers, body: (
        f"{method} {path} {version}\r\n" + "".join(headers) + f"\r\n{body}"
    ),
    some.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS", "get", ""]),
    some.sampled_from(PATHS) | some.text(max_size=8).map(lambda text: f"/{text}"),
    some.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/9", ""]),
    some.lists(
        some.one_of(
            *(
                some.sampled_from([f"{name}: {value}\r\n" for value in values])
                for name, values in HEADERS.items()
            )
        ),
        max_size=9,
    ),
    some.sampled_from(["", "{}", "x" * 20_000]),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, Browser]]:
    path = Path(tmp_path_factory.mktemp("page")) / "job.oka"
    writer = write(path)
    job = Job(path)
    with page(path.parent, job) as (_, browser):
        yield job, browser
    writer.close()


@settings(deadline=None, max_examples=examples(200))
@given(sent=requests.map(lambda text: text.encode("utf-8", "replace")) | some.binary(max_size=99))
def test_requests_without_the_cookie_get_nothing(served: tuple[Job, Browser], sent: bytes) -> None:
    job, browser = served
    sent = sent.replace(b"AT", browser.at.encode()).replace(b"COOKIE", browser.cookie.encode())
    sent = sent.replace(b"COOKI", browser.cookie[:-1].encode())
    with closing(socket.create_connection(tuple(browser.at.split(":")))) as connection:
        connection.settimeout(60)
        answer = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        except OSError:  # it is not read to its end
            pass
    status = answer.split(b"\r\n")[0]
    assert not any(good in status for good in (b" 200 ", b" 303 ", b" 304 ", b" 500 ")), answer
    assert b"Traceback" not in answer
    assert browser.token.encode() not in answer
    assert job.asked == []
