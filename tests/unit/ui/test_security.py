"""What pages of elsewhere, and programs without the link, get of a job's page: nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.ui.serving import Browser, Job, page, write

pytestmark = pytest.mark.usefixtures("nothing_left")
EVIL = "http://evil.example"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    writer = write(tmp_path / "job.oka")
    yield Job(tmp_path / "job.oka")
    writer.close()


@pytest.fixture
def browser(job: Job) -> Iterator[Browser]:
    with page(job.history.parent, job) as (_, found):
        yield found


def port(browser: Browser) -> str:
    return browser.at.partition(":")[2]


@pytest.mark.parametrize(
    "path", ["/", "/api/jobs", "/api/jobs/job", "/static/index.html", "/?token="]
)
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:PORT", "127.0.0.1.evil.example:PORT", "127.0.0.1", "127.0.0.1:1",
     "0.0.0.0:PORT", "127.0.0.1:PORT, evil.example", "", None],
)  # fmt: skip
def test_a_name_that_was_bound_to_this_machine_is_refused(
    host: str | None, path: str, browser: Browser
) -> None:
    """DNS rebinding: the browser believes that it talks to the page's own site."""
    path = path + browser.token if path.endswith("=") else path
    named = None if host is None else host.replace("PORT", port(browser))
    status, headers, body = browser.ask("GET", path, {"Host": named})
    assert status == 403
    assert "Set-Cookie" not in headers
    assert b"another host" in body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_names_of_this_machine_are_taken(host: str, browser: Browser) -> None:
    named = {"Host": f"{host}:{port(browser)}"}
    assert browser.ask("GET", "/api/jobs", named)[0] == 200
    assert browser.ask("GET", "/", named)[0] == 200


CROSS_SITE = {
    "form of another site": (
        {"Origin": EVIL, "Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}, 403),
    "script of another site": ({"Origin": EVIL, "Sec-Fetch-Site": "cross-site"}, 403),
    "another port of this host": (
        {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403),
    "another name of this host": ({"Origin": "http://localhost:PORT"}, 403),
    "https": ({"Origin": "https://127.0.0.1:PORT"}, 403),
    "an opaque origin": ({"Origin": "null"}, 403),
    "no origin": ({"Origin": None}, 403),
    "two origins": ({"Origin": "http://127.0.0.1:PORT, http://evil.example"}, 403),
    "only the metadata says so": ({"Sec-Fetch-Site": "cross-site"}, 403),
    "typed by a person": ({"Sec-Fetch-Site": "none"}, 403),
    "no metadata": ({"Sec-Fetch-Site": None}, 403),
    "a simple body": ({"Content-Type": "text/plain"}, 415),
    "a body of a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "a body that claims to be both": ({"Content-Type": "text/plain; application/json"}, 415),
    "a body of no type": ({"Content-Type": None}, 415),
    "no cookie": ({"Cookie": None}, 401),
    "a wrong cookie": ({"Cookie": "oka_token_PORT=guess"}, 401),
    "another server's cookie": ({"Cookie": "oka_token_1=TOKEN"}, 401),
    "a cookie that is no text": ({"Cookie": "oka_token_PORT=\xff\xfe"}, 401),
    "an empty cookie": ({"Cookie": "oka_token_PORT="}, 401),
    "another host": ({"Host": "evil.example:PORT", "Origin": "http://evil.example:PORT"}, 403),
}  # fmt: skip


@pytest.mark.parametrize("name", CROSS_SITE)
@pytest.mark.parametrize("action", ["cancel", "savepoint"])
def test_nobody_else_changes_anything(name: str, action: str, browser: Browser, job: Job) -> None:
    changed, status = CROSS_SITE[name]
    headers = {
        header: value and value.replace("PORT", port(browser)).replace("TOKEN", browser.token)
        for header, value in changed.items()
    }
    found, answered, body = browser.ask("POST", f"/api/jobs/job/{action}", headers, b"{}")
    assert (found, job.asked) == (status, [])
    assert {"error", "hint"} <= json.loads(body).keys()
    assert "Access-Control-Allow-Origin" not in answered


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "get"])
def test_other_methods_are_not_there(method: str, browser: Browser, job: Job) -> None:
    status, headers, _ = browser.ask(method, "/api/jobs/job/cancel")
    assert (status, job.asked) == (501, [])
    assert "Access-Control-Allow-Methods" not in headers


def test_reading_an_action_changes_nothing(browser: Browser, job: Job) -> None:
    assert browser.ask("GET", "/api/jobs/job/cancel")[0] == 404
    assert job.asked == []


@pytest.mark.parametrize("path", ["/", "/static/index.html", "/api/jobs", "/api/jobs/job", "/x"])
def test_without_the_cookie_there_is_nothing(path: str, browser: Browser) -> None:
    for cookie in (None, "oka_token=x", f"a=b; oka_token_{port(browser)}=x"):
        status, headers, body = browser.ask("GET", path, {"Cookie": cookie})
        assert status == 401
        assert b"link with the token" in body
        assert browser.token.encode() not in body + bytes(headers)
    assert browser.ask("GET", "/api/jobs", {"Cookie": f"a=b;{browser.cookie} ; c"})[0] == 200


@pytest.mark.parametrize("token", ["", "x", "TOKEN.", "%ff", "%C3%A4", "TOKE"])
def test_a_wrong_token_gives_no_cookie(token: str, browser: Browser) -> None:
    given = token.replace("TOKEN", browser.token).replace("TOKE", browser.token[:-1])
    status, headers, _ = browser.ask("GET", f"/?token={given}", {"Cookie": None})
    assert (status, headers["Set-Cookie"]) == (401, None)


def test_the_token_becomes_a_cookie_that_no_script_reads(browser: Browser) -> None:
    status, headers, body = browser.ask("GET", f"/?token={browser.token}", {"Cookie": None})
    assert (status, headers["Location"], body) == (303, "/", b"")
    cookie, *more = headers["Set-Cookie"].split("; ")
    assert cookie == f"oka_token_{port(browser)}={browser.token}"
    assert set(more) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert len(browser.token) >= 32


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/nothing", "/api/jobs/x", "/?token=x", "/%ff"])
@pytest.mark.parametrize("changed", [{}, {"Cookie": None}, {"Host": "evil.example"}])
def test_each_answer_says_what_the_browser_must_not_do(
    changed: dict[str, str | None], path: str, browser: Browser
) -> None:
    _, headers, _ = browser.ask("GET", path, changed)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'; ")
    assert policy.endswith("frame-ancestors 'none'")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] in ("no-store", "no-cache")
    assert not [name for name in headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    "path",
    ["/static/../page.py", "/static/%2e%2e/page.py", "/static/..%2fpage.py", "/static/",
     "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/index.html%00.js", "/page.py",
     "//etc/passwd", "/static/./index.html", "/static/..\\page.py", "/static",
     "/api/jobs/..%2f..%2fsecret", "/api/jobs/%2e%2e%2fjob", "/api/jobs/../jobs/job",
     "/api/jobs/job.oka", "/api/jobs/", "/api/jobs/%00", "/api/jobs/job/",
     "/api/jobs/%ff", "/api", "http://127.0.0.1/static/index.html", "*"],
)  # fmt: skip
def test_no_path_leads_out(path: str, browser: Browser) -> None:
    status, _, body = browser.ask("GET", path)
    assert status == 404, body
    assert b"import" not in body


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"x" * 10_001, 413),
        ({}, b"x" * 5_000_000, 413),
        ({"Content-Length": "9" * 30}, b"", 413),
        ({"Content-Length": None}, b"", 411),
        ({"Content-Length": "-1"}, b"", 411),
        ({"Content-Length": "1e3"}, b"", 411),
        ({"Transfer-Encoding": "chunked"}, b"2\r\n{}\r\n0\r\n\r\n", 411),
        ({"X": "y" * 70_000}, b"{}", 431),
        ({}, b"[]", 400),
        ({}, b"{", 400),
        ({}, b"[" * 9_000, 400),
        ({}, b"\xff", 400),
        ({}, b'{"name": "x"}', 400),
    ],
    ids=range(13),
)
def test_bodies_that_are_too_large_or_no_objects_are_refused(
    headers: dict[str, str | None], body: bytes, status: int, browser: Browser, job: Job
) -> None:
    found, _, answer = browser.ask("POST", "/api/jobs/job/cancel", headers, body)
    assert (found, job.asked) == (status, [])
    assert {"error", "hint"} <= json.loads(answer).keys()


def test_addresses_that_are_too_long_are_refused(browser: Browser) -> None:
    assert browser.ask("GET", f"/?x={'y' * 70_000}")[0] == 414
    many = "&".join(f"x{at}=1" for at in range(1000))
    assert browser.ask("GET", f"/api/jobs?{many}")[0] == 400


def test_what_is_no_http_is_refused(browser: Browser) -> None:
    for sent in (b"\x16\x03\x01\x00\xee\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n", b""):
        with closing(socket.create_connection(("127.0.0.1", int(port(browser))))) as connection:
            connection.settimeout(60)
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(10_000), b""))
            assert b"200 OK" not in answer
            assert b"Traceback" not in answer
    assert browser.ask("GET", "/api/jobs")[0] == 200
