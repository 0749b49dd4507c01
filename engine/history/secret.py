"""Secrets in texts: passwords, keys and tokens are replaced by `***` before a text is kept.

A secret is found by what stands in front of it (`password=…`), by its form (a private key), or
since a variable of the environment with such a name has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

MASK = "***"


class Secrets:
    """What to leave out of texts: the values of this environment's secrets, and whatever looks so.

    >>> secrets = Secrets({"API_TOKEN": "xyzzy-42"})
    >>> secrets.masked("GET https://me:pass@host/?sig=abc with xyzzy-42")
    'GET https://me:***@host/?sig=*** with ***'
    >>> secrets.masked("{'user': 'me', 'password': 'a b', 'max_tokens': 100}")
    "{'user': 'me', 'password': '***', 'max_tokens': 100}"
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        values: set[str] = set()
        for name, value in environment.items():
            if found := _URL.search(value):
                values.add(found[2])
            if _NAME.search(name) and not _IS_PLACE.search(name) and not value.startswith("/"):
                values.add(value.strip())
        known = {each for each in values if len(each) >= _SHORTEST and each.lower() not in _PLAIN}
        forms = {form for each in known for form in _forms(each)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def masked(self, text: str) -> str:
        """The text without secrets."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = _PRIVATE_KEY.sub(MASK, text)
        text = _URL.sub(rf"\1{MASK}@", text)
        text = _PARAMETER.sub(rf"\1{MASK}", text)
        text = _SCHEME.sub(rf"\1 {MASK}", text)
        text = _ASSIGNED.sub(_without_value, text)
        return _TOKEN.sub(MASK, text)

    def without(self, value: Any) -> Any:
        """The value of JSON with all its texts masked; one under the name of a secret is left out.

        >>> Secrets({}).without({"url": "s3://b", "sasl.password": "x", "sizes": [1, "token=abcd"]})
        {'url': 's3://b', 'sasl.password': '***', 'sizes': [1, 'token=***']}
        """
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            return {
                key: MASK
                if isinstance(each, str) and _NAME.search(str(key))
                else self.without(each)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.without(each) for each in value]
        return value


def _forms(value: str) -> tuple[str, ...]:
    """A text as it is, as Python and JSON show it, and as a part of a URL."""
    return value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")


def _without_value(found: re.Match[str]) -> str:
    quotation = found[3] or ""
    return f"{found[1]}{quotation}{MASK}{quotation}"


_WORDS = (
    r"passw(?:or)?d|passphrase|\bpwd\b|secret|(?:(?<![a-z])|auth|access|api|bearer)tokens?(?![a-z])|"
    r"api[-_.]?key|access[-_.]?key|private[-_.]?key|account[-_.]?key|credential|authorization|"
    r"connection[-_.]?string|[-_.]sas\b"
)
_NAME = re.compile(_WORDS.replace(r"\b", r"(?![a-z])"), re.IGNORECASE)
_IS_PLACE = re.compile(r"(file|path|dir|url|uri|endpoint)$", re.IGNORECASE)
_URL = re.compile(r"(\b[a-zA-Z][\w+.-]{0,20}://[^\s/@:'\"]{0,200}:)([^\s/@'\"]{1,1000})@")
_PARAMETER = re.compile(
    r"([?&](?:sig|signature|token|key|x-(?:amz|goog)-[a-z-]+)=)[^&\s'\"]+", re.IGNORECASE
)
_SCHEME = re.compile(r"\b([Bb]earer|[Bb]asic)\s+(?=[\w.~+/-]*[A-Z\d=])[\w.~+/=-]{8,}")
_ASSIGNED = re.compile(
    rf"((?:{_WORDS})[\w.-]{{0,40}}[\"']?\s{{0,9}}(?:=>|[:=](?!>))\s{{0,9}})"
    r"(?!\*\*\*|-?[\d.]{1,6}\b|none\b|null\b|true\b|false\b|<)"
    r"(([\"'])(?:\\.|(?!\3).)*\3?|(?:(?:bearer|basic|digest)\s+)?[^\s,;&)}\]]+)",
    re.IGNORECASE,
)
"""A name, and a value that is no small number, in quotes or up to a space."""
_TOKEN = re.compile(
    r"\b(?:(?:AKIA|ASIA)[A-Z0-9]{16}|eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]*|gh[pousr]_\w{20,}|"
    r"github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|sk-[\w-]{20,}|hf_\w{20,}|"
    r"AIza[\w-]{30,})"
)
"""Forms of well-known services."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_SHORTEST = 6
_PLAIN = {"false", "disabled", "enabled", "default", "string", "secret", "password", "changeme"}
"""Values that are words of any text."""
