"""Between `oka.bench/1` and the layout of Volga's published results: `oka bench convert`.

Volga's file is `{"meta": {"scenario"}, "stats": [...]}`; an entry has `msg_size`, `batch_size`,
`parallelism`, `throughput` (messages per second), `latency_ms` (p99, p95, p75, p50, avg),
`num_msgs`, and values of each second: `hist_throughput`, pairs of Unix seconds and messages per
second, and `hist_latency`, pairs of Unix seconds and an object like `latency_ms`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks.schema import results_file
from benchmarks.schema.rows import CLOSED, Row
from engine.errors import ConfigError
from engine.units import counted


@click.command("convert")
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(["volga", "oka"]), required=True, help="Layout of OUT.")
@click.option("--system", help="Only rows of this system (--to volga).")
@click.option("--api", help="Only rows of this API (--to volga).")
def command(source: Path, target: Path, to: str, system: str | None, api: str | None) -> None:
    """Write the result in IN to OUT, in the other layout.

    Volga's layout knows closed load, and one row for each payload, batch size and parallelism.
    """
    if to == "oka":
        if system is not None or api is not None:
            raise click.UsageError("--system and --api choose rows for --to volga")
        result = from_volga(_read(source), str(source))
        results_file.write(target, result)
        click.echo(f"{target}: {counted(len(result['rows']), 'row')}")
        return
    result = results_file.read(source)
    rows = [
        row
        for row in result["rows"]
        if system in (None, row["system"]) and api in (None, row["api"])
    ]
    if not rows:
        raise ConfigError(
            f"{source} has no row of system {system or 'any'} and API {api or 'any'}",
            f"it has {_offer(result) or 'no rows'}",
        )
    converted = to_volga({**result, "rows": rows}, str(source))
    results_file.write_whole(target, (json.dumps(converted, indent=4) + "\n").encode())
    left = len(rows) - len(converted["stats"])
    click.echo(
        f"{target}: {counted(len(converted['stats']), 'row')}"
        + (f"; left out: {counted(left, 'row')} of failures or open load" if left else "")
    )


def to_volga(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A result in Volga's layout, without rows that failed or had an open load.

    A missing value is null, and a missing history is empty. Raises ConfigError if two rows would be
    the same entry.
    """
    stats: dict[tuple[int, int | None, int | None], dict[str, Any]] = {}
    for fields in result["rows"]:
        row = Row.of(fields)
        if row.throughput is None or row.load != CLOSED:
            continue
        cell = (row.payload_bytes, row.batch_size, row.parallelism)
        if cell in stats:
            raise ConfigError(
                f"{name} has several rows for payload {cell[0]}, batch size {cell[1]} and "
                f"parallelism {cell[2]}, expected one",
                f"choose by --system and --api; it has {_offer(result)}",
            )
        stats[cell] = {
            "msg_size": row.payload_bytes,
            "batch_size": row.batch_size,
            "parallelism": row.parallelism,
            "throughput": row.throughput.median,
            "latency_ms": {
                volga: None if (found := _latency(row, ours)) is None else found / 1e3
                for volga, ours in _LATENCIES.items()
            },
            "num_msgs": row.records,
            "hist_throughput": fields.get("throughput_history") or [],
            "hist_latency": [
                [second, {volga: latency[ours] / 1e3 for volga, ours in _LATENCIES.items()}]
                for second, latency in fields.get("latency_us_history") or []
            ],
        }
    scenario = (result.get("settings") or {}).get("scenario", result["benchmark"])
    return {"meta": {"scenario": scenario}, "stats": list(stats.values())}


def from_volga(volga: Any, name: str) -> dict[str, Any]:
    """The result in Volga's layout as `oka.bench/1`; missing values are null.

    The history goes along, in two fields of their own. Raises ConfigError if it is another layout;
    messages call it `name`.
    """
    stats = volga.get("stats") if isinstance(volga, dict) else None
    if not isinstance(stats, list):
        raise ConfigError(f"{name} has no list `stats`, expected Volga's layout", _HINT)
    rows = []
    for at, entry in enumerate(stats):
        try:
            rows.append(_row(entry))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise ConfigError(f"{name}: stats[{at}]: {problem}", _HINT) from error
    scenario = (volga.get("meta") or {}).get("scenario")
    result = {
        "schema": results_file.SCHEMA,
        "benchmark": "word_count",
        "date": None,
        "machine": None,
        "versions": None,
        "commit": None,
        "settings": None if scenario is None else {"scenario": scenario},
        "rows": rows,
    }
    results_file.check(result, name)
    return result


def _row(entry: Mapping[str, Any]) -> dict[str, Any]:
    throughput = float(entry["throughput"])
    return {
        "system": "volga",
        "api": "per_record",
        "runtime": "ray",
        "transport": None,
        "placement": None,
        "encryption": None,
        "payload_bytes": entry["msg_size"],
        "batch_size": entry["batch_size"],
        "parallelism": entry["parallelism"],
        "load": CLOSED,
        "offered": None,
        "runs": 1,
        "throughput": {"median": throughput, "min": throughput, "max": throughput},
        "latency_us": _in_microseconds(entry["latency_ms"]),
        "cpu_seconds_per_million": None,
        "records": entry["num_msgs"],
        "failures": [],
        "histogram": None,
        "throughput_history": entry["hist_throughput"],
        "latency_us_history": [
            [second, _in_microseconds(latency)] for second, latency in entry["hist_latency"]
        ],
    }


def _in_microseconds(latency_ms: Mapping[str, Any]) -> dict[str, float] | None:
    """Latencies in µs; None where the entry has none."""
    if all(latency_ms[volga] is None for volga in _LATENCIES):
        return None
    return {ours: float(latency_ms[volga]) * 1e3 for volga, ours in _LATENCIES.items()}


def _latency(row: Row, field: str) -> float | None:
    """A latency in µs; without a field in the row, it comes from the histogram of all runs."""
    found = (row.latency_us or {}).get(field)
    return row.percentile(float(field[1:])) if found is None and field != "mean" else found


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", _HINT) from error
    except ValueError as error:  # not text, or not JSON
        raise ConfigError(f"{path} is not JSON: {error}", _HINT) from error


def _offer(result: Mapping[str, Any]) -> str:
    return ", ".join(dict.fromkeys(f"{row['system']} {row['api']}" for row in result["rows"]))


_LATENCIES = {"p99": "p99", "p95": "p95", "p75": "p75", "p50": "p50", "avg": "mean"}
"""Volga's names and ours."""
_HINT = "Volga's files have stats: [{msg_size, batch_size, parallelism, throughput, …}]"
