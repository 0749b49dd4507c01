"""The folders of this user that Oka writes to, where the XDG base directory specification has them.

That ignores a path in a variable that is not absolute, as is done here.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """What can be made again: `OKA_CACHE`, or `oka` in the user's cache folder."""
    if own := os.environ.get("OKA_CACHE"):
        return Path(own)
    return _home("XDG_CACHE_HOME", ".cache") / "oka"


def state_folder() -> Path:
    """What programs keep: `$XDG_STATE_HOME/oka`, or `~/.local/state/oka`."""
    return _home("XDG_STATE_HOME", ".local/state") / "oka"


def _home(variable: str, default: str) -> Path:
    folder = Path(os.environ.get(variable, ""))
    return folder if folder.is_absolute() else Path.home() / default
