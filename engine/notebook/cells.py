"""Cells of a notebook, seen from the program that runs in them.

Nothing here imports IPython: where there is a notebook, it is loaded.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from html import escape
from typing import Any
from uuid import uuid4


def are_here() -> bool:
    """Whether this process is the kernel of a notebook, whose cells can show HTML."""
    return getattr(_shell(), "kernel", None) is not None


def name_of(file: str) -> str | None:
    """The name of the cell that was compiled as this file, as in `Cell In[3]`; None of others."""
    shell = _shell()
    if shell is None:
        return None
    with suppress(Exception):  # a shell of another kind
        label, name = shell.compile.format_code_name(file)
        return f"{label} {name}"
    return None


class Shown:
    """Something that the running cell shows, in place of what it was before.

    Any thread may change it, also behind the end of the cell. Nothing is raised.
    """

    def __init__(self, text: str) -> None:
        self._id = uuid4().hex
        self._publish(escape(text), text, update=False)

    def change(self, text: str, html: str | None = None) -> None:
        """Show this from now on; a page without HTML shows the text."""
        self._publish(escape(text) if html is None else html, text, update=True)

    def _publish(self, html: str, text: str, *, update: bool) -> None:
        with suppress(Exception):  # the notebook is gone, or its shell is of another kind
            _shell().display_pub.publish(
                {"text/html": html, "text/plain": text},
                transient={"display_id": self._id},
                update=update,
            )


def _shell() -> Any:
    """IPython's shell of this process; None where there is none."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()
