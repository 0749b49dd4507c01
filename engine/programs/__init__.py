"""Programs that run beside the job: those in Rust, which `make` builds, and a broker of Kafka."""

import os
from pathlib import Path

from engine.errors import ConfigError


def built(what: str, variable: str, path: Path, how: str) -> Path:
    """The program that the environment's `variable` names, else `path`.

    Raises ConfigError if it does not exist: `what` is not built, and `how` builds it.
    """
    path = Path(os.environ.get(variable, path))
    if not path.exists():
        hint = f"{how}; the environment's {variable} names another"
        raise ConfigError(f"{what} is not built: there is no {path}", hint)
    return path
