"""Programs that the checks run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from engine.errors import ConfigError
from k8s.manifests import FOLDER


def tool(name: str) -> str:
    """Path of a program: the one that the repository installed, or one on the PATH.

    Raises ConfigError if there is none.
    """
    beside = (FOLDER.parent / ".k8s" / "bin", Path(sys.executable).parent)
    for folder in beside:
        if (folder / name).is_file():
            return str(folder / name)
    if found := shutil.which(name):
        return found
    raise ConfigError(
        f"{name} is not installed", "`make k8s-tools` in the repository installs it; it needs Go"
    )
