"""Files in the schema `oka.bench/1`: read and checked, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ConfigError

SCHEMA = "oka.bench/1"


def read(path: Path) -> dict[str, Any]:
    """The result in a file.

    Only the fields of `_REQUIRED` and `_REQUIRED_IN_ROW` are required; all fields have the right
    type. Raises ConfigError with the file, the found and the expected value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{path} cannot be read: {reason}", _HINT) from error
    try:
        result = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is not JSON: {error}", _HINT) from error
    check(result, str(path))
    return dict(result)


def check(result: Any, name: str) -> None:
    """Raise ConfigError if this is no result in `oka.bench/1`; messages call it `name`."""
    if not isinstance(result, Mapping):
        raise ConfigError(f"{name} holds {_short(result)}, expected an object", _HINT)
    schema = result.get("schema")
    if schema != SCHEMA:
        raise ConfigError(f"{name} has the schema {schema!r}, expected {SCHEMA!r}", _HINT)
    _check_fields(result, _REQUIRED, _OPTIONAL, name)
    for at, row in enumerate(result["rows"]):
        place = f"{name}: rows[{at}]"
        if not isinstance(row, Mapping):
            raise ConfigError(f"{place} is {_short(row)}, expected an object", _HINT)
        _check_fields(row, _REQUIRED_IN_ROW, _OPTIONAL_IN_ROW, place)
        for field, parts in _PARTS.items():
            for part in parts if row.get(field) is not None else ():
                value = row[field].get(part)
                if not _is_a(value, (int, float)) or not math.isfinite(value):
                    raise ConfigError(
                        f"{place}: {field}.{part} is {_short(value)}, expected a number", _HINT
                    )


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result in one step: a reader sees the old file or the new one.

    Raises ConfigError if the file cannot be written, or the result is not in `oka.bench/1`.
    """
    check(result, "the result")
    write_whole(path, (json.dumps(result, indent=2) + "\n").encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write any file in one step, and make its folder. Raises ConfigError if that fails."""
    check_writable(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise ConfigError if no file can be written at this path; makes its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: its folder cannot be made: {error.strerror}",
            "name a file in a folder of yours",
        ) from error
    if path.is_dir():
        raise ConfigError(f"{path} cannot be written: it is a folder", "name a file in it")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{path} cannot be written: no permission for its folder",
            "name a file in a folder of yours",
        )


def _check_fields(
    found: Mapping[str, Any],
    required: Mapping[str, tuple[type, ...]],
    optional: Mapping[str, tuple[type, ...]],
    place: str,
) -> None:
    missing = [field for field in required if field not in found]
    if missing:
        raise ConfigError(f"{place} lacks {', '.join(missing)}", _HINT)
    for field, types in {**required, **optional}.items():
        if field in found and not _is_a(found[field], types):
            expected = " or ".join(_NAMES[each] for each in types)
            raise ConfigError(
                f"{place}: {field} is {_short(found[field])}, expected {expected}", _HINT
            )


def _is_a(value: Any, types: tuple[type, ...]) -> bool:
    # In Python a bool is an int; in JSON it is not.
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"


_NULL = type(None)
_REQUIRED: dict[str, tuple[type, ...]] = {"benchmark": (str,), "rows": (list,)}
_OPTIONAL: dict[str, tuple[type, ...]] = {
    "date": (str, _NULL),
    "machine": (dict, _NULL),
    "versions": (dict, _NULL),
    "settings": (dict, _NULL),
    "commit": (str, _NULL),
}
_REQUIRED_IN_ROW: dict[str, tuple[type, ...]] = {
    "system": (str,),
    "api": (str, _NULL),
    "payload_bytes": (int,),
    "batch_size": (int, _NULL),
    "parallelism": (int, _NULL),
    "throughput": (dict, _NULL),
    "latency_us": (dict, _NULL),
}
_OPTIONAL_IN_ROW: dict[str, tuple[type, ...]] = {
    "runtime": (str, _NULL),
    "transport": (str, _NULL),
    "placement": (str, _NULL),
    "encryption": (bool, _NULL),
    "load": (str, _NULL),
    "offered": (int, float, _NULL),
    "runs": (int, _NULL),
    "cpu_seconds_per_million": (dict, _NULL),
    "records": (int, _NULL),
    "failures": (list,),
    "histogram": (str, _NULL),
    "nodes": (int, _NULL),
    "rate_bits_per_second": (int, float, _NULL),
}
_PARTS = {
    "throughput": ("median", "min", "max"),
    "cpu_seconds_per_million": ("median", "min", "max"),
    "latency_us": ("mean", "p50", "p99"),
}
_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    _NULL: "null",
}
_HINT = "`oka bench word-count --json FILE` writes such files; benchmarks/README.md describes them"
_MOST_SHOWN = 60
