"""Checks whether figures can be drawn, before a command measures."""

from __future__ import annotations

from engine.errors import ConfigError
from engine.installation.distribution import install_hint


def check_drawable() -> None:
    """Raise ConfigError if the packages that draw are missing."""
    try:
        from benchmarks import plots  # noqa: F401 - it is only asked for
        from benchmarks.report import page  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"drawing needs the package {error.name}, which is not installed",
            install_hint("report"),
        ) from error
