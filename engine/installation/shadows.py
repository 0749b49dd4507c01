"""Files of a user that have the name of a package of Oka's.

A module or a package named `oka`, `engine` or `operators` that is found first hides Oka's, and is
refused.
A clone has further packages, which a program can do without: `pipelines`, `benchmarks`, `k8s`.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


def refuse_others() -> None:
    """Raise ImportError if what `import operators` or `import oka` finds is not Oka's."""
    for package in ("operators", "oka"):
        if (file := _other(importlib.util.find_spec(package))) is not None:
            raise ImportError(f"{told(file, package)}\n\nhint: {HINT}")


def is_taken(name: str) -> bool:
    """Whether a module of this name would hide one of Oka, of Python, or of what Oka needs."""
    return importlib.util.find_spec(name) is not None


def hiding(folder: Path) -> tuple[Path, str] | None:
    """A file in the folder that would hide a package of Oka's, and the package."""
    for package in _NEEDED:
        if (file := _other(PathFinder.find_spec(package, [str(folder)]))) is not None:
            return file, package
    return None


def explained(error: ImportError, folder: Path) -> str | None:
    """The error for a failed import in the folder's program, if a name of Oka's is the reason."""
    package, dot, _ = (error.name or "").partition(".")
    file = getattr(sys.modules.get(package), "__file__", None)
    if not dot or file is None or package not in _PACKAGES:
        return None
    if not (_FOLDER / package / "__init__.py").exists():  # as in a wheel
        return None
    if Path(file).resolve().parent.parent != _FOLDER:
        return told(Path(file), package)
    if (folder / package).is_dir():
        return f"Oka's package {package!r}, which is in {_FOLDER}, hides {folder / package}"
    return None


def told(file: Path, package: str) -> str:
    """The message on a file that hides a package."""
    return f"{file} hides Oka's package {package!r}, which is in {_FOLDER}"


def _other(spec: ModuleSpec | None) -> Path | None:
    """The file of a module, unless it lies where Oka's packages do."""
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin)
    return None if file.resolve().parent.parent == _FOLDER else file


HINT = "give it another name; programs need Oka's packages oka, engine and operators"
_NEEDED = ("oka", "engine", "operators")
_PACKAGES = (*_NEEDED, "pipelines", "benchmarks", "k8s")
_FOLDER = Path(__file__).resolve().parents[2]
