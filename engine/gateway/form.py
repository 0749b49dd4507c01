"""Bodies that are forms: `multipart/form-data`, as RFC 7578 has it.

The standard library reads the headers. It does not read the body: as mail, a part that is a message
or has parts itself would come out as what is in it, not as its bytes.
"""

from __future__ import annotations

import re
from email.message import Message
from email.parser import HeaderParser
from typing import NamedTuple


class Part(NamedTuple):
    """A field or a file of a form."""

    name: str
    filename: str | None
    """None for a field."""
    content_type: str
    content: bytes
    """As it came, whatever it is."""


def parts_of(kind: str, body: bytes) -> list[Part]:
    """The parts of a body of this content type. Raises ValueError where it has none."""
    told = Message()
    told["content-type"] = kind
    if told.get_content_type() != "multipart/form-data":
        raise ValueError(f"content-type is {kind!r:.80}, expected multipart/form-data")
    boundary = told.get_boundary()
    if not boundary:
        raise ValueError(f"content-type is {kind!r:.80}, expected a boundary in it")
    mark = re.escape(boundary.encode("latin-1", "replace"))
    # The line break in front of a boundary belongs to it, and the first may do without.
    *pieces, _ = _split(re.compile(rb"(?:\A|\r\n)--" + mark + rb"(--|[ \t]*(?=\r\n))"), body)
    if not pieces:
        raise ValueError("the body has no parts")
    return [_part(piece) for piece in pieces]


def _split(boundary: re.Pattern[bytes], body: bytes) -> list[bytes]:
    """The bytes between boundaries, and at the end those after the last one."""
    found: list[bytes] = []
    begun = None
    for match in boundary.finditer(body):
        if begun is not None:
            found.append(body[begun : match.start()])
        begun = match.end()
        if match[1] == b"--":
            return [*found, body[begun:]]
    raise ValueError("the body has no parts, or is broken off")


def _part(piece: bytes) -> Part:
    """Of headers and content, with an empty line between."""
    head, found, content = piece.partition(b"\r\n\r\n")
    if not found:
        raise ValueError("a part is broken off in its headers")
    try:
        lines = head.decode()
    except UnicodeDecodeError:
        lines = head.decode("latin-1")
    told = HeaderParser().parsestr(lines.lstrip("\r\n"))
    name = told.get_param("name", "", "content-disposition")
    if isinstance(name, tuple):  # name*=utf-8''…
        name = name[2]
    return Part(str(name), told.get_filename(), told.get_content_type(), content)
