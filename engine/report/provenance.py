"""The origin of a figure: the machine, the versions and the commit of its measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from engine.installation.distribution import DISTRIBUTION


@cache
def machine() -> dict[str, Any]:
    """The machine: cores, memory in bytes, processor, kernel."""
    info = Path("/proc/cpuinfo")
    model = next(
        (
            line.partition(":")[2].strip()
            for line in (info.read_text().splitlines() if info.exists() else [])
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Oka, Python and the packages that take part."""
    from importlib import metadata  # it takes as long to import as the rest of this module

    found = {"python": platform.python_version()}
    names = {name: name for name in ("ray", "numpy", "pyarrow", "msgpack", "pyzmq")}
    for package, name in {"oka": DISTRIBUTION, **names}.items():
        try:
            found[package] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """The git commit of the source that runs, or None outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() or None
