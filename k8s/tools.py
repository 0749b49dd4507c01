"""External programs: those that the repository installed, or from the PATH."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from engine.errors import ConfigError

ROOT = Path(__file__).parent.parent


def tool(program: str) -> str:
    """Path of a program. Raises ConfigError if there is none."""
    beside = (ROOT / ".k8s" / "bin", Path(sys.executable).parent)
    found = next((each / program for each in beside if (each / program).is_file()), None)
    path = found or shutil.which(program)
    if path is None:
        raise ConfigError(f"{program} is not installed", _INSTALL.get(program, _MAKE))
    return str(path)


def kustomize() -> list[str]:
    """The command that builds an overlay. Raises ConfigError if there is none."""
    if kubectl := shutil.which("kubectl"):
        return [kubectl, "kustomize"]
    return [tool("kustomize"), "build"]


_MAKE = "`make k8s-tools` in the repository installs it; it needs Go"
_INSTALL = {
    "hadolint": "`make build` in the repository installs it",
    "kustomize": f"kubectl, which applies the manifests, has it, too; {_MAKE}",
}
