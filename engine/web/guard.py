"""Who may ask a server that a browser of this machine talks to, and what its answers say.

A page of elsewhere can have the browser send requests to any port of this machine. So a request
has to name this server (which ends DNS rebinding), to have the cookie that only the link with the
token gives, and, if it changes something, to come from a page of this server.
"""

from __future__ import annotations

import hmac
import secrets
from email.message import Message


class Refused(Exception):
    """The status of an answer, and what it tells."""

    def __init__(self, status: int, error: str, hint: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.hint = hint


class Guard:
    """Checks the headers of requests to a server on this host and port."""

    def __init__(self, host: str, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self._cookie = f"oka_token_{port}"
        """Cookies are those of a host, whatever the port: each server has a name of its own."""
        own = "127.0.0.1" if host in _ALL else f"[{host}]" if ":" in host else host.lower()
        self.link = f"http://{own}:{port}/?token={self.token}"
        """The address with the token, which is for nobody else."""
        self._own = f"{own}:{port}"
        names = {"127.0.0.1", "localhost", "[::1]", own}
        self._hosts = {f"{name}:{port}" for name in names} | (names if port == _HTTP else set())

    @property
    def setting_cookie(self) -> str:
        """What has the browser keep the token, out of reach of scripts and of other sites."""
        return f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def is_token(self, given: str) -> bool:
        """Whether it is the token; takes as long wherever they differ."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def check_host(self, headers: Message) -> None:
        """Raise Refused unless the request is meant for this server, by one of its names."""
        found = headers.get_all("Host", [])
        if len(found) != 1 or found[0].lower() not in self._hosts:
            raise Refused(
                403,
                "the request names another host than this server",
                f"open it as {self._own}; a port that is forwarded needs the same number",
            )

    def check_cookie(self, headers: Message) -> None:
        """Raise Refused unless the browser has come by the link with the token."""
        cookies = "; ".join(headers.get_all("Cookie", []))
        pairs = (each.partition("=") for each in cookies.split(";"))
        given = [value.strip() for name, _, value in pairs if name.strip() == self._cookie]
        if not any(self.is_token(each) for each in given):
            raise Refused(
                401,
                "this page needs the link with the token",
                "whatever serves it has printed that on the terminal, as oka ui: http://…",
            )

    def check_change(self, headers: Message) -> None:
        """Raise Refused unless a page of this server asks, by a script."""
        origins, sites = headers.get_all("Origin", []), headers.get_all("Sec-Fetch-Site", [])
        if origins != [f"http://{headers.get('Host', '')}"] or sites != ["same-origin"]:
            raise Refused(
                403,
                "only this page itself may ask for that",
                "requests with a method but GET need its Origin, and Sec-Fetch-Site: same-origin",
            )
        if headers.get_content_type() != "application/json" or "Content-Type" not in headers:
            raise Refused(415, "the request is no JSON", "it needs Content-Type: application/json")


ON_EVERY_ANSWER = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_ALL = ("", "0.0.0.0", "::")  # noqa: S104 - as users give them
"""Hosts that stand for all addresses of the machine."""
_HTTP = 80
"""The port that browsers leave out."""
