"""The encodings of text files whose lines are found before they are decoded."""

import codecs

from engine.errors import GraphError


def check_encoding(encoding: str, errors: str) -> None:
    """Raise GraphError unless lines can be found in it as in ASCII."""
    try:
        codecs.lookup_error(errors)
        fits = _ASCII.decode(encoding, "replace") == _ASCII.decode("ascii")
    except LookupError as error:
        raise GraphError(f"{error}, expected a text encoding and an error policy") from None
    if not fits:
        raise GraphError(
            f"encoding is {encoding!r}, expected one that has ASCII as its first half",
            hint="convert the file to UTF-8; its ranges cannot be found in this encoding",
        )


_ASCII = bytes(range(128))
