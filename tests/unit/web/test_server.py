"""A small server: clients that are slow give way to others, and nobody is told much."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from engine.web.server import HttpServer, QuietHandler
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


class Handler(QuietHandler):
    timeout = 0.5

    def do_GET(self) -> None:  # noqa: N802 - so it is called
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    found = HttpServer("127.0.0.1", 0, Handler, "small", 4)
    yield found
    found.close()


def asked(server: HttpServer) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", server.port))) as connection:
        connection.settimeout(60)
        try:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: connection.recv(1000), b""))
        except ConnectionError:
            return b""


def test_clients_that_send_a_byte_now_and_then_give_way(server: HttpServer) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]

    def drip_and_ask() -> bytes:
        for each in slow:
            with suppress(OSError):
                each.sendall(b"G")
        return asked(server)

    assert asked(server) == b""  # all threads are taken
    assert wait_until(drip_and_ask, 60).endswith(b"here")
    for each in slow:
        each.close()


def test_it_says_what_it_is_and_no_more(
    server: HttpServer, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = asked(server)
    assert b"Server: oka " in answer
    assert b"Python" not in answer
    assert capfd.readouterr() == ("", "")
