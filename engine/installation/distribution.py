"""The distribution that Oka is installed as. Its packages and its command have other names."""

from __future__ import annotations

DISTRIBUTION = "oka-streams"
"""As in pyproject.toml. The package index has an `oka` that is somebody else's."""


def install_hint(extra: str) -> str:
    """The command to run if a package of the extra is missing.

    pip sees that the distribution itself is installed, and adds the packages of the extra.
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
